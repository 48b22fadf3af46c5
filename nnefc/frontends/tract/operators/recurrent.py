"""Recurrent cells (GRU, LSTM), causal convolution with state, and gated linear attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nnefc.frontends.common.loops import loop
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank, of_rank_at_least, of_shape
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tract.operators.movement import transpose, unsqueeze
from nnefc.frontends.tract.operators.products import matmul
from nnefc.frontends.tract.registry import operator
from nnefc.ir import DType


def _gates(make: OpBuilder, x: Operand, hidden: int, count: int) -> list[Operand]:
    """`count` slices of `hidden` items along the last axis; raises OperatorError."""
    axis = len(of_rank_at_least("gates", "the tensor of all gates", x, 1)) - 1
    if x.type.dims[axis] != count * hidden:
        message = f"{count} gates of {hidden} items do not fit {x.type.dims[axis]} items"
        raise OperatorError("argument/gates", message)
    return [slice_in_dim(make, x, axis, i * hidden, (i + 1) * hidden) for i in range(count)]


@operator("tract_core")
def tract_core_gru_epilogue(
    make: OpBuilder, xh: Operand, rh: Operand, h_prev: Operand, hidden: int
) -> Any:
    """The new state of a GRU: n + z (h_prev - n) with n = tanh(xh + r rh); gates z, r, n."""
    x, r = _gates(make, xh, hidden, 3), _gates(make, rh, hidden, 3)
    update = make("sigmoid", make("add", x[0], r[0]))
    reset = make("sigmoid", make("add", x[1], r[1]))
    new = make("tanh", make("add", x[2], make("mul", reset, r[2])))
    return make("add", new, make("mul", update, make("sub", h_prev, new)))


@operator("tract_core")
def tract_core_lstm_epilogue(make: OpBuilder, preact: Operand, c_prev: Operand, hidden: int) -> Any:
    """The new h and c of an LSTM: c = f c_prev + i tanh(g), h = o tanh(c); gates i, o, f, g."""
    i, o, f, g = _gates(make, preact, hidden, 4)
    remembered = make("mul", make("sigmoid", f), c_prev)
    cell = make("add", remembered, make("mul", make("sigmoid", i), make("tanh", g)))
    return make("mul", make("sigmoid", o), make("tanh", cell)), cell


@operator("tract_core")
def tract_core_gru_seq(
    make: OpBuilder,
    x: Operand,
    w: Operand,
    r: Operand,
    b: Operand | None = None,
    initial_h: Operand | None = None,
    hidden: int = 0,
    chunk: int = 1,
    has_bias: bool = False,
    reset_every_turn: bool = False,
) -> Any:
    """A GRU layer over time, by `tract_core_gru_epilogue`: its states [n, T, h], and the last one.

    x [n, T, i], w [3 h, i], r [3 h, h], initial_h [n, 1, h], and with `has_bias` b [1, 6 h], the
    bias of w followed by that of r.  Time runs backwards if `chunk` is negative.
    """
    del reset_every_turn
    batch, steps, width = of_rank("gru_seq", "x", x, 3)
    gates = 3 * hidden
    of_shape("gru_seq", "w", w, (gates, width))
    of_shape("gru_seq", "r", r, (gates, hidden))
    if initial_h is None or initial_h.type.volume != batch * hidden:
        raise OperatorError(
            "argument/gru_seq", f"initial_h must have {batch} states of {hidden} items"
        )
    w_bias = r_bias = None
    if has_bias:
        if b is None or b.type.volume != 2 * gates:
            raise OperatorError("argument/gru_seq", f"b must have {2 * gates} items")
        biases = make.reshape(b, (1, 2 * gates))
        w_bias, r_bias = (
            slice_in_dim(make, biases, 1, 0, gates),
            slice_in_dim(make, biases, 1, gates, 2 * gates),
        )
    rows = make.reshape(make.transpose(x, (1, 0, 2)), (steps * batch, width))
    inputs = make.reshape(_affine(make, rows, w, w_bias), (steps, batch, gates))
    state = make.reshape(initial_h, (batch, hidden))

    def step(
        within: OpBuilder, states: list[Operand], slices: list[Operand], shared: list[Operand]
    ) -> tuple[Sequence[Operand], Sequence[Operand]]:
        products = _affine(within, states[0], shared[0], shared[1] if shared[1:] else None)
        xh = within.reshape(slices[0], (batch, gates))
        new = tract_core_gru_epilogue(within, xh, products, states[0], hidden)
        return [new], [within.reshape(new, (1, batch, hidden))]

    shared = [r] if r_bias is None else [r, r_bias]
    back = chunk < 0
    finals, stacked = loop(make, steps, [state], [inputs], shared, step, backwards=(back, back))
    y = make.transpose(stacked[0], (1, 0, 2))
    return y, make.reshape(finals[0], (batch, 1, hidden))


def _affine(make: OpBuilder, x: Operand, filter: Operand, bias: Operand | None) -> Operand:
    """x filter^T + bias for matrices."""
    y = matmul(make, x, filter, False, True)
    return y if bias is None else make("add", y, bias)


@operator("tract_transformers", "tract_qwen35_causal_conv1d_update")
def tract_transformers_causal_conv1d_update(
    make: OpBuilder, input: Operand, weight: Operand, initial_state: Operand
) -> Any:
    """silu of a depthwise causal convolution along time, and the last k items as the next state.

    input [b, T, C], weight [C, k], initial_state [b, C, k] or [C, k], the k items before the input.
    """
    dtype = input.type.dtype
    wide = [make.cast(x, DType.FLOAT32) for x in (input, weight, initial_state)]
    batch, time, channels = of_rank("conv1d_update", "input", input, 3)
    taps = of_rank("conv1d_update", "weight", weight, 2)[1]
    of_shape("conv1d_update", "weight", weight, (channels, taps))
    if initial_state.type.volume != batch * channels * taps:
        message = f"initial_state has shape {list(initial_state.type.dims)}"
        raise OperatorError("argument/conv1d_update", f"{message}, not {[batch, channels, taps]}")
    state = make.reshape(wide[2], (batch, channels, taps))
    series = make("concat", [state, transpose(make, wide[0], (0, 2, 1))], axis=2)
    last = taps + time
    following = slice_in_dim(make, series, 2, last - taps, last)
    window = slice_in_dim(make, series, 2, 1, last)
    kernel = make.reshape(wide[1], (channels, 1, taps))
    y = make("conv", window, kernel, padding=((0, 0),), groups=channels)
    output = transpose(make, make("silu", y), (0, 2, 1))
    final = make.reshape(following, initial_state.type.dims)
    return make.cast(output, dtype), make.cast(final, initial_state.type.dtype)


@operator("tract_transformers", "tract_qwen35_gdn_recurrent")
def tract_transformers_gdn_recurrent(
    make: OpBuilder,
    query: Operand,
    key: Operand,
    value: Operand,
    log_decay: Operand,
    beta: Operand,
    initial_state: Operand,
) -> Any:
    """Linear attention by the gated delta rule (Yang et al. 2024): the outputs and the last state.

    A step: S *= exp(g); d = beta (v - S^T k); S += k d^T; y = S^T q / sqrt(w), with q and k of
    norm 1.  query, key [b, T, hk, w], value [b, T, hv, w], log_decay g and beta [b, T, hv],
    initial_state [b, hv, w, w]; hv is a multiple of hk.
    """
    batch, steps, heads, width = of_rank("gdn_recurrent", "value", value, 4)
    few = of_rank("gdn_recurrent", "query", query, 4)[2]
    if few < 1 or heads % few:
        message = f"{heads} heads of values are not a multiple of {few} heads of keys"
        raise OperatorError("argument/gdn_recurrent", message)
    for name, x in (("query", query), ("key", key)):
        of_shape("gdn_recurrent", name, x, (batch, steps, few, width))
    for name, x in (("log_decay", log_decay), ("beta", beta)):
        if x.type.volume != batch * steps * heads:
            message = f"{name} has shape {list(x.type.dims)}, not {[batch, steps, heads]}"
            raise OperatorError("argument/gdn_recurrent", message)
    of_shape("gdn_recurrent", "initial_state", initial_state, (batch, heads, width, width))
    q, k = (_unit_heads(make, x, heads) for x in (query, key))
    q = make("mul", q, 1.0 / math.sqrt(width))
    v, g, b, state = (make.cast(x, DType.FLOAT32) for x in (value, log_decay, beta, initial_state))
    g, b = (make.reshape(x, (batch, steps, heads)) for x in (g, b))
    scanned = [_time_major(make, x) for x in (q, k, v, make("exp", g), b)]

    def step(
        within: OpBuilder, states: list[Operand], slices: list[Operand], shared: list[Operand]
    ) -> tuple[Sequence[Operand], Sequence[Operand]]:
        del shared
        row = (batch, heads, 1, width)
        q, k, v = (within.reshape(x, row) for x in slices[:3])
        decay, rate = (within.reshape(x, (batch, heads, 1, 1)) for x in slices[3:])
        memory = within("mul", states[0], decay)
        missing = within("mul", within("sub", v, matmul(within, k, memory)), rate)
        memory = within("add", memory, matmul(within, k, missing, True, False))
        y = matmul(within, q, memory)
        return [memory], [within.reshape(y, (1, batch, heads, width))]

    finals, stacked = loop(make, steps, [state], scanned, [], step)
    output = make.transpose(stacked[0], (1, 0, 2, 3))
    final = make.cast(finals[0], initial_state.type.dtype)
    return make.cast(output, query.type.dtype), final


def _time_major(make: OpBuilder, x: Operand) -> Operand:
    """A tensor [b, T, ..] as [T, b, ..]."""
    return make.transpose(x, (1, 0, *range(2, x.type.rank)))


def _unit_heads(make: OpBuilder, x: Operand, heads: int) -> Operand:
    """The vectors [b, T, hk, w] with norm 1, repeated for the heads of values: [b, T, hv, w]."""
    batch, steps, few, width = x.type.dims
    wide = make.cast(x, DType.FLOAT32)
    total = make("sum_reduce", make("sqr", wide), axes=(3,))
    normal = make("mul", wide, make("rsqrt", make("add", total, 1e-6)))
    if few == heads:
        return normal
    repeated = make.repeated(
        unsqueeze(make, normal, (3,)), (batch, steps, few, heads // few, width)
    )
    return make.reshape(repeated, (batch, steps, heads, width))
