"""Decide whether an operation of a graph can compute on channel-blocked tensors.

Each operation has a rule of its own among its traits (`nnefc.ops.core.blocked_rules`).  This
module adds the limits of the layout, and conditions on operands that broadcast.
"""

from __future__ import annotations

import math
from typing import Final

from nnefc.ir import Blocked, Graph, Op, Shape, TensorType, Value
from nnefc.ir.convolution_algorithm import Direct
from nnefc.ops.core.blocked_rules import has_blocked_kernels
from nnefc.ops.core.border_taps import leaves_out_border, leaves_out_taps
from nnefc.ops.core.window_arithmetic import Padding, convolution_groups
from nnefc.ops.internal import code_resize
from nnefc.ops.tools.convolution import is_blocked_convolution, is_code_convolution, window_of
from nnefc.ops.tools.table import operations, traits_of
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.op_queries import is_elementwise
from nnefc.symbolic.integers import hint, is_symbolic, largest, smallest

MAX_PLANE: Final = 1 << 24
"""Most pixels of a plane with its halo: tables have an entry for each, and offsets are int32."""
MAX_REACH: Final = 1 << 31
"""Most bytes of the channels that a sum runs over: int32 offsets must reach all of them."""
SMALL_PLANE, MAX_GROWTH = 1 << 16, 16
"""Planes of more than SMALL_PLANE pixels may grow by a factor of MAX_GROWTH with their halo."""
MAX_RANK: Final = 8
"""Most dimensions of a blocked tensor: kernels have loops for no more."""
MAX_CACHED_BYTES: Final = 8 << 20
"""Most bytes of an operand that stays in the caches during a change of layout and back."""


def can_be_blocked(type_: TensorType) -> bool:
    """Whether a tensor of this type may have a blocked layout."""
    return has_blocked_kernels(type_.dtype) and 3 <= type_.rank <= MAX_RANK


def can_use_blocks(op: Op, known: KnownValues) -> bool:
    """Whether `op`, which is not a convolution, can compute on blocked tensors."""
    if not all(can_be_blocked(v.type) for v in op.outputs):
        return False
    values = (*op.inputs, *op.outputs)
    return _has_rule(op, known) and all(_plane(v.type.dims) <= MAX_PLANE for v in values)


def _has_rule(op: Op, known: KnownValues) -> bool:
    """`can_use_blocks`, without the limits of planes."""
    spec = operations().get(op.name)
    if spec is None or spec.traits.blocked is None or not spec.traits.blocked(op):
        return False
    return _first_broadcast(op) is None or is_blockable_elementwise(op, known)


def profits_from_blocks(op: Op, block: int, known: KnownValues) -> bool:
    """Whether `op` is so much faster on blocked tensors that layout conversions pay off."""
    if not traits_of(op).prefers_blocked or math.prod(op.attributes["size"]) == 1:
        return False
    if hint(op.inputs[0].type.nbytes) > MAX_CACHED_BYTES:
        return False
    return op.output.type.rank > 1 and op.output.type.dims[1] >= block and can_use_blocks(op, known)


def _enlarges_for_convolutions(op: Op, block: int, known: KnownValues) -> bool:
    """Whether `op` enlarges a tensor for blocked convolutions alone.

    The change of layout is cheaper before it.
    """
    if len(op.inputs) != 1 or len(op.outputs) != 1 or not traits_of(op).blocked:
        return False
    if hint(op.inputs[0].type.nbytes) >= hint(op.output.type.nbytes):
        return False
    has_channels = op.output.type.rank > 1 and op.output.type.dims[1] >= block
    return has_channels and can_use_blocks(op, known) and _only_convolved(op.output, known)


def _only_convolved(value: Value, known: KnownValues) -> bool:
    """Whether only blocked convolutions read a value, or concatenations for such ones."""
    pending, seen = [value], {value}
    while pending:
        value = pending.pop()
        if not value.users:
            return False
        for user in value.users:
            if is_blocked_convolution(user) and user.inputs[0] is value:
                continue
            if user.name != "concat" or not can_use_blocks(user, known):
                return False
            if user.output not in seen:
                seen.add(user.output)
                pending.append(user.output)
    return True


