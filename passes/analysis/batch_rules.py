"""Which operations compute the items of a batch one apart from the other.

An operation is separable if it gives, for every slice of its operands along dimension 0, the same
slice of its results.  A slice is that of one item: `rows` of a tensor are how many extents along
dimension 0 belong to an item, as in a tensor [batch * rows, ...]; 0 says that the tensor is the
same for every item (weights, a mean over the batch).  Row-major or blocked, slices lie in memory
one after the other.

What has no rule here is not separable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from nnefc.ir import Attribute, Op, Value
from nnefc.ir.expression import taken
from nnefc.ops.core.views import Place
from nnefc.ops.extended.resampling import changed_axes
from nnefc.ops.internal import attention, fused_views
from nnefc.passes.base import is_elementwise

Rows = Sequence[int]
"""Of every operand, or result; 0 for one that all items share."""

Rule = Callable[[Op, Rows, int], int]
"""`rule(op, rows of the operands, batch)`: rows of the results, 0 if `op` is not separable."""


def separable(op: Op, rows: Rows, batch: int) -> int:
    """Rows of the results of an operation on some operands that have rows; 0: not separable."""
    rule = _elementwise if is_elementwise(op) else _RULES.get(op.name)
    found = rule(op, rows, batch) if rule is not None else 0
    fits = all(v.type.shape and v.type.shape[0] == found * batch for v in op.outputs)
    return found if fits else 0


def resized(op: Op, rows: int, items: int) -> dict[str, Attribute]:
    """The attributes of a separable operation for so many items instead of the batch."""
    attributes = dict(op.attributes)
    first = rows * items
    if op.name == "reshape":
        shape = (first, *op.output.type.dims[1:])
        return {**attributes, "shape": shape, "axis_start": 0, "axis_count": -1}
    for name in ("output_shape", "scores", "extents", "sizes"):
        if attributes.get(name):
            attributes[name] = (first, *attributes[name][1:])
    return attributes


def _first(op: Op, rows: Rows, batch: int) -> int:
    """Only the first operand has items."""
    return rows[0] if not any(rows[1:]) else 0


def _every(op: Op, rows: Rows, batch: int) -> int:
    """All operands have items, with as many rows."""
    return rows[0] if all(n == rows[0] for n in rows) else 0


def _aligned(operands: Sequence[Value], rows: Rows, wanted: int) -> bool:
    """Whether operands broadcast with a tensor of `wanted` rows item by item."""
    return all(r == wanted or (not r and _repeats(v)) for v, r in zip(operands, rows, strict=True))


def _repeats(value: Value) -> bool:
    """Whether `value` broadcasts along dimension 0."""
    return value.type.dims[:1] in ((), (1,))


def _elementwise(op: Op, rows: Rows, batch: int) -> int:
    most = max(rows)
    return most if _aligned(op.inputs, rows, most) else 0


def _then_expression(rule: Rule) -> Rule:
    """An operation that applies an expression to its result and further operands."""

    def both(op: Op, rows: Rows, batch: int) -> int:
        count = taken(op)
        found = rule(op, rows[:count], batch)
        return found if _aligned(op.inputs[count:], rows[count:], found) else 0

    return both


def _window(rule: Rule) -> Rule:
    """A window that looks at one extent of dimension 0 at a time, and at each of them once."""

    def checked(op: Op, rows: Rows, batch: int) -> int:
        a = op.attributes
        alone = a["size"][0] == 1 and (not a.get("stride") or a["stride"][0] == 1)
        unpadded = not a.get("padding") or tuple(a["padding"][0]) == (0, 0)
        return rule(op, rows, batch) if alone and unpadded else 0

    return checked


def _axes(op: Op, rows: Rows, batch: int) -> int:
    """Dimension 0 is none of the axes."""
    return rows[0] if all(axis > 0 for axis in op.attributes["axes"]) else 0


def _axis(op: Op, rows: Rows, batch: int) -> int:
    return _every(op, rows, batch) if op.attributes["axis"] > 0 else 0


def _reshape(op: Op, rows: Rows, batch: int) -> int:
    """The items stay in order, so that those of a slice do if dimension 0 can be cut."""
    first = op.output.type.dims[:1]
    return first[0] // batch if first and first[0] % batch == 0 else 0


def _transpose(op: Op, rows: Rows, batch: int) -> int:
    return rows[0] if op.attributes["axes"][:1] in ((), (0,)) else 0


def _stft(op: Op, rows: Rows, batch: int) -> int:
    return _first(op, rows, batch) if op.attributes["axis"] > 0 else 0


def _pad(op: Op, rows: Rows, batch: int) -> int:
    return rows[0] if tuple(op.attributes["padding"][0]) == (0, 0) else 0


def _tile(op: Op, rows: Rows, batch: int) -> int:
    return rows[0] if op.attributes["repeats"][0] == 1 else 0


def _resize(op: Op, rows: Rows, batch: int) -> int:
    return rows[0] if 0 not in changed_axes(op.inputs[0].type.dims, op.attributes) else 0


def _gather(op: Op, rows: Rows, batch: int) -> int:
    """Indices that all items share, or a table that they do."""
    table, indices = rows
    if op.attributes["axis"] == 0:
        return indices if not table else 0
    return table if not indices else 0


def _gather_nd(op: Op, rows: Rows, batch: int) -> int:
    """Each item indexes itself, or a table that they share."""
    table, indices = rows
    if op.attributes["batch_dims"] > 0:
        return _every(op, rows, batch)
    return indices if not table and op.inputs[1].type.rank > 1 else 0


def _matmul(op: Op, rows: Rows, batch: int) -> int:
    """Matrices of the batch, or rows of a matrix."""
    most = max(rows)
    if op.output.type.rank > 2:
        return most if _aligned(op.inputs[:2], rows, most) else 0
    return rows[0] if not rows[1] and not op.attributes["transposeA"] else 0


def _attention(op: Op, rows: Rows, batch: int) -> int:
    """Queries, keys and values of an item lie in its slice of the operands, or are shared."""
    if len(op.attributes["scores"]) < 3:
        return 0
    return _places(attention.places(op), rows, batch)


def _fused_views(op: Op, rows: Rows, batch: int) -> int:
    return _places(fused_views.places(op), rows, batch)


def _places(places: list[Place], rows: Rows, batch: int) -> int:
    """Those of operands and results, which begin with the same dimension."""
    found, rest = divmod(places[0].shape[0], batch)
    if rest:
        return 0
    rows = [*rows, *[found] * (len(places) - len(rows))]
    for place, has_rows in zip(places, rows, strict=True):
        first, *strides = place.where
        if not has_rows:
            if strides[0]:
                return 0
            continue
        extents = (found, *place.shape[1:])
        reach = first + sum(s * (n - 1) for s, n in zip(strides, extents, strict=True))
        size = place.value.type.volume // batch
        if strides[0] * found != size or reach >= size:
            return 0
    return found


_RULES: Final[Mapping[str, Rule]] = {
    "fused": _elementwise,
    "conv": _first,
    "deconv": _first,
    "fused_conv": _then_expression(_first),
    "fused_deconv": _then_expression(_first),
    "matmul": _matmul,
    "fused_matmul": _then_expression(_matmul),
    "fused_views": _fused_views,
    "attention": _then_expression(_attention),
    "mean_variance_normalization": _axes,
    "fused_mean_variance_normalization": _then_expression(_axes),
    "multilinear_upsample": _first,
    **dict.fromkeys(
        ("box", "debox", "max_pool", "max_pool_with_index", "argmax_pool"), _window(_first)
    ),
    "local_response_normalization": _window(_first),
    **dict.fromkeys(("sample", "desample"), _window(_every)),
    **dict.fromkeys(
        [
            *(f"{kind}_reduce" for kind in ("sum", "max", "min", "argmax", "argmin", "all", "any")),
            *("product_reduce", "argmax_reduce_last", "argmin_reduce_last"),
            *("softmax", "squeeze", "unsqueeze", "slice"),
        ],
        _axes,
    ),
    **dict.fromkeys(("split", "unstack", "concat", "stack"), _axis),
    **dict.fromkeys(("gather_elements", "scatter_elements", "topk", "fft"), _axis),
    "grid_sample": _every,
    "stft": _stft,
    **dict.fromkeys(("layout", "shuffle_channels", "copy_n"), _every),
    "reshape": _reshape,
    "transpose": _transpose,
    "pad": _pad,
    "resize": _resize,
    "tile": _tile,
    "gather": _gather,
    "gather_nd": _gather_nd,
}
"""By operation."""
