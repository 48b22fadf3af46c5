"""`GraphStates`: what operators of a graph store between calls; inputs that a session keeps.

An input such as a key-value cache, and the output that is its value in the next call, become a
state of the graph.  Where the output is a `Concat` of the input and new items, the state grows in
place (docs/design/dynamic.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from nnefc.frontends.common.extents import NoValue, extent_of
from nnefc.frontends.common.graph_names import room_for, state_name
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.signature import SymbolicInput
from nnefc.frontends.common.values import EmptyTensor, Operand, OperatorError
from nnefc.ir import DType, Graph, State, TensorType, Value
from nnefc.ops.extended import append
from nnefc.support.errors import NnefError


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
        self.capacity = capacity
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
            dims = room_for(dims, *room, self.capacity)
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


@dataclass(frozen=True, slots=True)
class KeptState:
    """An input that a session keeps."""

    input: SymbolicInput
    output: str
    axis: int | None
    """The axis along which the model appends items to it; None if it computes it otherwise."""

    def check(self, dtype: DType, rank: int) -> None:
        """Raise NnefError for an output of another type or rank."""
        each = self.input
        if dtype is not each.dtype or rank != len(each.extents):
            message = f"output '{self.output}' is {dtype} of rank {rank}, but input '{each.name}', "
            message += f"whose next value it is, is {each.dtype}[{','.join(each.written)}]"
            raise NnefError.of("input/state", message, each.place)


class KeptInputs:
    """The states that a graph takes in place of inputs, and what it makes of them."""

    def __init__(
        self, kept: Mapping[str, KeptState], states: GraphStates, *, in_place: bool
    ) -> None:
        self._kept = kept
        self._states = states
        self._in_place = in_place
        self._before: dict[str, tuple[PriorState | None, Operand]] = {}
        """The states before the call by input, and what the nodes of the model take for them."""

    def __contains__(self, name: str) -> bool:
        return name in self._kept

    @property
    def outputs(self) -> set[str]:
        """The outputs that are states."""
        return {each.output for each in self._kept.values()}

    def add(self, make: OpBuilder, name: str, values: Mapping[str, int]) -> Operand:
        """What nodes take for the input `name`; raises OperatorError."""
        state = self._kept[name]
        declared, axis = state.input, state.axis
        in_place = self._in_place and axis is not None
        room = (axis, 1) if in_place and axis is not None else None
        before = self._states.prior(name, declared.dtype, len(declared.extents), room)
        if before is None:
            taken: Operand = EmptyTensor(TensorType(declared.dtype, _first_shape(state, values)))
        elif 0 in before.dims:
            taken = EmptyTensor(TensorType(declared.dtype, before.dims))
        elif in_place and axis is not None:
            taken = slice_in_dim(make, before.value, axis, 0, before.dims[axis])
        else:
            taken = before.value
        self._before[name] = before, taken
        return taken

    def store(self, make: OpBuilder, results: Mapping[str, Any]) -> None:
        """Make the `results` of the model, by name, the states of the next call.

        Raises OperatorError for one that does not fit its input.
        """
        for name, (before, taken) in self._before.items():
            state = self._kept[name]
            after = make.value(results[state.output], may_be_empty=True)
            state.check(after.type.dtype, after.type.rank)
            if before is None or state.axis is None or not self._in_place:
                self._states.store(name, before, after)
            else:
                self._append(make, name, before, taken, after, state.axis)

    def _append(
        self,
        make: OpBuilder,
        name: str,
        before: PriorState,
        taken: Operand,
        after: Value,
        axis: int,
    ) -> None:
        """Append the new items of `after`, which begins with `taken`."""
        if isinstance(taken, EmptyTensor):
            more: Operand = after
        elif after.op is None or after.op.name != "concat" or after.op.inputs[0] is not taken:
            message = f"output '{self._kept[name].output}' is not the kept input '{name}', which "
            message += f"has {before.dims[axis]} items along axis {axis}, and new items behind it"
            hint = (
                "session.reset() empties it; a kept cache of GroupQueryAttention has one sample, "
            )
            hint += "and calls fill it: total_sequence_length counts its items and the new ones"
            raise OperatorError("input/state", message, hint)
        else:
            rest = list(after.op.inputs[1:])
            more = rest[0] if len(rest) == 1 else make("concat", rest, axis=axis)
        value = before.value
        dims = room_for(before.dims, axis, more.type.dims[axis], self._states.capacity)
        value.type = TensorType(value.type.dtype, dims)
        self._states.append(make, name, before, more, axis)


def _first_shape(state: KeptState, values: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of a state without items, before a first call; raises OperatorError."""
    each = state.input
    dims: list[int] = []
    for axis, (extent, text) in enumerate(zip(each.extents, each.written, strict=True)):
        try:
            dims.append(0 if axis == state.axis else extent_of(extent, values))
        except NoValue:
            message = f"extent {text} of the state '{each.name}', which does not grow, is not known"
            hint = f"assign a first value: session.states['{each.name}'] = array"
            raise OperatorError("input/state", message, hint) from None
    if 0 not in dims:
        message = f"the state '{each.name}' has no first value: it is no Concat of it and new items"
        hint = f"assign one: session.states['{each.name}'] = array"
        raise OperatorError("input/state", message, hint)
    return tuple(dims)


def add_inputs(graph: Graph, values: Iterable[Value]) -> None:
    """Add inputs that exist already to a graph."""
    for value in values:
        value.index = len(graph.inputs)
        graph.inputs.append(value)