def blocked_operations(graph: Graph, known: KnownValues, block: int) -> dict[Op, None]:
    """The operations that compute on blocked tensors, in order."""
    chosen: dict[Op, None] = {}
    for op in graph.ops:
        if (
            is_blocked_convolution(op)
            or is_code_convolution(op)
            or op.name in code_resize.PLAIN
            or profits_from_blocks(op, block, known)
            or _enlarges_for_convolutions(op, block, known)
            or (any(v.op in chosen for v in op.inputs) and can_use_blocks(op, known))
        ):
            chosen[op] = None
    return chosen


def blocked_operands(op: Op, known: KnownValues) -> list[int]:
    """Indices of the operands of a blocked operation that are blocked; others stay row-major."""
    if is_code_convolution(op) or is_blocked_convolution(op):
        others = range(4 if is_code_convolution(op) else 3, len(op.inputs))
        return [0, *(i for i in others if not _is_parameter(op.inputs[i], known))]
    count, start = len(op.inputs), _first_broadcast(op)
    if start is None:
        return list(range(count))
    others = [i for i in range(start, count) if not _is_parameter(op.inputs[i], known)]
    return [*range(start), *others]


def _first_broadcast(op: Op) -> int | None:
    """Index of the first operand that broadcasts with the result; None without such operands."""
    spec = operations()[op.name]
    if spec.expression is not None:
        return spec.expression.start(op)
    return 0 if is_elementwise(op) else None


def halo_needed(op: Op, index: int) -> Padding:
    """Pixels around operand `index` that a blocked operation reads."""
    codes = is_code_convolution(op)
    if not (codes or is_blocked_convolution(op)) or index != 0:
        return ((0, 0),) * (op.inputs[index].type.rank - 2)
    window, algorithm = window_of(op), op.attributes.get("algorithm")
    direct = algorithm == Direct() or (codes and algorithm is None)
    if not direct or is_symbolic((*window.input, *window.output)):
        return window.reach()
    grouped = convolution_groups(op.inputs[0].type.dims, op.attributes) > 1
    halves = op.inputs[0].type.dtype.is_half
    leaves_out = leaves_out_taps(window) if halves else leaves_out_border(window)
    if leaves_out and not (codes and grouped):
        return ((0, 0),) * window.rank
    return (window if window.reverse else window.clipped()).reach()


def fill_needed(op: Op, index: int, known: KnownValues) -> int | None:
    """The item of the halo of operand `index` that a blocked operation reads.

    None if it reads no halo.
    """
    if not any(map(any, halo_needed(op, index))):
        return None
    zero = known.items(op.inputs[2]) if is_code_convolution(op) else None
    return 0 if zero is None else int(zero.item())


def in_reach(plane: Shape, channels: int, layout: Blocked) -> bool:
    """Whether int32 offsets reach the pixels of `channels` channels, and the halo is small."""
    shape = (1, channels, *plane)
    stored = math.prod(layout.extents(shape))
    most = largest([MAX_GROWTH * math.prod(plane), SMALL_PLANE])
    if stored > smallest([most, MAX_PLANE]):
        return False
    return layout.volume(shape) * layout.itemsize < MAX_REACH


def is_blockable_elementwise(op: Op, known: KnownValues) -> bool:
    """Whether each operand has the shape of the result, one item per plane, or known items.

    Known items may differ by channel only.
    """
    return all(
        _is_parameter(v, known) or (has_blocked_kernels(v.type.dtype) and _fits(v, op.output))
        for v in op.inputs
    )


def _is_parameter(value: Value, known: KnownValues) -> bool:
    """Whether `value` is known and varies along the channels only."""
    dims = value.type.dims
    return value in known and all(n == 1 for i, n in enumerate(dims) if i != 1)


def _fits(value: Value, result: Value) -> bool:
    """Whether `value` has the shape of the result, or one item per plane."""
    dims, whole = value.type.dims, result.type.dims
    return dims == whole or (
        len(dims) == len(whole) and dims[:2] == whole[:2] and all(n == 1 for n in dims[2:])
    )


def _plane(dims: Shape) -> int:
    """Number of pixels of a plane."""
    return math.prod(dims[2:])
