"""Recurrent layers: RNN, GRU and LSTM in one or both directions."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.recurrent.cells import GRU, LSTM, RNN
from nnefc.frontends.common.operators.recurrent.layer import Layer, run_layer
from nnefc.frontends.common.values import Operand
from nnefc.frontends.onnx.registry import Floats, Strings, operator


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
    layer = Layer(RNN, direction, hidden_size, clip, activations, activation_alpha,
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
    layer = Layer(GRU, direction, hidden_size, clip, activations, activation_alpha,
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
    layer = Layer(GRU, direction, hidden_size, clip, activations, activation_alpha,
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
