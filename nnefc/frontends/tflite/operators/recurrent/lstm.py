"""Long short-term memory of reals, with coupled gates, peepholes, projection, normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nnefc.formats.tflite.model import Tensor
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.tflite.hybrid import Matrix, items_of, reals_of, weights_of, with_items
from nnefc.frontends.tflite.operators.activations import activated
from nnefc.frontends.tflite.operators.layers import bias_row
from nnefc.frontends.tflite.operators.recurrent.layers import over_time, products, swapped
from nnefc.frontends.tflite.registry import REALS, Node, operator
from nnefc.ir import DType

GATES: Final = ("input", "forget", "cell", "output")
OUTPUT_STATE, CELL_STATE = 18, 19
"""The inputs that are states."""
NORMALIZATION_EPSILON: Final = 1e-8
BASIC: Final = 1
"""The number of this `LSTMKernelType`."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a layer; each is None if it is absent, or a tensor by gate."""

    input: tuple[Matrix | None, ...]
    recurrent: tuple[Matrix | None, ...]
    peephole: tuple[Operand | None, ...]
    """Of the gates input, forget and output; None for the cell."""
    bias: tuple[Operand | None, ...]
    projection: Matrix | None
    projection_bias: Operand | None
    normalization: tuple[Operand | None, ...]

    @classmethod
    def of(
        cls,
        make: OpBuilder,
        given: Sequence[Operand | None],
        tensors: Sequence[Tensor | None],
        *,
        asymmetric: bool,
    ) -> Weights:
        """The weights of a layer and their tensors, from input 1 of an operator on."""
        every = [None, *given, *[None] * (24 - len(given))]
        pairs = list(zip(given, tensors, strict=False))
        matrices = [
            None if x is None else weights_of(make, x, tensor, asymmetric=asymmetric)
            for x, tensor in (*pairs[:8], *pairs[15:16])
        ]
        matrices += [None] * (9 - len(matrices))
        p = [None if x is None else reals_of(make, x, tensor) for x, tensor in pairs[8:11]]
        return cls(
            tuple(matrices[:4]),
            tuple(matrices[4:8]),
            (p[0], p[1], None, p[2]),
            tuple(every[12:16]),
            matrices[8],
            every[17],
            tuple(every[20:24]),
        )

    @property
    def gates(self) -> list[int]:
        """The gates that are computed: without an input gate, it is 1 less the forget gate."""
        return [gate for gate in range(4) if gate or self.input[0] is not None]

    def check(self) -> None:
        """Raise OperatorError if a matrix of a gate is missing."""
        for gate in self.gates:
            if self.input[gate] is None or self.recurrent[gate] is None:
                message = f"the weights of the {GATES[gate]} gate are missing"
                raise OperatorError("tflite/arguments", message)


@dataclass(frozen=True, slots=True)
class Cell:
    """Options of a layer."""

    activation: int
    cell_clip: float
    proj_clip: float


def _step(
    make: OpBuilder, x: Operand, states: list[Operand], weights: Weights, cell: Cell
) -> list[Operand]:
    """The output and the cell after a step; x: the products of the input, by computed gate."""
    hidden, memory = states
    units = memory.type.dims[1]
    gates: list[Operand | None] = [None] * 4
    for i, gate in enumerate(weights.gates[:-1]):
        own = slice_in_dim(make, x, 1, i * units, (i + 1) * units)
        gates[gate] = _gate(make, own, hidden, memory, weights, gate, cell)
    _, forget, candidate, _ = gates
    assert forget is not None
    assert candidate is not None
    entry = gates[0] if gates[0] is not None else make("sub", _one(), forget)
    after = make("add", make("mul", forget, memory), make("mul", entry, candidate))
    if cell.cell_clip > 0:
        after = make("clamp", after, -cell.cell_clip, cell.cell_clip)
    last = len(weights.gates) - 1
    own = slice_in_dim(make, x, 1, last * units, (last + 1) * units)
    opened = _gate(make, own, hidden, after, weights, 3, cell)
    y = make("mul", opened, activated(make, after, cell.activation))
    if weights.projection is not None:
        y = products(make, y, weights.projection, weights.projection_bias)
        if cell.proj_clip > 0:
            y = make("clamp", y, -cell.proj_clip, cell.proj_clip)
    return [y, after]


def _one() -> KnownTensor:
    return KnownTensor(np.array(1, np.float32), DType.FLOAT32)


