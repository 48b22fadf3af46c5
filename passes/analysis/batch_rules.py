"""Operations that compute the items of a batch independently of each other.

`nnefc.ops.core.batch` has the definition; the rules are traits of the operations.
"""

from __future__ import annotations

from nnefc.ir import Attribute, Op
from nnefc.ops.core.batch import Rows
from nnefc.ops.tools.table import operations


def separable(op: Op, rows: Rows, batch: int) -> int:
    """Rows of the results of `op`, whose operands have `rows`; 0 if it is not separable."""
    spec = operations().get(op.name)
    if spec is None or spec.traits.batch is None:
        return 0
    result = spec.traits.batch(op, rows, batch)
    fits = all(v.type.shape and v.type.shape[0] == result * batch for v in op.outputs)
    return result if fits else 0


def resized(op: Op, rows: int, items: int) -> dict[str, Attribute]:
    """The attributes of a separable operation for `items` items, with `rows` rows each."""
    attributes = dict(op.attributes)
    first = rows * items
    if op.name == "reshape":
        shape = (first, *op.output.type.dims[1:])
        return {**attributes, "shape": shape, "axis_start": 0, "axis_count": -1}
    for name in ("output_shape", "scores", "extents", "sizes"):
        if attributes.get(name):
            attributes[name] = (first, *attributes[name][1:])
    return attributes
