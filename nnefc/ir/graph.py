"""The SSA graph: operations in execution order, values by identity.

A `Value` is defined once, by an `Op` or as a graph input.  The tensor operands of an `Op` are its
`inputs`, with tensor arrays flattened; everything else is an attribute, with defaults filled in.
`nnefc.ops` defines the operations; this module is independent of them.
"""

# pyright: reportPrivateUsage=false
# (Graph owns the links of its operations)

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from nnefc.ir.types import TensorType
from nnefc.support.errors import Place, Step

if TYPE_CHECKING:
    import numpy as np

Attribute = Any
"""bool, int, float, str, DType, Expression, ndarray (data of a constant), Graph (a body, as of a
`scan`), or tuples of these."""


@dataclass(frozen=True, slots=True)
class Location:
    """The source location of an operation: its place, and the invocations that led to it."""

    place: Place
    chain: tuple[Step, ...] = ()


class Value:
    """A tensor of the graph.

    `op` is the operation that defines it, None for a graph input; `index` is its position among the
    outputs of `op` or the graph inputs.  `users` maps each user to its number of uses.
    """

    __slots__ = ("index", "name", "op", "type", "users")

    def __init__(self, type: TensorType, name: str = "", op: Op | None = None, index: int = 0):
        self.type = type
        self.name = name
        self.op = op
        self.index = index
        self.users: dict[Op, int] = {}

    def _add_use(self, op: Op) -> None:
        self.users[op] = self.users.get(op, 0) + 1

    def _drop_use(self, op: Op) -> None:
        count = self.users.pop(op)
        if count > 1:
            self.users[op] = count - 1

    def __repr__(self) -> str:
        return f"<Value %{self.name or '?'}: {self.type}>"


class Op:
    """One operation: `outputs = name(inputs) {attributes}`."""

    __slots__ = (
        "_graph",
        "_next",
        "_previous",
        "attributes",
        "inputs",
        "location",
        "name",
        "outputs",
    )

    def __init__(
        self,
        name: str,
        inputs: Iterable[Value],
        attributes: Mapping[str, Attribute],
        types: Iterable[TensorType],
        names: Sequence[str] = (),
        location: Location | None = None,
    ) -> None:
        self.name = name
        self.inputs: tuple[Value, ...] = tuple(inputs)
        self.attributes: dict[str, Attribute] = dict(attributes)
        self.outputs: tuple[Value, ...] = tuple(
            Value(type, names[i] if i < len(names) else "", self, i) for i, type in enumerate(types)
        )
        self.location = location
        self._graph: Graph | None = None
        self._previous: Op | None = None
        self._next: Op | None = None

    @property
    def output(self) -> Value:
        """The only output."""
        (value,) = self.outputs
        return value

    @property
    def graph(self) -> Graph | None:
        """The graph that contains the operation; None before it is inserted."""
        return self._graph

    @property
    def bodies(self) -> list[Graph]:
        """The graphs among the attributes, such as the body of a `scan`."""
        return [value for value in self.attributes.values() if isinstance(value, Graph)]

    def set_input(self, index: int, value: Value) -> None:
        """Replace one operand."""
        old = self.inputs[index]
        if old is value:
            return
        self.inputs = (*self.inputs[:index], value, *self.inputs[index + 1 :])
        if self._graph is not None:
            old._drop_use(self)
            value._add_use(self)

    def __repr__(self) -> str:
        return f"<Op {self.name}>"


@dataclass(slots=True, eq=False)
class Variable:
    """Stored data under a label; shared by all `variable` operations of that label.

    `data`: the value from the tensor file, read-only and possibly memory-mapped; None for models
    without data.  `reals_of_blocks`: why codes in blocks became these reals; empty for others.
    """

    label: str
    type: TensorType
    data: np.ndarray[Any, Any] | None = None
    reals_of_blocks: str = ""


class State(NamedTuple):
    """A tensor that persists from one call to the next.

    Inputs and outputs are given by position, which passes do not change.
    """

    name: str
    """The name in the document; unique among the states of a graph."""
    input: int | None
    """The input that takes the value of the previous call; None before a value is stored."""
    output: int | None
    """The output that returns the new value; None if the graph appends to the input's memory."""
    axis: int | None = None
    """The axis along which the graph appends items to the input, which has spare capacity there."""


class Count(NamedTuple):
    """An output whose extent along an axis is an upper bound; another output counts its items."""

    output: int
    """The output that holds the number of valid items; of rank 0."""
    of: int
    """The output that is counted."""
    axis: int


