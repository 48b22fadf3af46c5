"""Recurrent layers: RNN, GRU and LSTM in one or both directions."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand
from nnefc.frontends.onnx.operators.neural.recurrent_layer import Cell, Layer, Step, run_layer
from nnefc.frontends.onnx.registry import Floats, Strings, operator


def _rnn_cell(step: Step) -> list[Operand]:
    """h = f(x + h R)."""
    make = step.make
    return [step.activated(0, make("add", step.input, step.product(step.states[0], 0, 1)))]


def _gru_cell(step: Step) -> list[Operand]:
    """h = (1 - z) n + z h; gates z, r, n."""
    make, hidden = step.make, step.states[0]
    gates = make("add", step.gates(step.input, 0, 2), step.product(hidden, 0, 2))
    update, reset = (step.activated(0, step.gates(gates, i, i + 1)) for i in range(2))
    if step.reset_after_product:
        turned = make("mul", reset, step.product(hidden, 2, 3))
    else:
        turned = step.product(make("mul", reset, hidden), 2, 3)
    new = step.activated(1, make("add", step.gates(step.input, 2, 3), turned))
    return [make("add", new, make("mul", update, make("sub", hidden, new)))]


def _lstm_cell(step: Step) -> list[Operand]:
    """c = f c + i g, h = o tanh(c); gates i, o, f, g, peepholes for i, o and f."""
    make, (hidden, cell) = step.make, step.states
    gates = make("add", step.input, step.product(hidden, 0, 4))
    i, o, f, g = (step.gates(gates, n, n + 1) for n in range(4))
    take = step.activated(0, step.peephole(i, cell, 0))
    if step.input_forget:
        keep = make("add", make("neg", take), 1.0)
    else:
        keep = step.activated(0, step.peephole(f, cell, 2))
    new = step.activated(1, g)
    cell = make("add", make("mul", keep, cell), make("mul", take, new))
    give = step.activated(0, step.peephole(o, cell, 1))
    return [make("mul", give, step.activated(2, cell, clipped=False)), cell]


_RNN = Cell("rnn", 1, 1, ("Tanh",), _rnn_cell)
_GRU = Cell("gru", 3, 1, ("Sigmoid", "Tanh"), _gru_cell)
LSTM = Cell("lstm", 4, 2, ("Sigmoid", "Tanh", "Tanh"), _lstm_cell)


@operator("RNN")
def rnn(
    make: OpBuilder,
    X: Operand,
    W: Operand,
    R: Operand,
    B: Operand | None = None,
    sequence_lens: Operand | None = None,
    initial_h: Operand | None = None,
    *,
    activation_alpha: Floats = (),
    activation_beta: Floats = (),
    activations: Strings = ("Tanh", "Tanh"),
    clip: float = 0.0,
    direction: str = "forward",
    hidden_size: int = 0,
    layout: int = 0,
    output_sequence: int = 0,
) -> Any:
    """The states of all steps, and the last one."""
    del output_sequence  # of version 1; names of results say whether they are wanted
    layer = Layer(_RNN, direction, hidden_size, clip, activations, activation_alpha,
                  activation_beta, by_samples=layout == 1)  # fmt: skip
    return run_layer(make, layer, X, W, R, B, sequence_lens, [initial_h])


@operator("GRU", until=2)
def gru_1(
    make: OpBuilder,
    X: Operand,
    W: Operand,
    R: Operand,
    B: Operand | None = None,
    sequence_lens: Operand | None = None,
    initial_h: Operand | None = None,
    *,
    activation_alpha: Floats = (),
    activation_beta: Floats = (),
    activations: Strings = (),
    clip: float = 0.0,
    direction: str = "foward",
    hidden_size: int = 0,
    output_sequence: int = 0,
) -> Any:
    """The default direction is misspelt in the standard."""
    del output_sequence
    layer = Layer(_GRU, direction, hidden_size, clip, activations, activation_alpha,
                  activation_beta)  # fmt: skip
    return run_layer(make, layer, X, W, R, B, sequence_lens, [initial_h])


@operator("GRU", since=3)
def gru(
    make: OpBuilder,
    X: Operand,
    W: Operand,
    R: Operand,
    B: Operand | None = None,
    sequence_lens: Operand | None = None,
    initial_h: Operand | None = None,
    *,
    activation_alpha: Floats = (),
    activation_beta: Floats = (),
    activations: Strings = (),
    clip: float = 0.0,
    direction: str = "forward",
    hidden_size: int = 0,
    layout: int = 0,
    linear_before_reset: bool = False,
    output_sequence: int = 0,
) -> Any:
    """The states of all steps, and the last one."""
    del output_sequence
    layer = Layer(_GRU, direction, hidden_size, clip, activations, activation_alpha,
                  activation_beta, by_samples=layout == 1,
                  reset_after_product=linear_before_reset)  # fmt: skip
    return run_layer(make, layer, X, W, R, B, sequence_lens, [initial_h])


@operator("LSTM")
def lstm(
    make: OpBuilder,
    X: Operand,
    W: Operand,
    R: Operand,
    B: Operand | None = None,
    sequence_lens: Operand | None = None,
    initial_h: Operand | None = None,
    initial_c: Operand | None = None,
    P: Operand | None = None,
    *,
    activation_alpha: Floats = (),
    activation_beta: Floats = (),
    activations: Strings = (),
    clip: float = 0.0,
    direction: str = "forward",
    hidden_size: int = 0,
    input_forget: bool = False,
    layout: int = 0,
    output_sequence: int = 0,
) -> Any:
    """The states of all steps, the last one, and the last cell."""
    del output_sequence
    layer = Layer(LSTM, direction, hidden_size, clip, activations, activation_alpha,
                  activation_beta, by_samples=layout == 1, input_forget=input_forget)  # fmt: skip
    return run_layer(make, layer, X, W, R, B, sequence_lens, [initial_h, initial_c], P)
