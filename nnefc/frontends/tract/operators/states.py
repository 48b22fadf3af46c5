"""Operators with state: key-value caches and running means.

A state is an input and an output of the graph; a session holds it between calls.  Caches that tract
quantizes are stored unquantized.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnefc.frontends.common.loops import loop
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis, slice_in_dim
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tract.operators.movement import unsqueeze
from nnefc.frontends.tract.operators.transformers import tract_transformers_sdpa
from nnefc.frontends.tract.registry import NO_TYPE, TypeName, operator


def _cached(
    make: OpBuilder, name: str, x: Operand, axis: int, window: int | None = None
) -> Operand:
    """The inputs of all calls, concatenated along an axis; the last `window` items if given.

    Stores the result as state `name`; raises OperatorError for a state of another shape.
    """
    model = make.evaluator.context.model
    is_empty = 0 in _others(x.type.dims, axis)  # no items to append
    in_place = window is None and model.in_place and not is_empty
    if window is None:
        model.source_state.growing_axes[name] = axis
    room = (axis, x.type.dims[axis]) if in_place else None
    before = model.states.prior(name, x.type.dtype, x.type.rank, room)
    after = x
    if before is not None and _others(before.dims, axis) != _others(x.type.dims, axis):
        message = f"the state '{name}' has shape {list(before.dims)}, the input {list(x.type.dims)}"
        raise OperatorError("input/state", f"{message}: all extents but axis {axis} must be equal")
    if before is not None and before.dims[axis] > 0:
        after = slice_in_dim(make, before.value, axis, 0, before.dims[axis])
        if x.type.dims[axis] > 0:
            after = make("concat", [after, x], axis=axis)
    if before is not None and in_place:
        model.states.append(make, name, before, x, axis)
        return after
    if window is not None:
        extent = after.type.dims[axis]
        after = slice_in_dim(make, after, axis, max(0, extent - window), extent)
    model.states.store(name, before, after)
    return after


def _others(dims: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The extents of all axes but one."""
    return (*dims[:axis], *dims[axis + 1 :])


@operator("tract_transformers")
def tract_transformers_dyn_kv_cache(
    make: OpBuilder,
    input: Operand,
    name: str,
    axis: int,
    datum_type: TypeName = NO_TYPE,
    past_sequence_shape: Any = (),
    input_sequence_shape: Any = (),
) -> Any:
    """The inputs of all calls so far, concatenated along an axis."""
    del datum_type, past_sequence_shape, input_sequence_shape
    return _cached(make, name, input, normalize_axis(axis, input.type.rank))


@operator("tract_transformers")
def tract_transformers_quantized_dyn_kv_cache(
    make: OpBuilder,
    input: Operand,
    name: str,
    axis: int,
    bits: int = 8,
    per_channel: bool = False,
    datum_type: TypeName = NO_TYPE,
    past_sequence_shape: Any = (),
    input_sequence_shape: Any = (),
) -> Any:
    """`tract_transformers_dyn_kv_cache`; the cache is not quantized, for any `bits`."""
    if not 1 <= bits <= 16:
        raise OperatorError(
            "argument/quantized_dyn_kv_cache", f"bits = {bits}; 1 to 16 are possible"
        )
    del per_channel, datum_type, past_sequence_shape, input_sequence_shape
    return _cached(make, name, input, normalize_axis(axis, input.type.rank))


@operator("tract_transformers")
def tract_transformers_quantized_kv_sdpa(
    make: OpBuilder, q: Operand, k: Operand, v: Operand, axis: int = 2, scale: Any = False
) -> Any:
    """Attention over the keys and values of all calls so far."""
    return _cached_attention(make, q, k, v, axis, None, scale)


@operator("tract_transformers")
def tract_transformers_window_kv_sdpa(
    make: OpBuilder, q: Operand, k: Operand, v: Operand, axis: int, window: int, scale: Any = False
) -> Any:
    """Attention over the last `window` keys and values."""
    if window < 1:
        raise OperatorError("argument/window", f"window = {window}; it must be at least 1")
    return _cached_attention(make, q, k, v, axis, window, scale)