class Graph:
    """Inputs, operations in order, outputs, and the data of variables.

    `outputs` may repeat a value or contain an input; assigning replaces all of them.
    `output_names` are the names of the results, which may differ from the names of the values.
    `variables` is keyed by the label in lower case, since labels ignore case.  `declarations` maps
    custom operations to their NNEF declarations.  `states` are inputs and outputs that sessions
    carry from call to call, `counts` outputs that count the items of others; both follow the
    results of the document.
    """

    printer: ClassVar[Callable[[Graph], str]] = object.__repr__
    """The printer of the text form, set by `nnefc.ir`."""

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.inputs: list[Value] = []
        self._outputs: list[Value] = []
        self._output_at: dict[Value, list[int]] = {}
        self.output_names: list[str] = []
        self.variables: dict[str, Variable] = {}
        self.declarations: dict[str, str] = {}
        self.states: list[State] = []
        self.counts: list[Count] = []
        self._first: Op | None = None
        self._last: Op | None = None
        self._count = 0

    def __str__(self) -> str:
        """The text form, see `nnefc.ir.text`."""
        return self.printer()

    # -- reading

    @property
    def outputs(self) -> Sequence[Value]:
        """The results, in order; assigning replaces all of them."""
        return self._outputs

    @outputs.setter
    def outputs(self, values: Iterable[Value]) -> None:
        self._outputs = list(values)
        self._output_at = {}
        for i, value in enumerate(self._outputs):
            self._output_at.setdefault(value, []).append(i)

    @property
    def needs_session(self) -> bool:
        """Whether the graph has states, or results whose extents are known only after a run."""
        return bool(self.states or self.counts)

    @property
    def state_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the states that the graph returns, by name."""
        returned = ((each.name, each.output) for each in self.states)
        return {name: self._outputs[i].type.dims for name, i in returned if i is not None}

    def is_output(self, value: Value) -> bool:
        """Whether a value is among the results."""
        return value in self._output_at

    @property
    def ops(self) -> Iterator[Op]:
        """Operations in order; callers may erase the current one and insert others."""
        op = self._first
        while op is not None:
            following = op._next
            yield op
            op = following

    @property
    def reversed_ops(self) -> Iterator[Op]:
        """Operations in reverse order; callers may erase the current one."""
        op = self._last
        while op is not None:
            previous = op._previous
            yield op
            op = previous

    def __len__(self) -> int:
        """Number of operations."""
        return self._count

    # -- building

    def add_input(self, type: TensorType, name: str) -> Value:
        """Append an input; returns its value."""
        value = Value(type, name, None, len(self.inputs))
        self.inputs.append(value)
        return value

    def add_output(self, value: Value, name: str | None = None) -> None:
        """Append an output; `name`: the name of the result, by default that of the value."""
        self._output_at.setdefault(value, []).append(len(self._outputs))
        self._outputs.append(value)
        self.output_names.append(value.name if name is None else name)

    def insert(self, op: Op, before: Op | None = None) -> Op:
        """Insert `op` before another operation, or at the end; returns `op`."""
        assert op._graph is None, "the operation is already in a graph"
        after = before._previous if before is not None else self._last
        op._graph, op._previous, op._next = self, after, before
        if after is None:
            self._first = op
        else:
            after._next = op
        if before is None:
            self._last = op
        else:
            before._previous = op
        for value in op.inputs:
            value._add_use(op)
        self._count += 1
        return op

    def erase(self, op: Op) -> None:
        """Remove an operation whose outputs have no users."""
        assert not any(v.users for v in op.outputs), f"{op!r} is used"
        self._unlink(op)

    def move(self, op: Op, before: Op) -> None:
        """Move an operation of the graph in front of another one."""
        self._unlink(op)
        self.insert(op, before)

    def _unlink(self, op: Op) -> None:
        assert op._graph is self, "the operation is not in this graph"
        previous, following = op._previous, op._next
        if previous is None:
            self._first = following
        else:
            previous._next = following
        if following is None:
            self._last = previous
        else:
            following._previous = previous
        for value in op.inputs:
            value._drop_use(op)
        op._graph = op._previous = op._next = None
        self._count -= 1

    def replace_value(self, old: Value, new: Value) -> None:
        """Replace all uses of `old`, also among the outputs, by `new`.

        `new` gets the name of `old` if it has none, so that names of the document survive.
        """
        if new is old:
            return
        for op, count in old.users.items():
            op.inputs = tuple(new if v is old else v for v in op.inputs)
            new.users[op] = new.users.get(op, 0) + count
        old.users = {}
        positions = self._output_at.pop(old, [])
        for i in positions:
            self._outputs[i] = new
        if positions:
            self._output_at.setdefault(new, []).extend(positions)
        if not new.name:
            new.name = old.name

    @property
    def updated_labels(self) -> list[str]:
        """The labels of the variables that the graph updates, in lower case."""
        updates = (op.inputs[0].op for op in self.ops if op.name == "update")
        labels = (op.attributes["label"] for op in updates if op is not None)
        return list(dict.fromkeys(str(label).lower() for label in labels))

    def share_variables(self) -> None:
        """Let bodies refer to the variables of the graph, which gets those that it lacks."""
        for body in (body for op in self.ops for body in op.bodies):
            for key, variable in body.variables.items():
                body.variables[key] = self.variables.setdefault(key, variable)
            body.share_variables()

    def clone(self) -> Graph:
        """A deep copy, including bodies; the data of variables and constants is shared."""
        copy = Graph(self.name)
        copy.variables = dict(self.variables)
        copy.declarations = dict(self.declarations)
        values = {v: copy.add_input(v.type, v.name) for v in self.inputs}
        for op in self.ops:
            twin = Op(
                op.name,
                [values[v] for v in op.inputs],
                {
                    name: value.clone() if isinstance(value, Graph) else value
                    for name, value in op.attributes.items()
                },
                [v.type for v in op.outputs],
                [v.name for v in op.outputs],
                op.location,
            )
            copy.insert(twin)
            values.update(zip(op.outputs, twin.outputs, strict=True))
        copy.outputs = [values[v] for v in self.outputs]
        copy.output_names = list(self.output_names)
        copy.states, copy.counts = list(self.states), list(self.counts)
        return copy


def walk(graph: Graph) -> Iterator[Op]:
    """The operations of a graph in order, each followed by the operations of its bodies."""
    for op in graph.ops:
        yield op
        for body in op.bodies:
            yield from walk(body)
