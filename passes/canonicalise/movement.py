"""Rules of `canonicalise` for data movement: reshapes, transposes, slices, concatenations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from nnefc.ir import Op, Value
from nnefc.ops.standard.reshape_transpose import permutation
from nnefc.ops.standard.slice_pad_tile_gather import Indices, slice_ranges
from nnefc.ops.standard.split_concat import split_sizes
from nnefc.ops.tools.table import operations
from nnefc.passes.canonicalise.rules import NewOp, Result, rule, same_type
from nnefc.passes.op_queries import is_view, producer

# -- reshapes

_VIEWS: Final = [name for name, spec in operations().items() if spec.traits.view]


@rule(*_VIEWS)
def _view(op: Op) -> Result:
    """Remove reshapes to the same shape; merge consecutive views."""
    source = op.inputs[0]
    if source.type == op.output.type:
        return [source]
    inner = source.op
    if inner is not None and is_view(inner):
        return _reshape(inner.inputs[0], op)
    return None


def _reshape(source: Value, op: Op) -> NewOp:
    """A reshape of `source` to the shape of the result of `op`."""
    return NewOp("reshape", [source], {"shape": op.output.type.dims})


# -- transposes


@rule("transpose")
def _transpose(op: Op) -> Result:
    """Remove identities; move singular dimensions by a reshape; merge consecutive transposes."""
    source = op.inputs[0]
    order = _order(op)
    if order == sorted(order):
        return [source]
    dims = source.type.dims
    large = [d for d in order if dims[d] != 1]
    if large == sorted(large):
        return _reshape(source, op)
    inner = producer(source, "transpose")
    if inner is None:
        return None
    first = _order(inner)
    return NewOp("transpose", inner.inputs, {"axes": tuple(first[d] for d in order)})


def _order(op: Op) -> list[int]:
    """The axes of a transpose, for all dimensions."""
    return list(permutation(op.attributes["axes"], op.output.type.rank))


@rule("matmul")
def _transposed_operand(op: Op) -> Result:
    """Replace a transpose of rows and columns by the flag of the product."""
    inputs, attributes = list(op.inputs), dict(op.attributes)
    for index, name in enumerate(("transposeA", "transposeB")):
        inner = producer(inputs[index], "transpose")
        if inner is None:
            continue
        *batch, rows, columns = range(inner.output.type.rank)
        if _order(inner) == [*batch, columns, rows]:
            inputs[index] = inner.inputs[0]
            attributes[name] = not attributes[name]
    return None if inputs == list(op.inputs) else NewOp("matmul", inputs, attributes)


# -- slices and concatenations


class _Piece(NamedTuple):
    """Items `start` to `stop` of `source` along one axis, and all along the others."""

    source: Value
    start: int
    stop: int


def _piece(value: Value, axis: int) -> _Piece:
    """The piece that a split or slice takes along `axis`; else all of `value`."""
    op = producer(value, "split", "slice")
    if op is None:
        return _Piece(value, 0, value.type.dims[axis])
    if op.name == "split" and op.attributes["axis"] == axis:
        sizes = split_sizes(op.inputs[0].type.dims[axis], op.attributes["ratios"])
        start = sum(sizes[: value.index])
        return _Piece(op.inputs[0], start, start + sizes[value.index])
    if op.name == "slice":
        taken = _ranges(op)
        dims = op.inputs[0].type.dims
        others = all(r.take_all(n) for d, (r, n) in enumerate(zip(taken, dims)) if d != axis)
        if others and taken[axis].step == 1:
            return _Piece(op.inputs[0], taken[axis].start, taken[axis].stop)
    return _Piece(value, 0, value.type.dims[axis])


def _ranges(op: Op) -> list[Indices]:
    a = op.attributes
    return slice_ranges(op.inputs[0].type.dims, a["axes"], a["begin"], a["end"], a["stride"])


def _cut(source: Value, ranges: Sequence[Indices]) -> Result:
    """The slice of `source` along ranges of step 1."""
    cut = [(d, r) for d, r in enumerate(ranges) if not r.take_all(source.type.dims[d])]
    if not cut:
        return [source]
    attributes = {
        "axes": tuple(d for d, _ in cut),
        "begin": tuple(r.start for _, r in cut),
        "end": tuple(r.stop for _, r in cut),
    }
    return NewOp("slice", [source], attributes)


@rule("slice")
def _slice(op: Op) -> Result:
    """Remove slices of everything; merge slices with slices, splits and concatenations."""
    ranges = _ranges(op)
    if any(taken.step != 1 for taken in ranges):
        # with a step only a slice of a singular dimension may be removed
        return None if any(r.step < 0 for r in ranges) else same_type(op, op.inputs[0])
    whole = same_type(op, op.inputs[0])
    return whole or _slice_of_slice(op, ranges) or _slice_of_concat(op, ranges)


def _slice_of_slice(op: Op, ranges: list[Indices]) -> Result:
    """One slice of the operand of a slice or split."""
    (source,) = op.inputs
    if producer(source, "slice") is not None:
        assert source.op is not None
        inner = _ranges(source.op)
        if any(taken.step != 1 for taken in inner):
            return None
    elif producer(source, "split") is not None:
        assert source.op is not None
        axis = source.op.attributes["axis"]
        _, start, stop = _piece(source, axis)
        inner = [Indices(0, extent) for extent in source.type.dims]
        inner[axis] = Indices(start, stop)
    else:
        return None
    both = [Indices(i.start + r.start, i.start + r.stop) for i, r in zip(inner, ranges)]
    return _cut(source.op.inputs[0], both)


def _slice_of_concat(op: Op, ranges: list[Indices]) -> Result:
    """A slice of one operand of a concatenation, if the slice lies within it."""
    joined = producer(op.inputs[0], "concat")
    if joined is None:
        return None
    axis: int = joined.attributes["axis"]
    start = 0
    for value in joined.inputs:
        stop = start + value.type.dims[axis]
        taken = ranges[axis]
        if start <= taken.start and taken.stop <= stop:
            ranges[axis] = Indices(taken.start - start, taken.stop - start)
            return _cut(value, ranges)
        start = stop
    return None


@rule("split")
def _split(op: Op) -> Result:
    """Remove splits into one chunk, and splits of a concatenation of the same chunks."""
    if len(op.outputs) == 1:
        return list(op.inputs)
    joined = producer(op.inputs[0], "concat")
    if joined is None or joined.attributes["axis"] != op.attributes["axis"]:
        return None
    same = [v.type for v in joined.inputs] == [v.type for v in op.outputs]
    return list(joined.inputs) if same else None


@rule("concat")
def _concat(op: Op) -> Result:
    """Replace a concatenation of adjacent pieces of one tensor by a slice of it."""
    axis = op.attributes["axis"]
    if len(op.inputs) == 1:
        return list(op.inputs)
    source, start, stop = _piece(op.inputs[0], axis)
    for value in op.inputs[1:]:
        piece = _piece(value, axis)
        if piece.source is not source or piece.start != stop:
            return None
        stop = piece.stop
    ranges = [Indices(0, extent) for extent in source.type.dims]
    ranges[axis] = Indices(start, stop)
    return _cut(source, ranges)


@rule("stack")
def _stack(op: Op) -> Result:
    """Replace a stack of one tensor by `unsqueeze`."""
    axes = (op.attributes["axis"],)
    return NewOp("unsqueeze", op.inputs, {"axes": axes}) if len(op.inputs) == 1 else None


@rule("unstack")
def _unstack(op: Op) -> Result:
    """Replace an `unstack` with one result by `squeeze`."""
    axes = (op.attributes["axis"],)
    return NewOp("squeeze", op.inputs, {"axes": axes}) if len(op.outputs) == 1 else None


# -- repetitions


@rule("tile")
def _tile(op: Op) -> Result:
    """Remove tiles that repeat nothing."""
    return same_type(op, op.inputs[0])


def _untiled(op: Op) -> Result:
    """Remove tiles of operands that broadcasting repeats anyway."""
    inputs = list(op.inputs)
    for i, value in enumerate(inputs):
        inner = producer(value, "tile")
        if inner is None:
            continue
        source = inner.inputs[0]
        pairs = zip(source.type.dims, inner.attributes["repeats"], strict=True)
        others = [v.type.dims for d, v in enumerate(inputs) if d != i]
        if all(e == 1 or r == 1 for e, r in pairs) and op.output.type.dims in others:
            inputs[i] = source
    return None if inputs == list(op.inputs) else NewOp(op.name, inputs, op.attributes)


for _name, _spec in operations().items():
    if _spec.elementwise and _spec.expand is None and not _spec.chooses_type and _name != "copy":
        rule(_name)(_untiled)


@rule("max_reduce", "min_reduce", "all_reduce", "any_reduce")
def _reduce(op: Op) -> Result:
    """Remove reductions of singular axes (not sums, which may turn -0.0 into 0.0)."""
    return same_type(op, op.inputs[0])
