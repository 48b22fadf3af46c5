"""Recurrent layers: LSTM, GRU and RNN of several layers, in one or both directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nnefc.frontends.common.loops import loop
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.recurrent.cells import GRU, LSTM, RNN
from nnefc.frontends.common.operators.recurrent.layer import Cell, Layer, run_layer
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.torch.operators.layers import linear
from nnefc.frontends.torch.registry import Tensors, operator

_ORDERS: Final = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}
"""The gates of PyTorch in the order of the cells: i f g o to i o f g, r z n to z r n."""


def _reordered(make: OpBuilder, cell: Cell, x: Operand) -> Operand:
    """The gates of a weight or bias [gates * hidden, ..] in the order of the cell."""
    order = _ORDERS[cell.name]
    hidden = x.type.dims[0] // len(order)
    if order == tuple(range(len(order))):
        return x
    parts = [slice_in_dim(make, x, 0, i * hidden, (i + 1) * hidden) for i in order]
    return make("concat", parts, axis=0)


def _stacked(make: OpBuilder, tensors: Sequence[Operand]) -> Operand:
    """Tensors of one shape along a new first dimension."""
    rows = [make.reshape(x, (1, *x.type.dims)) for x in tensors]
    return rows[0] if len(rows) == 1 else make("concat", rows, axis=0)


def _layers(
    make: OpBuilder,
    cell: Cell,
    input: Operand,
    states: Sequence[Operand],
    params: Tensors,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    activation: str = "",
) -> tuple[Operand, ...]:
    """The outputs [steps, batch, directions * hidden], then the last states, of all layers.

    `params`: per layer and direction w_ih, w_hh, b_ih, b_hh, and w_hr of a projection.
    """
    if train and dropout:
        raise OperatorError("torch/training", "dropout is active", "call module.eval() first")
    directions = 2 if bidirectional else 1
    count = len(params) // (num_layers * directions)
    x = make.transpose(input, (1, 0, 2)) if batch_first else input
    if count == (5 if has_biases else 3):
        rows = [params[i : i + count] for i in range(0, len(params), count)]
        found = _projected_layers(make, x, states, rows, directions)
        return (make.transpose(found[0], (1, 0, 2)) if batch_first else found[0]), *found[1:]
    layer = Layer(
        cell,
        "bidirectional" if bidirectional else "forward",
        0,
        0.0,
        (activation,) * directions if activation else (),
        (),
        (),
        reset_after_product=cell is GRU,
    )
    lasts: list[list[Operand]] = [[] for _ in states]
    for index in range(num_layers):
        rows = range(index * directions, (index + 1) * directions)
        given = [params[row * count : (row + 1) * count] for row in rows]
        w, r = (
            _stacked(make, [_reordered(make, cell, each[i]) for each in given]) for i in range(2)
        )
        b = None
        if has_biases:
            both = ([_reordered(make, cell, each[i]) for i in (2, 3)] for each in given)
            b = _stacked(make, [make("concat", pair, axis=0) for pair in both])
        begin = [slice_in_dim(make, x, 0, rows[0], rows[-1] + 1) for x in states]
        every, *last = run_layer(make, layer, x, w, r, b, None, begin)
        steps, _, batch, hidden = every.type.dims
        x = make.reshape(make.transpose(every, (0, 2, 1, 3)), (steps, batch, directions * hidden))
        for kept, each in zip(lasts, last, strict=True):
            kept.append(each)
    y = make.transpose(x, (1, 0, 2)) if batch_first else x
    return y, *(each[0] if len(each) == 1 else make("concat", each, axis=0) for each in lasts)


def _projected_layers(
    make: OpBuilder,
    x: Operand,
    states: Sequence[Operand],
    params: Sequence[Tensors],
    directions: int,
) -> tuple[Operand, ...]:
    """As `_layers`, of LSTM layers whose hidden states are products with a matrix w_hr.

    x [steps, batch, inputs]; `params`: of each layer and direction.
    """
    lasts: list[list[Operand]] = [[], []]
    outputs: list[Operand] = []
    for row, weights in enumerate(params):
        begin = [slice_in_dim(make, each, 0, row, row + 1) for each in states]
        before = [make.reshape(each, each.type.dims[1:]) for each in begin]
        every, last = _projected(make, x, weights, before, backwards=row % directions == 1)
        outputs.append(every)
        for kept, each in zip(lasts, last, strict=True):
            kept.append(each)
        if len(outputs) == directions:
            x = outputs[0] if directions == 1 else make("concat", outputs, axis=2)
            outputs = []
    return x, *(_stacked(make, each) for each in lasts)


def _projected(
    make: OpBuilder, x: Operand, weights: Tensors, states: Sequence[Operand], *, backwards: bool
) -> tuple[Operand, list[Operand]]:
    """The outputs [steps, batch, units] and the last states of a direction.

    h = (o tanh(c)) w_hr^T, c = f c + i g; gates i, f, g, o; h [batch, units], c [batch, hidden].
    """
    w_ih, w_hh, *biases, w_hr = weights
    given = linear(make, x, w_ih, make("add", *biases) if biases else None)

    def turn(
        within: OpBuilder, before: list[Operand], slices: list[Operand], whole: list[Operand]
    ) -> tuple[list[Operand], list[Operand]]:
        (hidden, cell), (recurrence, projection) = before, whole
        gates = within.reshape(slices[0], slices[0].type.dims[1:])
        gates = within("add", gates, within("matmul", hidden, recurrence, transposeB=True))
        size = cell.type.dims[1]
        i, f, g, o = (slice_in_dim(within, gates, 1, n * size, (n + 1) * size) for n in range(4))
        i, f, o = (within("sigmoid", each) for each in (i, f, o))
        new = within("mul", i, within("tanh", g))
        cell = within("add", within("mul", f, cell), new)
        hidden = within("mul", o, within("tanh", cell))
        hidden = within("matmul", hidden, projection, transposeB=True)
        return [hidden, cell], [within.reshape(hidden, (1, *hidden.type.dims))]

    matrices = [make.value(w_hh), make.value(w_hr)]
    last, (every,) = loop(
        make, x.type.dims[0], states, [given], matrices, turn, backwards=(backwards, backwards)
    )
    return every, last


@operator("aten.lstm.input")
def lstm(
    make: OpBuilder,
    input: Operand,
    hx: Tensors,
    params: Tensors,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    return _layers(
        make,
        LSTM,
        input,
        hx,
        params,
        has_biases,
        num_layers,
        dropout,
        train,
        bidirectional,
        batch_first,
    )


def _simple(name: str, cell: Cell, activation: str) -> None:
    """Register a layer with one state."""

    def compute(
        make: OpBuilder,
        input: Operand,
        hx: Operand,
        params: Tensors,
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        options = (num_layers, dropout, train, bidirectional, batch_first, activation)
        return _layers(make, cell, input, (hx,), params, has_biases, *options)

    operator(name)(compute)


_simple("aten.gru.input", GRU, "")
_simple("aten.rnn_tanh.input", RNN, "Tanh")
_simple("aten.rnn_relu.input", RNN, "Relu")


def _cell(
    make: OpBuilder, cell: Cell, input: Operand, states: Sequence[Operand], params: Any
) -> Any:
    """One step of a layer: input [batch, inputs], states [batch, hidden]."""
    x = make.reshape(input, (1, *input.type.dims))
    begin = [make.reshape(each, (1, *each.type.dims)) for each in states]
    has_biases = params[2] is not None
    given = tuple(params if has_biases else params[:2])
    _, *last = _layers(make, cell, x, begin, given, has_biases, 1, 0.0, False, False, False)
    found = [make.reshape(each, each.type.dims[1:]) for each in last]
    return tuple(found) if len(found) > 1 else found[0]


@operator("aten.lstm_cell.default")
def lstm_cell(
    make: OpBuilder,
    input: Operand,
    hx: Tensors,
    w_ih: Operand,
    w_hh: Operand,
    b_ih: Operand | None = None,
    b_hh: Operand | None = None,
) -> Any:
    return _cell(make, LSTM, input, hx, (w_ih, w_hh, b_ih, b_hh))


@operator("aten.gru_cell.default")
def gru_cell(
    make: OpBuilder,
    input: Operand,
    hx: Operand,
    w_ih: Operand,
    w_hh: Operand,
    b_ih: Operand | None = None,
    b_hh: Operand | None = None,
) -> Any:
    return _cell(make, GRU, input, (hx,), (w_ih, w_hh, b_ih, b_hh))


@operator("aten.rnn_tanh_cell.default")
def rnn_tanh_cell(
    make: OpBuilder,
    input: Operand,
    hx: Operand,
    w_ih: Operand,
    w_hh: Operand,
    b_ih: Operand | None = None,
    b_hh: Operand | None = None,
) -> Any:
    own, before = linear(make, input, w_ih, b_ih), linear(make, hx, w_hh, b_hh)
    return make("tanh", make("add", own, before))