def _cached_attention(
    make: OpBuilder, q: Operand, k: Operand, v: Operand, axis: int, window: int | None, scale: Any
) -> Operand:
    """Attention over cached keys and values, the last `window` of them if given."""
    at = normalize_axis(axis, k.type.rank)
    if v.type.rank != k.type.rank:
        ranks = f"{k.type.rank} and {v.type.rank}"
        raise OperatorError("argument/sdpa", f"k and v must have the same rank, not {ranks}")
    model = make.evaluator.context.model
    keys, values = (
        _cached(make, model.states.free_name(f"{which}_cache"), x, at, window)
        for which, x in (("key", k), ("value", v))
    )
    return tract_transformers_sdpa(make, q, keys, values, None, scale)


# -- running means


@operator("tract_extra")
def tract_extra_exp_unit_norm(
    make: OpBuilder,
    input: Operand,
    state: Operand,
    axis: int,
    alpha: float,
    skip: int = 0,
    stateless: bool = False,
    complex: bool = False,
    epsilon: float = 1e-14,
) -> Any:
    """x / sqrt(s) for each index along an axis, with s = (1 - alpha) max(|x|, epsilon) + alpha s.

    `complex`: the last dimension holds real and imaginary parts, and |x| is the modulus.
    """

    def step(within: OpBuilder, x: Operand, mean: Operand, update: bool) -> tuple[Operand, Operand]:
        if update:
            size = within("abs", x)
            if complex:
                last = x.type.rank - 1
                total = within("sum_reduce", within("sqr", x), axes=(last,))
                size = within.reshape(within("sqrt", total), x.type.dims[:-1])
            new = within("mul", within("max", size, epsilon), 1.0 - alpha)
            mean = within("add", new, within("mul", mean, alpha))
        divisor = within("sqrt", mean)
        if complex:
            divisor = unsqueeze(within, divisor, (mean.type.rank,))
        return within("div", x, divisor), mean

    return _running_norm(make, input, state, axis, skip, stateless, step)


@operator("tract_extra")
def tract_extra_exp_mean_norm(
    make: OpBuilder,
    input: Operand,
    state: Operand,
    axis: int,
    alpha: float,
    skip: int = 0,
    stateless: bool = False,
    scaling_factor: float = 1.0,
) -> Any:
    """(x - s) / scaling_factor for each index along an axis, with s = (1 - alpha) x + alpha s."""

    def step(within: OpBuilder, x: Operand, mean: Operand, update: bool) -> tuple[Operand, Operand]:
        if update:
            new = within("mul", x, 1.0 - alpha)
            mean = within("add", new, within("mul", mean, alpha))
        return within("mul", within("sub", x, mean), 1.0 / scaling_factor), mean

    return _running_norm(make, input, state, axis, skip, stateless, step)


def _running_norm(
    make: OpBuilder, x: Operand, initial: Operand, axis: int, skip: int, stateless: bool, step: Any
) -> Operand:
    """The results of `step(make, slice, mean, update)` along an axis, stacked.

    The first `skip` steps of a stream do not update the mean.  Unless `stateless`, the mean is a
    state; `initial` is its value in the first call.
    """
    at = normalize_axis(axis, x.type.rank)
    model = make.evaluator.context.model
    name = "" if stateless else model.states.free_name("running_mean")
    before = None if stateless else model.states.prior(name, initial.type.dtype)
    order = (at, *(i for i in range(x.type.rank) if i != at))
    series = make.transpose(x, order)
    steps = series.type.dims[0]
    skipped = 0 if before is not None else min(skip, steps)
    mean = initial if before is None else before.value
    pieces: list[Operand] = []
    for begin, end, update in ((0, skipped, False), (skipped, steps, True)):
        if begin == end:
            continue

        def body(
            within: OpBuilder,
            states: list[Operand],
            slices: list[Operand],
            shared: list[Operand],
            update: bool = update,
        ) -> tuple[Sequence[Operand], Sequence[Operand]]:
            del shared
            dims = slices[0].type.dims
            y, new = step(within, within.reshape(slices[0], dims[1:]), states[0], update)
            return [new], [within.reshape(y, dims)]

        finals, stacked = loop(
            make, end - begin, [mean], [slice_in_dim(make, series, 0, begin, end)], [], body
        )
        mean = finals[0]
        pieces += stacked
    if not stateless:
        model.states.store(name, before, mean)
    if not pieces:
        return x
    y = pieces[0] if len(pieces) == 1 else make("concat", pieces, axis=0)
    return make.transpose(y, [order.index(i) for i in range(len(order))])
