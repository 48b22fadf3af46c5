"""Recurrent layers of reals, whose states are variable tensors: RNN and SVDF."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nnefc.frontends.common.loops import loop
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank, of_rank_at_least
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.hybrid import Matrix, items_of, reals_of, weights_of, with_items
from nnefc.frontends.tflite.operators.activations import activated
from nnefc.frontends.tflite.operators.layers import bias_row, linear
from nnefc.frontends.tflite.registry import REALS, Node, operator

Step = Callable[[OpBuilder, Operand, list[Operand], list[Operand]], list[Operand]]
"""`step(make, input, states, shared)`: the new states, of which the first is the output."""


def over_time(
    make: OpBuilder,
    inputs: Operand,
    states: list[Operand],
    shared: list[Operand],
    step: Step,
    *,
    backwards: bool = False,
) -> tuple[Operand, list[Operand]]:
    """The outputs [time, batch, units] of a layer for inputs [time, ...], and its last states."""

    def body(
        within: OpBuilder, before: list[Operand], slices: list[Operand], captured: list[Operand]
    ) -> tuple[list[Operand], list[Operand]]:
        x = within.reshape(slices[0], slices[0].type.dims[1:])
        after = step(within, x, before, captured)
        return after, [within.reshape(after[0], (1, *after[0].type.dims))]

    turns = inputs.type.dims[0]
    if turns < 1:
        raise OperatorError("tflite/shape", "the sequence has no steps")
    flags = (backwards, backwards)
    after, stacked = loop(make, turns, states, [inputs], shared, body, backwards=flags)
    return stacked[0], after


def swapped(make: OpBuilder, x: Operand, *, swap: bool) -> Operand:
    """A tensor [batch, time, ..] as [time, batch, ..], if `swap`."""
    return make.transpose(x, (1, 0, *range(2, x.type.rank))) if swap else x


def products(make: OpBuilder, x: Operand, weights: Matrix, bias: Operand | None = None) -> Operand:
    """x W^T + b for x [.., depth] and W [units, depth]."""
    dims = of_rank_at_least("linear", "input", x, 1)
    units, depth = of_rank("linear", "weights", items_of(weights), 2)
    if dims[-1] != depth:
        message = f"input has shape {list(dims)}, weights {[units, depth]}"
        raise OperatorError("tflite/shape", message)
    rows = make.reshape(x, (x.type.volume // depth, depth))
    y = linear(make, rows, weights, bias)
    return make.reshape(y, (*dims[:-1], units))


@operator("RNN", options="RNNOptions", types=REALS)
def rnn(
    make: OpBuilder,
    input: Operand,
    weights: Operand,
    recurrent_weights: Operand,
    bias: Operand,
    hidden_state: Operand,
    *,
    fused_activation_function: int,
    asymmetric_quantize_inputs: bool,
    node: Node,
) -> Any:
    """activation(x W^T + h R^T + b), which is the next h."""
    own, recurrent = _matrices(
        make, node, 1, weights, recurrent_weights, asymmetric=asymmetric_quantize_inputs
    )
    x = products(make, input, own, bias)
    sums = make("add", x, products(make, hidden_state, recurrent))
    y = activated(make, sums, fused_activation_function)
    make.evaluator.assign(node.inputs[4], y)
    return y


def _matrices(
    make: OpBuilder, node: Node, first: int, *weights: Operand, asymmetric: bool
) -> list[Matrix]:
    """Weights that are the inputs from `first` on."""
    return [
        weights_of(make, each, node.inputs[first + i], asymmetric=asymmetric)
        for i, each in enumerate(weights)
    ]


def _rnn_over_time(
    make: OpBuilder,
    inputs: Operand,
    matrices: Sequence[Matrix],
    bias: Operand,
    hidden_state: Operand,
    activation: int,
    *,
    backwards: bool = False,
) -> tuple[Operand, Operand]:
    """Outputs [time, batch, units] for inputs [time, batch, depth], and the last state.

    `matrices`: weights of the input and of the state.
    """
    own, recurrent = matrices

    def step(
        within: OpBuilder, x: Operand, states: list[Operand], shared: list[Operand]
    ) -> list[Operand]:
        own_items = with_items(recurrent, shared[0])
        sums = within("add", x, products(within, states[0], own_items))
        return [activated(within, sums, activation)]

    x = products(make, inputs, own, bias)
    shared = [items_of(recurrent)]
    y, after = over_time(make, x, [hidden_state], shared, step, backwards=backwards)
    return y, after[0]


@operator("UNIDIRECTIONAL_SEQUENCE_RNN", options="SequenceRNNOptions", types=REALS)
def sequence_rnn(
    make: OpBuilder,
    input: Operand,
    weights: Operand,
    recurrent_weights: Operand,
    bias: Operand,
    hidden_state: Operand,
    *,
    time_major: bool,
    fused_activation_function: int,
    asymmetric_quantize_inputs: bool,
    node: Node,
) -> Any:
    """input [batch, time, depth], or [time, batch, depth] if `time_major`."""
    of_rank("rnn", "input", input, 3)
    x = swapped(make, input, swap=not time_major)
    matrices = _matrices(
        make, node, 1, weights, recurrent_weights, asymmetric=asymmetric_quantize_inputs
    )
    activation = fused_activation_function
    y, after = _rnn_over_time(make, x, matrices, bias, hidden_state, activation)
    make.evaluator.assign(node.inputs[4], after)
    return swapped(make, y, swap=not time_major)


@operator("BIDIRECTIONAL_SEQUENCE_RNN", options="BidirectionalSequenceRNNOptions", types=REALS)
def bidirectional_rnn(
    make: OpBuilder,
    input: Operand,
    fw_weights: Operand,
    fw_recurrent_weights: Operand,
    fw_bias: Operand,
    fw_state: Operand,
    bw_weights: Operand,
    bw_recurrent_weights: Operand,
    bw_bias: Operand,
    bw_state: Operand,
    aux_input: Operand | None = None,
    fw_aux_weights: Operand | None = None,
    bw_aux_weights: Operand | None = None,
    *,
    time_major: bool,
    fused_activation_function: int,
    merge_outputs: bool,
    asymmetric_quantize_inputs: bool,
    node: Node,
) -> Any:
    """Two layers, one of which begins with the last step."""
    if aux_input is not None or fw_aux_weights is not None or bw_aux_weights is not None:
        raise OperatorError("tflite/unsupported", "an auxiliary input")
    of_rank("rnn", "input", input, 3)
    x = swapped(make, input, swap=not time_major)
    activation = fused_activation_function
    given = fw_weights, fw_recurrent_weights, bw_weights, bw_recurrent_weights
    asymmetric = asymmetric_quantize_inputs
    forth = _matrices(make, node, 1, *given[:2], asymmetric=asymmetric)
    back = _matrices(make, node, 5, *given[2:], asymmetric=asymmetric)
    forwards, fw_after = _rnn_over_time(make, x, forth, fw_bias, fw_state, activation)
    backwards, bw_after = _rnn_over_time(
        make, x, back, bw_bias, bw_state, activation, backwards=True
    )
    make.evaluator.assign(node.inputs[4], fw_after)
    make.evaluator.assign(node.inputs[8], bw_after)
    results = [swapped(make, y, swap=not time_major) for y in (forwards, backwards)]
    return make("concat", results, axis=2) if merge_outputs else tuple(results)


def svdf_extents(
    input: Operand, weights_time: Operand, state: Operand, rank: int
) -> tuple[int, int, int]:
    """Batch, filters and steps of `SVDF`; raises OperatorError for shapes that do not fit."""
    filters, steps = of_rank("svdf", "weights_time", weights_time, 2)
    batch, _ = of_rank("svdf", "input", input, 2)
    if rank < 1 or filters % rank or state.type.dims != (batch, filters * steps):
        message = f"{filters} filters of rank {rank}, state of shape {list(state.type.dims)}"
        raise OperatorError("tflite/shape", message)
    return batch, filters, steps


def with_feature(
    make: OpBuilder, node: Node, state: Operand, feature: Operand, steps: int
) -> Operand:
    """The features of the last steps of `SVDF`, [batch, filters, steps], which the state keeps.

    `feature` [batch, filters, 1] is that of this step.
    """
    batch, filters, _ = feature.type.dims
    before = slice_in_dim(make, make.reshape(state, (batch, filters, steps)), 2, 1, steps)
    after = make("concat", [before, feature], axis=2) if steps > 1 else feature
    make.evaluator.assign(node.inputs[4], make.reshape(after, state.type.dims))
    return after


@operator("SVDF", options="SVDFOptions", types=REALS)
def svdf(
    make: OpBuilder,
    input: Operand,
    weights_feature: Operand,
    weights_time: Operand,
    bias: Operand | None,
    state: Operand,
    *,
    rank: int,
    fused_activation_function: int,
    asymmetric_quantize_inputs: bool,
    node: Node,
) -> Any:
    """Filters of rank `rank`: features of the input, kept for some steps, weighted over time.

    input [batch, depth], weights_feature [filters, depth], weights_time [filters, steps],
    state [batch, filters * steps], result [batch, filters / rank].
    """
    batch, filters, steps = svdf_extents(input, weights_time, state, rank)
    (features,) = _matrices(make, node, 1, weights_feature, asymmetric=asymmetric_quantize_inputs)
    feature = make.reshape(products(make, input, features), (batch, filters, 1))
    weights_time = reals_of(make, weights_time, node.inputs[2])
    after = with_feature(make, node, state, feature, steps)
    weighted = make("mul", after, make.reshape(weights_time, (1, filters, steps)))
    sums = make.reshape(make("sum_reduce", weighted, axes=(2,)), (batch, filters // rank, rank))
    y = make.reshape(make("sum_reduce", sums, axes=(2,)), (batch, filters // rank))
    if bias is not None:
        y = make("add", y, *bias_row(make, bias))
    return activated(make, y, fused_activation_function)