def _gate(
    make: OpBuilder,
    own: Operand,
    hidden: Operand,
    memory: Operand,
    weights: Weights,
    gate: int,
    cell: Cell,
) -> Operand:
    """A gate; `own`: the product of its weights and the input."""
    recurrent = weights.recurrent[gate]
    assert recurrent is not None
    sums = make("add", own, products(make, hidden, recurrent))
    peephole, scale = weights.peephole[gate], weights.normalization[gate]
    if peephole is not None:
        sums = make("add", sums, make("mul", memory, *bias_row(make, peephole)))
    if scale is not None:
        sums = make("mul", _normalized(make, sums), *bias_row(make, scale))
    bias = weights.bias[gate]
    if bias is not None:
        sums = make("add", sums, *bias_row(make, bias))
    return activated(make, sums, cell.activation) if gate == 2 else make("sigmoid", sums)


def _normalized(make: OpBuilder, x: Operand) -> Operand:
    """Rows with mean 0 and variance 1."""
    centered = make("sub", x, make("mean_reduce", x, axes=(1,)))
    variance = make("mean_reduce", make("mul", centered, centered), axes=(1,))
    return make("mul", centered, make("rsqrt", make("add", variance, NORMALIZATION_EPSILON)))


def _inputs_of_gates(make: OpBuilder, x: Operand, weights: Weights) -> Operand:
    """The products of the input and the weights of all computed gates, one behind the other."""
    parts = [
        products(make, x, w) for gate in weights.gates if (w := weights.input[gate]) is not None
    ]
    return make("concat", parts, axis=x.type.rank - 1)


@operator("UNIDIRECTIONAL_SEQUENCE_LSTM", options="UnidirectionalSequenceLSTMOptions", types=REALS)
def sequence_lstm(
    make: OpBuilder,
    input: Operand,
    *given: Operand | None,
    fused_activation_function: int,
    cell_clip: float,
    proj_clip: float,
    time_major: bool,
    diagonal_recurrent_tensors: bool,
    asymmetric_quantize_inputs: bool,
    node: Node,
) -> Any:
    """input [batch, time, depth], or [time, batch, depth] if `time_major`."""
    if diagonal_recurrent_tensors:
        raise OperatorError("tflite/unsupported", "diagonal recurrent tensors")
    of_rank("lstm", "input", input, 3)
    weights, states = _weights_and_states(make, given, node, asymmetric=asymmetric_quantize_inputs)
    cell = Cell(fused_activation_function, cell_clip, proj_clip)
    x = swapped(make, input, swap=not time_major)
    y, after = _over_time(make, x, states, weights, cell)
    make.evaluator.assign(node.inputs[OUTPUT_STATE], after[0])
    make.evaluator.assign(node.inputs[CELL_STATE], after[1])
    return swapped(make, y, swap=not time_major)


def _over_time(
    make: OpBuilder,
    x: Operand,
    states: list[Operand],
    weights: Weights,
    cell: Cell,
    *,
    backwards: bool = False,
) -> tuple[Operand, list[Operand]]:
    """The outputs [time, batch, units] for x [time, batch, depth], and the last states."""
    captured, restore = _captured(weights)

    def step(
        within: OpBuilder, each: Operand, before: list[Operand], shared: list[Operand]
    ) -> list[Operand]:
        return _step(within, each, before, restore(shared), cell)

    sums = _inputs_of_gates(make, x, weights)
    return over_time(make, sums, states, captured, step, backwards=backwards)


def _captured(weights: Weights) -> tuple[list[Operand], Any]:
    """The weights that steps read, and a function that makes them of a list in this order."""
    flat: list[Matrix | None] = [
        *weights.recurrent,
        *weights.peephole,
        *weights.bias,
        weights.projection,
        weights.projection_bias,
        *weights.normalization,
    ]
    present = [items_of(each) for each in flat if each is not None]

    def restore(shared: list[Operand]) -> Weights:
        rest = iter(shared)
        every: list[Any] = [None if each is None else with_items(each, next(rest)) for each in flat]
        return Weights(
            weights.input,
            tuple(every[:4]),
            tuple(every[4:8]),
            tuple(every[8:12]),
            every[12],
            every[13],
            tuple(every[14:18]),
        )

    return present, restore


