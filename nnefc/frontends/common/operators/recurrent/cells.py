"""The cells of recurrent layers: RNN, GRU and LSTM."""

from __future__ import annotations

from typing import Final

from nnefc.frontends.common.operators.recurrent.layer import Cell, Step
from nnefc.frontends.common.values import Operand


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


RNN: Final = Cell("rnn", 1, 1, ("Tanh",), _rnn_cell)
GRU: Final = Cell("gru", 3, 1, ("Sigmoid", "Tanh"), _gru_cell)
LSTM: Final = Cell("lstm", 4, 2, ("Sigmoid", "Tanh", "Tanh"), _lstm_cell)
