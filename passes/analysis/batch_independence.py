"""Decide whether an operation of a graph computes the items of a batch independently.

Each operation has a rule of its own among its traits (`nnefc.ops.core.batch_rules`).
"""

from __future__ import annotations

from nnefc.ir import Attribute, Op
from nnefc.ops.core.batch_rules import Rows
from nnefc.ops.tools.table import operations, traits_of


def separable_rows(op: Op, rows: Rows, batch: int) -> int:
    """Rows of the results of `op`, whose operands have `rows`; 0 if it is not separable."""
    spec = operations().get(op.name)
    if spec is None or spec.traits.batch is None:
        return 0
    result = spec.traits.batch(op, rows, batch)
    fits = all(v.type.shape and v.type.shape[0] == result * batch for v in op.outputs)
    return result if fits else 0


def resized_attributes(op: Op, rows: int, items: int) -> dict[str, Attribute]:
    """The attributes of a separable operation for `items` items, with `rows` rows each."""
    rule = traits_of(op).resized
    return dict(op.attributes) if rule is None else rule(op, rows * items)
