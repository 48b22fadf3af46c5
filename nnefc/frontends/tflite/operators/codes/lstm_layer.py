"""The tensors of a layer of long short-term memory of int8, with LiteRT's checks and factors.

Factors of requantizations are computed in float32, as LiteRT does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from nnefc.formats.tflite.model import Tensor
from nnefc.frontends.common.values import OperatorError
from nnefc.frontends.tflite.fixed_point import scale_of
from nnefc.frontends.tflite.operators.recurrent.lstm import CELL_STATE, GATES, OUTPUT_STATE
from nnefc.frontends.tflite.registry import Node

WEIGHTS, RECURRENT, BIASES, NORMALIZATION = 1, 5, 12, 20
"""Inputs with a tensor per gate: the first one."""
PROJECTION, PROJECTION_BIAS = 16, 17
INPUTS: Final = 24
_PEEPHOLES: Final = {0: 9, 1: 10, 3: 11}
"""Inputs by gate."""
_GATE_SCALE: Final = 2.0**-12
"""Before the functions of gates that are not normalised."""
_HIDDEN: Final = 4
"""The intermediate tensor with the scale of the output before the projection; the others are those
of the gates."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The tensors of a layer, by input of the operator; those that are absent are None."""

    tensors: tuple[Tensor | None, ...]
    between: tuple[Tensor | None, ...]
    cell_clip: int
    """In units of the cell; 0 for none."""
    proj_clip: int

    @classmethod
    def of(cls, node: Node, cell_clip: float, proj_clip: float) -> Layer:
        """The layer of an operator; raises OperatorError for one that LiteRT refuses."""
        tensors = (*node.inputs, *[None] * (INPUTS - len(node.inputs)))
        between = (*node.intermediates, *[None] * (_HIDDEN + 1))[: _HIDDEN + 1]
        layer = cls(tensors, between, 0, 0)
        layer.check()
        if not (cell_clip >= 0 and proj_clip >= 0):
            raise OperatorError("tflite/arguments", f"the limits {cell_clip} and {proj_clip}")
        clips = [
            int(min(max(clip / layer.scale(index), 0), limit))
            for clip, index, limit in (
                (cell_clip, CELL_STATE, 32767),
                (proj_clip, OUTPUT_STATE, 127),
            )
        ]
        return cls(tensors, between, *clips)

    def scale(self, index: int) -> float:
        return scale_of(self.tensor(index))

    def tensor(self, index: int) -> Tensor:
        tensor = self.tensors[index]
        if tensor is None:
            raise OperatorError("tflite/arguments", f"its input {index} is missing")
        return tensor

    def _intermediate(self, index: int) -> Tensor:
        tensor = self.between[index]
        if tensor is None:
            raise OperatorError("tflite/arguments", "its intermediate tensors are missing")
        return tensor

    @property
    def hidden(self) -> Tensor:
        """The tensor with the scale of the output before the projection."""
        return self._intermediate(_HIDDEN)

    @property
    def cell_bits(self) -> int:
        """The exponent of the scale of the cell; raises OperatorError for another scale."""
        scale = self.scale(CELL_STATE)
        exponent = round(math.log2(scale))
        if not -15 <= exponent <= -9 or abs(scale * 2.0**-exponent - 1) > 1e-3:
            message = f"{self.tensor(CELL_STATE)} has the scale {scale}, no power of 2"
            raise OperatorError("tflite/quantization", message)
        return exponent

    @property
    def gates(self) -> list[int]:
        """The gates that are computed: without an input gate, it is 1 less the forget gate."""
        return [gate for gate in range(4) if gate or self.tensors[WEIGHTS] is not None]

    @property
    def is_normalized(self) -> bool:
        return self.tensors[NORMALIZATION + 1] is not None

    @property
    def has_peepholes(self) -> bool:
        return self.tensors[_PEEPHOLES[3]] is not None

    def peephole(self, gate: int) -> int | None:
        """The input with the weights of the cell for a gate, if it has some."""
        return _PEEPHOLES.get(gate) if self.has_peepholes else None

    def factor(self, index: int, source: float, gate: int) -> float:
        """Of products of weights and codes with the scale `source`, in units of a gate."""
        unit = scale_of(self._intermediate(gate)) if self.is_normalized else _GATE_SCALE
        return _quotient(self.scale(index), source, unit)

    @property
    def hidden_factor(self) -> float:
        """Of products of two fractions of 15 bits, in units of the output."""
        return _quotient(2.0**-15, 2.0**-15, scale_of(self.hidden))

    @property
    def projection_factor(self) -> float:
        return _quotient(self.scale(PROJECTION), scale_of(self.hidden), self.scale(OUTPUT_STATE))

    def check(self) -> None:
        """Raise OperatorError for tensors that are missing, too many or of another type."""
        of_gates = ((WEIGHTS, "INT8"), (RECURRENT, "INT8"), (BIASES, "INT32"))
        wanted = {OUTPUT_STATE: "INT8", CELL_STATE: "INT16"}
        is_watching = any(self.tensors[each] is not None for each in _PEEPHOLES.values())
        for gate in self.gates:
            wanted |= {first + gate: type_ for first, type_ in of_gates}
            if self.is_normalized:
                wanted[NORMALIZATION + gate] = "INT16"
                self._intermediate(gate)
            if is_watching and gate in _PEEPHOLES:
                wanted[_PEEPHOLES[gate]] = "INT16"
        if self.tensors[PROJECTION] is not None:
            wanted[PROJECTION] = "INT8"
        if self.tensors[PROJECTION_BIAS] is not None:
            wanted |= {PROJECTION: "INT8", PROJECTION_BIAS: "INT32"}
        for index, type_ in wanted.items():
            tensor = self.tensors[index]
            if tensor is None or tensor.type != type_:
                what = f"no input {index}" if tensor is None else f"{tensor} of {tensor.type}"
                raise OperatorError("tflite/unsupported", f"{what}, where {type_} is expected")
        self._check_the_input_gate()

    def _check_the_input_gate(self) -> None:
        """Raise OperatorError for tensors of a gate that is not computed."""
        if 0 in self.gates:
            return
        for index in (RECURRENT, BIASES, *([NORMALIZATION] if self.is_normalized else [])):
            tensor = self.tensors[index]
            if tensor is not None:
                message = f"{tensor} is of the {GATES[0]} gate, which has no weights"
                raise OperatorError("tflite/arguments", message)

    def shared(self) -> Sequence[int]:
        """The inputs that steps read."""
        present = [RECURRENT + gate for gate in self.gates]
        if self.is_normalized:
            present += [first + gate for gate in self.gates for first in (BIASES, NORMALIZATION)]
        present += [each for gate in self.gates if (each := self.peephole(gate)) is not None]
        further = (PROJECTION, PROJECTION_BIAS)
        return [*present, *(each for each in further if self.tensors[each] is not None)]


def _quotient(x: float, y: float, z: float) -> float:
    """x y / z in float32."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.float32(x) * np.float32(y) / np.float32(z))
