"""Values that outlive a call: variable tensors and resources, which are states of the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from nnefc.formats.tflite.model import Operator, Subgraph, Tensor
from nnefc.frontends.common.graph_states import GraphStates, PriorState
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.tflite.states import prior_value
from nnefc.frontends.tflite.subgraph_calls import ResourceUses
from nnefc.frontends.tflite.tensors import DTYPES
from nnefc.ir import DType

RANDOM: Final = ("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL")
"""Operators that have a generator."""
START: Final = KnownTensor(np.zeros((), np.uint64), DType.UINT64)
"""The position of a generator before a first call."""


def generator_name(subgraph: Subgraph, operator: Operator) -> str:
    """The name of the position of a generator."""
    return f"random_{subgraph.index}_{operator.index}"


@dataclass
class Memory:
    """The present values by name, as one graph has them: the main one, or a body."""

    states: GraphStates
    uses: ResourceUses
    before: dict[str, PriorState | None] = field(default_factory=dict[str, PriorState | None])
    """The states before the call."""
    values: dict[str, Operand] = field(default_factory=dict[str, Operand])
    is_body: bool = False
    """Whether the graph is a body, whose values are operands."""
    initializes: bool = False
    """Whether the operators are those of `CALL_ONCE`, which count in a first call only."""

    def inside(self, values: Mapping[str, Operand]) -> Memory:
        """The memory of a body, with the `values` that it has there."""
        return replace(self, values=dict(values), is_body=True)

    def variable(self, name: str, tensor: Tensor) -> Operand:
        """The value of a variable tensor, whose state is `name`; raises OperatorError."""
        if name not in self.values:
            self._require_main(name)
            self.before[name], self.values[name] = prior_value(self.states, name, tensor)
        return self.values[name]

    def position(self, name: str) -> Operand:
        """The position of a generator."""
        if name not in self.values:
            self._require_main(name)
            before = self.states.prior(name, DType.UINT64, 0)
            self.before[name], self.values[name] = before, START if before is None else before.value
        return self.values[name]

    def read(self, name: str) -> Operand:
        """The value of a resource; raises OperatorError if it has none."""
        if not self.load(name):
            message = f"the variable '{name}' is read before it is assigned"
            raise OperatorError("tflite/arguments", message)
        return self.values[name]

    def load(self, name: str) -> bool:
        """Whether a resource has a value; that of an earlier call is loaded."""
        if name in self.values:
            return True
        dtype = DTYPES.get(self.uses.types.get(name, ""))
        if name not in self.uses.changed or dtype is None or self.is_body:
            return False
        before = self.states.prior(name, dtype)
        if before is None:
            return False
        self.before[name], self.values[name] = before, before.value
        return True

    def load_all(self) -> None:
        """Load all resources that have a value."""
        for name in sorted(self.uses.changed):
            self.load(name)

    def assign(self, name: str, value: Operand) -> None:
        """Replace a value; raises OperatorError for a new one in a body."""
        if self.initializes and name in self.uses.changed and name in self.states.shapes:
            return
        if self.is_body:
            self._require_known(name)
        else:
            self.load(name)
        self.values[name] = value

    def store(self) -> None:
        """Make the present values the states of the next call."""
        for name, value in self.values.items():
            if name in self.before or name in self.uses.changed:
                self.states.store(name, self.before.get(name), value)

    def _require_main(self, name: str) -> None:
        if self.is_body:
            message = f"the variable tensor '{name}' is in a subgraph that may not run"
            raise OperatorError("tflite/unsupported", message)

    def _require_known(self, name: str) -> None:
        if name not in self.values:
            message = f"the variable '{name}' is assigned first in a subgraph that may not run"
            raise OperatorError("tflite/unsupported", message)
