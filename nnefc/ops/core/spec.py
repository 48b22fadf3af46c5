"""`OpSpec`: everything there is to know of an operation, in one entry.

`infer` checks an invocation and gives the types of its results.  It is written so
that what needs only attributes is checked first: reading a shape or an attribute
that is not known (a fragment checked before it is expanded) ends the rule quietly,
so every rule serves full and partial knowledge alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from nnefc.ir import Attribute, DType, Expression, Graph, Op, Shape, TensorType
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.traits import Traits

if TYPE_CHECKING:
    from nnefc.syntax.ast import Fragment


class Unknown:
    """The value of an attribute that is not known at this point."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()


def has_unknown(value: object) -> bool:
    """Whether any part of a value is not known."""
    if isinstance(value, tuple):
        items: tuple[object, ...] = value  # pyright: ignore[reportUnknownVariableType]
        types = set(map(type, items))  # the values of a constant may be very many
        return Unknown in types or (tuple in types and any(map(has_unknown, items)))
    return value is UNKNOWN


class NotKnown(Exception):
    """A rule asked for a shape or an attribute that is not known; it ends without a verdict."""


class Call:
    """What a shape rule sees of an invocation: operand types, attributes, and `require`."""

    def __init__(
        self,
        op: str,
        operands: Mapping[str, TensorType | Sequence[TensorType] | None],
        attributes: Mapping[str, Attribute],
    ) -> None:
        """Operands by parameter name; a list for a tensor array, None if nothing is known of it."""
        self.op = op
        self._operands = operands
        self._attributes = attributes
        self.problems: list[str] = []
        """Violated rules, as sentences that name the values."""

    def __getitem__(self, attribute: str) -> Any:
        """An attribute; raises NotKnown if any part of it is not known."""
        value = self._attributes[attribute]
        if has_unknown(value):
            raise NotKnown
        return value

    def dtype(self, operand: str) -> DType:
        """Item type of an operand (of the first item of a tensor array)."""
        types = self._operands[operand]
        if types is None:
            raise NotKnown
        if isinstance(types, TensorType):
            return types.dtype
        if not types:
            raise NotKnown
        return types[0].dtype

    def shape(self, operand: str) -> Shape:
        """Shape of a tensor operand."""
        type_ = self._operands[operand]
        if not isinstance(type_, TensorType) or type_.shape is None:
            raise NotKnown
        return type_.shape

    def shapes(self, operand: str) -> list[Shape]:
        """Shapes of the items of a tensor array."""
        types = self._operands[operand]
        if types is None or isinstance(types, TensorType):
            raise NotKnown
        shapes = [t.shape for t in types]
        known = [s for s in shapes if s is not None]
        if len(known) != len(shapes):
            raise NotKnown
        return known

    def require(self, condition: bool, message: str) -> bool:
        """Record `message` unless `condition`; returns the condition so that a rule can branch."""
        if not condition:
            self.problems.append(message)
        return condition

    def stop_if_wrong(self) -> None:
        """End the rule here if a requirement failed: what follows would divide by zero or so."""
        if self.problems:
            raise NotKnown


class InferRule(Protocol):
    def __call__(self, call: Call, /) -> TensorType | Sequence[TensorType]: ...


Reference = Callable[..., Any]
"""`reference(*operands, **attributes)`: float64/int64/bool arrays in, array (or tuple) out.

A tensor array is one list argument.  Integer results are int64, logical ones bool.  That of
`cast` has one more argument, `dtype`: the item type that it converts to.
"""


class Emit(Protocol):
    """What `expand` builds with: `emit("add", x, y)`, `emit("box", x, size=(1, 1, 3, 3))`.

    Operands are Values or numbers (which become rank-0 constants of the type of the first
    operand); missing attributes get their defaults; `dtype=` is the type that `cast` converts
    to.  Returns the output, or a tuple of them.
    """

    def __call__(self, op: str, /, *operands: Any, **attributes: Any) -> Any: ...


