"""`GraphStates`: what operators of a graph store between calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nnefc.frontends.common.graph_names import room_for, state_name
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.ir import DType, Graph, State, TensorType, Value
from nnefc.ops.extended import append


@dataclass(frozen=True, slots=True)
class PriorState:
    """The value of a state after the previous call: an input, valid in its first items."""

    value: Value
    dims: tuple[int, ...]
    """The shape of the valid items."""


class _Update(NamedTuple):
    """How a call changes a state: it returns a new value `after`, or appends along `axis`."""

    before: Value | None
    after: Operand | None
    axis: int | None = None


class GraphStates:
    """The states of a graph, in the order of the operators."""

    def __init__(self, shapes: Mapping[str, Sequence[int]], capacity: int | None = None) -> None:
        """`shapes`: of the states after the previous call, by name; missing ones do not exist yet.

        `capacity`: the extent of the memory of growing states along their axes; None: with room for
        the items of the call.
        """
        self.shapes = shapes
        self._capacity = capacity
        self._updates: dict[str, _Update] = {}
        self._unnamed: Counter[str] = Counter()

    def free_name(self, kind: str) -> str:
        """A name for a state that the document does not name."""
        self._unnamed[kind] += 1
        return f"{kind}_{self._unnamed[kind]}"

    def prior(
        self,
        name: str,
        dtype: DType,
        rank: int | None = None,
        room: tuple[int, int] | None = None,
    ) -> PriorState | None:
        """The input that holds a state; None if no call has stored it yet.

        `rank`: the rank that the state must have.  `room`: (axis, n) if the input has memory for at
        least n more items along an axis.  Raises OperatorError for a state of another rank, or one
        that another operator stores.
        """
        shape = self.shapes.get(name)
        if name in self._updates:
            raise OperatorError("operator/state", f"two operators store the state '{name}'")
        if shape is None:
            return None
        dims = tuple(shape)
        if rank is not None and len(dims) != rank:
            message = f"the state '{name}' has shape {list(dims)}, but must have rank {rank}"
            raise OperatorError("input/state", message)
        if room is not None:
            dims = room_for(dims, *room, self._capacity)
        return PriorState(Value(TensorType(dtype, dims), state_name(name)), tuple(shape))

    def store(self, name: str, before: PriorState | None, after: Operand) -> None:
        """Make `after` the value of a state in the next call."""
        self._updates[name] = _Update(before and before.value, after)

    def append(
        self, make: OpBuilder, name: str, before: PriorState, more: Operand, axis: int
    ) -> None:
        """Append `more` along an axis to a state whose input has room for it."""
        self._updates[name] = _Update(before.value, None, axis)
        if more.type.dims[axis] > 0:
            make(append.NAME, before.value, more, axis=axis, begin=before.dims[axis])

    def add_inputs(self, graph: Graph) -> None:
        """Add the values after the previous call as inputs, behind those of the document."""
        add_inputs(graph, (each.before for each in self._updates.values() if each.before))

    def add_outputs(self, make: OpBuilder) -> None:
        """Add the new values as outputs, and all states to the graph."""
        graph = make.graph
        for name, (before, after, axis) in self._updates.items():
            output = None
            if after is not None:
                output = len(graph.outputs)
                graph.add_output(make.value(after, may_be_empty=True), state_name(name))
            taken = None if before is None else before.index
            graph.states.append(State(name, taken, output, axis))


def add_inputs(graph: Graph, values: Iterable[Value]) -> None:
    """Add inputs that exist already to a graph."""
    for value in values:
        value.index = len(graph.inputs)
        graph.inputs.append(value)