def _weights_and_states(
    make: OpBuilder, given: tuple[Operand | None, ...], node: Node, *, asymmetric: bool
) -> tuple[Weights, list[Operand]]:
    """The weights and the two states among the inputs behind the first; raises OperatorError."""
    if len(given) < CELL_STATE:
        raise OperatorError("tflite/arguments", f"it has {1 + len(given)} inputs, not 20 or 24")
    weights = Weights.of(make, given, node.inputs[1:], asymmetric=asymmetric)
    weights.check()
    states = [each for each in given[OUTPUT_STATE - 1 : CELL_STATE] if each is not None]
    if len(states) != 2:
        raise OperatorError("tflite/arguments", "its states are missing")
    for state in states:
        of_rank("lstm", "a state", state, 2)
    return weights, states


_LAYER, _STATES, _AUXILIARY = 17, 34, 38
"""Inputs behind the first: the weights of a layer, then of both; then the states."""


@operator("BIDIRECTIONAL_SEQUENCE_LSTM", options="BidirectionalSequenceLSTMOptions", types=REALS)
def bidirectional_lstm(
    make: OpBuilder,
    input: Operand,
    *given: Operand | None,
    fused_activation_function: int,
    cell_clip: float,
    proj_clip: float,
    merge_outputs: bool,
    time_major: bool,
    asymmetric_quantize_inputs: bool,
    node: Node,
) -> Any:
    """Two layers, one of which begins with the last step."""
    of_rank("lstm", "input", input, 3)
    states = [each for each in given[_STATES:_AUXILIARY] if each is not None]
    if len(states) != 4:
        raise OperatorError("tflite/arguments", "its states are missing")
    for state in states:
        of_rank("lstm", "a state", state, 2)
    if any(each is not None for each in given[_AUXILIARY:]):
        raise OperatorError("tflite/unsupported", "an auxiliary input")
    cell = Cell(fused_activation_function, cell_clip, proj_clip)
    x = swapped(make, input, swap=not time_major)
    results: list[Operand] = []
    for i in range(2):
        own = slice(i * _LAYER, (i + 1) * _LAYER)
        weights = Weights.of(
            make, given[own], node.inputs[1:][own], asymmetric=asymmetric_quantize_inputs
        )
        weights.check()
        y, after = _over_time(make, x, states[2 * i : 2 * i + 2], weights, cell, backwards=i > 0)
        for j, state in enumerate(after):
            make.evaluator.assign(node.inputs[1 + _STATES + 2 * i + j], state)
        results.append(swapped(make, y, swap=not time_major))
    return make("concat", results, axis=2) if merge_outputs else tuple(results)


@operator("LSTM", options="LSTMOptions", types=REALS)
def lstm(
    make: OpBuilder,
    input: Operand,
    *given: Operand | None,
    fused_activation_function: int,
    cell_clip: float,
    proj_clip: float,
    kernel_type: int,
    asymmetric_quantize_inputs: bool,
    node: Node,
) -> Any:
    """One step of a layer; the basic kernel has its states as inputs and outputs."""
    of_rank("lstm", "input", input, 2)
    if kernel_type == BASIC:
        return _basic(make, input, *given)
    weights, states = _weights_and_states(make, given, node, asymmetric=asymmetric_quantize_inputs)
    cell = Cell(fused_activation_function, cell_clip, proj_clip)
    x = _inputs_of_gates(make, input, weights)
    y, after = _step(make, x, states, weights, cell)
    make.evaluator.assign(node.inputs[OUTPUT_STATE], y)
    make.evaluator.assign(node.inputs[CELL_STATE], after)
    return y


def _basic(make: OpBuilder, input: Operand, *others: Operand | None) -> Any:
    """Output and state after a step, then two tensors of intermediate results.

    The other inputs are the previous output, weights [4 units, depth + units], biases and the
    previous state.  The gates are input, candidate, forget and output.
    """
    given = [each for each in others if each is not None]
    if len(given) != 4 or len(others) != 4:
        raise OperatorError("tflite/arguments", f"it has {1 + len(others)} inputs, not 5")
    previous, weights, bias, state = given
    of_rank("lstm", "the state", state, 2)
    joined = make("concat", [input, previous], axis=1)
    sums = products(make, joined, weights, bias)
    units = state.type.dims[1]
    entry, candidate, forget, opened = (
        slice_in_dim(make, sums, 1, i * units, (i + 1) * units) for i in range(4)
    )
    added = make("mul", make("sigmoid", entry), make("tanh", candidate))
    after = make("add", added, make("mul", make("sigmoid", forget), state))
    y = make("mul", make("sigmoid", opened), make("tanh", after))
    return y, after, joined, sums