Expand = Callable[[Emit, Op], Any]
"""`expand(emit, op)` gives the values (one, or a tuple) that replace the outputs of `op`."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One invocation for the generic tests.

    `inputs`: shapes of the operands (tensor arrays are lists of shapes), filled with data of
    the kind `data` says: "normal", "positive", "unit" (0..1 open), "ties" (multiples of 1/4,
    many equal), "logical" and "integers" (generic operands have that type), or explicit nested
    lists in `values` by position.  `dtype` among the attributes is the type argument; `dtypes`:
    item types of operands by position, where they are not the usual ones.
    """

    inputs: tuple[Any, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    data: str = "normal"
    values: Mapping[int, Any] = field(default_factory=dict[int, Any])
    dtypes: Mapping[int, DType] = field(default_factory=dict[int, DType])


class Interpreter(Protocol):
    """What an `evaluate` may ask of the reference interpreter; arrays as in `Reference`."""

    def apply(self, op: Op, operands: list[Array]) -> list[Array]:
        """The results of an operation."""
        ...

    def expression(
        self, expression: Expression, operands: list[Array], types: list[TensorType]
    ) -> list[Array]:
        """The results, of the given types, of an expression."""
        ...

    def run(self, body: Graph, operands: list[Array]) -> list[Array]:
        """The outputs of a graph without variables."""
        ...


Evaluate = Callable[[Op, list[Array], Interpreter], Sequence[Array]]
"""`evaluate(op, operands, interpreter)`: the results of an operation."""

Verify = Callable[[Op], list[str]]
"""`verify(op)`: violated rules, as sentences that name the values."""


class ExpressionUse(NamedTuple):
    """How an operation applies its attribute `expression`.

    The inputs of the expression are the sums of the operation, if it has an accumulator, and its
    operands from number `start(op)`.  `results`: whether outputs and results are the same.
    """

    start: Callable[[Op], int]
    results: bool = True


@dataclass(frozen=True, kw_only=True)
class OpSpec:
    """An operation.

    `signature`: its declaration in NNEF's own syntax, without the body; "" for an internal
    operation, which only passes and front ends build.
    `section`: of the 1.0.2 specification; "beyond" for operations it does not have; "tract" for
    those of tract's registries, which documents of the standard do not see; "internal".
    `infer`, `reference`, `expand`: see their types.  An operation either has an `expand`
    (it is rewritten into simpler ones before lowering) or a lowering of its own.
    `verify` and `evaluate` stand for `infer` and `reference` where these need the operation itself.
    `traits`: what passes ask for.
    `elementwise`: each output item depends on the input items at the same index only, so it
    may be a Step of an Expression.  `view`: the output holds the bytes of the only input.
    `integers`: in the graph scalar operands, and results that are scalar then, may be integers, all
    of one type.  No document may have such operands; results wrap around in their type.
    `expression`: how it applies its attribute `expression`; None: it has none.
    `repeats`: how often it runs its bodies, the graphs among its attributes; None: it has none.
    """

    name: str
    signature: str
    section: str
    summary: str
    infer: InferRule | None
    reference: Reference | None
    traits: Traits
    verify: Verify | None = None
    evaluate: Evaluate | None = None
    expand: Expand | None = None
    elementwise: bool = False
    commutative: bool = False
    view: bool = False
    integers: bool = False
    pure: bool = True
    expression: ExpressionUse | None = None
    repeats: Callable[[Op], int] | None = None
    samples: tuple[Sample, ...] = ()

    @property
    def is_internal(self) -> bool:
        """Whether documents and front ends cannot name it."""
        return not self.signature

    @cached_property
    def declaration(self) -> Fragment:
        """The parsed signature."""
        from nnefc.syntax.parser import parse_declaration

        assert self.signature, f"{self.name} is internal"
        return parse_declaration(self.signature)

    def operands(self, values: Sequence[Any]) -> dict[str, Any]:
        """Flat operands by parameter name; the items of a tensor array are one list."""
        from nnefc.syntax.ast import ArraySpec, TensorSpec

        out: dict[str, Any] = {}
        at = 0
        for parameter in self.declaration.parameters:
            type_ = parameter.type
            if isinstance(type_, TensorSpec):
                out[parameter.name] = values[at]
                at += 1
            elif isinstance(type_, ArraySpec) and isinstance(type_.item, TensorSpec):
                out[parameter.name] = list(values)
                at = len(values)
        return out


class SpecTable(dict[str, OpSpec]):
    """Operations by name; registering a name twice is an error."""

    def register(self, spec: OpSpec) -> OpSpec:
        if spec.name in self:
            raise ValueError(f"operation {spec.name!r} is registered already")
        self[spec.name] = spec
        return spec


Lookup = Callable[[str], OpSpec | None]
"""Operations that are not in the table (custom ones), by name."""


def no_custom(name: str) -> OpSpec | None:
    """The lookup that knows no operation."""
    del name
    return None


def infer(spec: OpSpec, call: Call) -> tuple[list[TensorType] | None, list[str]]:
    """(types of the results or None if they are not known, violated rules)."""
    assert spec.infer is not None, f"{spec.name} is internal"
    try:
        types = spec.infer(call)
    except NotKnown:
        return None, call.problems
    if call.problems:
        return None, call.problems
    return [types] if isinstance(types, TensorType) else list(types), []


def internal(
    *,
    name: str,
    summary: str,
    verify: Verify | None,
    evaluate: Evaluate,
    traits: Traits,
    expression: ExpressionUse | None = None,
    repeats: Callable[[Op], int] | None = None,
) -> OpSpec:
    """An operation that only passes and front ends build, and no document can name."""
    return OpSpec(
        name=name,
        signature="",
        section="internal",
        summary=summary,
        infer=None,
        reference=None,
        traits=traits,
        verify=verify,
        evaluate=evaluate,
        expression=expression,
        repeats=repeats,
    )
