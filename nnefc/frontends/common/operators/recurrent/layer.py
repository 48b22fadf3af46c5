"""A recurrent layer: its directions, its loop over time, and what a cell computes with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from nnefc.frontends.common.loops import loop
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank, of_shape
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.precision import accumulation_type
from nnefc.frontends.common.operators.recurrent.activations import (
    Activation,
    number_of_parameters,
    recurrent_activation,
)
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.ir import DType

_DIRECTIONS: Final = {
    "forward": (False,),
    "foward": (False,),  # the default of GRU in version 1
    "reverse": (True,),
    "bidirectional": (False, True),
}
"""Whether each direction of a layer runs backwards."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The kind of a layer: how many gates and states it has, and one step."""

    name: str
    gates: int
    states: int
    activations: tuple[str, ...]
    """The names of the default activations of a direction."""
    step: Callable[[Step], list[Operand]]


@dataclass(frozen=True, slots=True)
class Layer:
    """The attributes of a layer."""

    cell: Cell
    direction: str
    hidden_size: int
    """0 if it is not given."""
    clip: float
    """The largest size of the inputs of activations; 0 is no limit."""
    activations: Sequence[str]
    alphas: Sequence[float]
    betas: Sequence[float]
    by_samples: bool = False
    """Whether samples are the first dimension, not steps."""
    reset_after_product: bool = False
    input_forget: bool = False
    factors: Callable[[OpBuilder, Operand], Operand] | None = None
    """What inputs and hidden states become before they are multiplied with weights."""

    @property
    def backwards(self) -> tuple[bool, ...]:
        """Whether each direction runs backwards; raises OperatorError."""
        if self.direction not in _DIRECTIONS:
            message = f"direction = '{self.direction}'; forward, reverse or bidirectional"
            raise OperatorError(f"argument/{self.cell.name}", message)
        return _DIRECTIONS[self.direction]

    def functions(self, make: OpBuilder) -> list[list[Activation]]:
        """The activations of each direction; raises OperatorError.

        Values of alpha and beta go to the activations that have them, in order.
        """
        count, directions = len(self.cell.activations), len(self.backwards)
        names = list(self.activations) or list(self.cell.activations) * directions
        if len(names) > count * directions and len(set(names)) == 1:
            names = names[: count * directions]  # the default of RNN has names for two directions
        if len(names) != count * directions:
            message = f"{len(names)} activations, not {count} for each of {directions} directions"
            raise OperatorError(f"argument/{self.cell.name}", message)
        alphas, betas = list(self.alphas), list(self.betas)
        found: list[Activation] = []
        for name in names:
            taken = number_of_parameters(name)
            parameters = [alphas.pop(0)] if taken > 0 and alphas else []
            if taken > 1 and parameters and betas:
                parameters.append(betas.pop(0))
            found.append(recurrent_activation(make, name, parameters))
        return [found[i * count : (i + 1) * count] for i in range(directions)]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a direction, within the body of the loop."""

    make: OpBuilder
    input: Operand
    """x W^T with the biases, [batch, gates * hidden]."""
    states: Sequence[Operand]
    recurrence: Operand
    """R, [gates * hidden, hidden]."""
    bias: Operand | None
    """[1, hidden]: added to the product of the last gate."""
    peepholes: Operand | None
    functions: Sequence[Activation]
    layer: Layer

    @property
    def hidden(self) -> int:
        return self.recurrence.type.dims[1]

    @property
    def reset_after_product(self) -> bool:
        return self.layer.reset_after_product

    @property
    def input_forget(self) -> bool:
        return self.layer.input_forget

    def gates(self, x: Operand, first: int, end: int) -> Operand:
        """Gates `first` to `end` of a tensor [batch, gates * hidden]."""
        return slice_in_dim(self.make, x, 1, first * self.hidden, end * self.hidden)

    def product(self, x: Operand, first: int, end: int) -> Operand:
        """x R^T for gates `first` to `end`, with the bias of the last gate if it is separate."""
        rows = slice_in_dim(self.make, self.recurrence, 0, first * self.hidden, end * self.hidden)
        if self.layer.factors is not None:
            x = self.layer.factors(self.make, x)
        y = self.make("matmul", x, rows, transposeB=True)
        is_last = end == self.layer.cell.gates
        return y if self.bias is None or not is_last else self.make("add", y, self.bias)

    def peephole(self, x: Operand, cell: Operand, index: int) -> Operand:
        """x + p cell with peephole `index`, if the layer has peepholes."""
        if self.peepholes is None:
            return x
        weights = self.gates(self.peepholes, index, index + 1)
        return self.make("add", x, self.make("mul", cell, weights))

    def activated(self, index: int, x: Operand, *, clipped: bool = True) -> Operand:
        """Activation `index` of x, which is clipped before."""
        clip = self.layer.clip
        if clip > 0 and clipped:
            x = self.make("clamp", x, -clip, clip)
        return self.functions[index](self.make, x)


def run_layer(
    make: OpBuilder,
    layer: Layer,
    x: Operand,
    w: Operand,
    r: Operand,
    b: Operand | None,
    lengths: Operand | None,
    initial: Sequence[Operand | None],
    peepholes: Operand | None = None,
) -> list[Operand]:
    """The states of all steps, and the last ones; raises OperatorError.

    x [steps, batch, inputs], w [directions, gates * hidden, inputs], r [directions,
    gates * hidden, hidden], b [directions, 2 gates * hidden], initial states [directions, batch,
    hidden], `peepholes` [directions, 3 hidden].  The results are [steps, directions, batch,
    hidden] and [directions, batch, hidden].  `by_samples` moves the batch to the front.
    """
    dtype, wide = x.type.dtype, accumulation_type(x.type.dtype)
    name = layer.cell.name
    of_rank(name, "X", x, 3)
    x = make.cast(make.transpose(x, (1, 0, 2)) if layer.by_samples else x, wide)
    steps, batch, inputs = x.type.dims
    backwards = layer.backwards
    count, hidden = len(backwards), of_rank(name, "R", r, 3)[2]
    _check(layer, inputs, hidden, {"W": w, "R": r, "B": b, "P": peepholes})
    mask = None if lengths is None else _mask(make, name, lengths, steps, batch)
    states = [_initial(make, layer, each, (count, batch, hidden), wide) for each in initial]
    functions = layer.functions(make)
    results: list[tuple[Operand, list[Operand]]] = []
    for i, back in enumerate(backwards):
        biases, weights = (
            None if each is None else _row(make, each, i, wide) for each in (b, peepholes)
        )
        matrices = [_matrix(make, each, i, wide) for each in (w, r)]
        begin = [_matrix(make, state, i, wide) for state in states]
        results.append(
            _run_direction(
                make, layer, x, matrices, biases, weights, begin, mask, functions[i], back
            )
        )
    every = _joined(make, [make.reshape(y, (steps, 1, batch, hidden)) for y, _ in results], 1)
    lasts = [
        _joined(make, [make.reshape(last[j], (1, batch, hidden)) for _, last in results], 0)
        for j in range(len(initial))
    ]
    if layer.by_samples:
        every = make.transpose(every, (2, 0, 1, 3))
        lasts = [make.transpose(last, (1, 0, 2)) for last in lasts]
    return [make.cast(y, dtype) for y in (every, *lasts)]


def _check(layer: Layer, inputs: int, hidden: int, tensors: Mapping[str, Operand | None]) -> None:
    """Raise OperatorError unless the tensors of a layer have the shapes that `run_layer` names."""
    name, count, rows = layer.cell.name, len(layer.backwards), layer.cell.gates * hidden
    if layer.hidden_size not in (0, hidden):
        message = f"hidden_size = {layer.hidden_size}, but R has {hidden} columns"
        raise OperatorError(f"argument/{name}", message)
    shapes = {
        "W": (count, rows, inputs),
        "R": (count, rows, hidden),
        "B": (count, 2 * rows),
        "P": (count, 3 * hidden),
    }
    for key, tensor in tensors.items():
        if tensor is not None:
            of_shape(name, key, tensor, shapes[key])


def _run_direction(
    make: OpBuilder,
    layer: Layer,
    x: Operand,
    matrices: Sequence[Operand],
    biases: Operand | None,
    peepholes: Operand | None,
    states: Sequence[Operand],
    mask: Operand | None,
    functions: Sequence[Activation],
    back: bool,
) -> tuple[Operand, list[Operand]]:
    """The states of all steps of a direction [steps, batch, hidden], and the last states."""
    steps, batch, inputs = x.type.dims
    w, r = matrices
    width, hidden = r.type.dims
    x = make.reshape(x, (steps * batch, inputs))
    x = x if layer.factors is None else layer.factors(make, x)
    rows = make("matmul", x, w, transposeB=True)
    bias: Operand | None = None
    if biases is not None:
        own, other = (slice_in_dim(make, biases, 1, i * width, (i + 1) * width) for i in range(2))
        if layer.reset_after_product:  # that of the last gate is added before the reset
            bias = slice_in_dim(make, other, 1, width - hidden, width)
            zero = KnownTensor(np.zeros((1, hidden), bias.type.dtype.numpy), bias.type.dtype)
            other = make("concat", [slice_in_dim(make, other, 1, 0, width - hidden), zero], axis=1)
        rows = make("add", rows, make("add", own, other))
    scanned = [make.reshape(rows, (steps, batch, width)), *(() if mask is None else (mask,))]
    optional = {"bias": bias, "peepholes": peepholes}
    given = [name for name, value in optional.items() if value is not None]
    shared = [r, *(value for value in optional.values() if value is not None)]

    def step(
        within: OpBuilder, before: list[Operand], slices: list[Operand], shared: list[Operand]
    ) -> tuple[Sequence[Operand], Sequence[Operand]]:
        extra = dict(zip(given, shared[1:], strict=True))
        input = within.reshape(slices[0], (batch, width))
        new = layer.cell.step(
            Step(within, input, before, shared[0], extra.get("bias"), extra.get("peepholes"),
                 functions, layer)
        )  # fmt: skip
        output = new[0]
        if mask is not None:
            runs = within.reshape(slices[1], (batch, 1))
            new = [within("select", runs, y, x) for x, y in zip(before, new, strict=True)]
            output = within("select", runs, output, 0.0)
        return new, [within.reshape(output, (1, batch, hidden))]

    flags = (back,) * (len(scanned) + 1)
    finals, stacked = loop(make, steps, states, scanned, shared, step, backwards=flags)
    return stacked[0], finals


def _mask(make: OpBuilder, name: str, lengths: Operand, steps: int, batch: int) -> Operand | None:
    """Whether each sample has an item at each step, [steps, batch, 1]; None if all have."""
    of_shape(name, "sequence_lens", lengths, (batch,))
    if isinstance(lengths, KnownTensor) and bool(np.all(lengths.array == steps)):
        return None
    counts = make.reshape(make.cast(lengths, DType.INT64), (1, batch, 1))
    return make("lt", make.reshape(make.iota(steps), (steps, 1, 1)), counts)


def _initial(
    make: OpBuilder, layer: Layer, state: Operand | None, shape: tuple[int, int, int], dtype: DType
) -> Operand:
    """An initial state [directions, batch, hidden], by default zeros; raises OperatorError."""
    if state is None:
        zero = KnownTensor(np.zeros((1, 1, 1), dtype.numpy), dtype)
        return make.repeated(zero, shape)
    if layer.by_samples and state.type.rank == 3:
        state = make.transpose(state, (1, 0, 2))
    of_shape(layer.cell.name, "an initial state", state, shape)
    return make.cast(state, dtype)


def _matrix(make: OpBuilder, x: Operand, index: int, dtype: DType) -> Operand:
    """Matrix `index` of a tensor of rank 3."""
    piece = slice_in_dim(make, x, 0, index, index + 1)
    return make.cast(make.reshape(piece, x.type.dims[1:]), dtype)


def _row(make: OpBuilder, x: Operand, index: int, dtype: DType) -> Operand:
    """Row `index` of a matrix, as a matrix."""
    return make.cast(slice_in_dim(make, x, 0, index, index + 1), dtype)


def _joined(make: OpBuilder, pieces: list[Operand], axis: int) -> Operand:
    return pieces[0] if len(pieces) == 1 else make("concat", pieces, axis=axis)
