"""`OpSpec`: the definition of an operation, in one entry.

`infer` checks an invocation and returns the types of its results.  A rule checks attributes before
it reads shapes: reading an unknown shape or attribute (in a fragment that is checked before it is
expanded) raises `NotKnown`, which ends the rule quietly.  One rule thus serves full and partial
knowledge.
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
    """The type of `UNKNOWN`, the value of an attribute that is not known yet."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()


def has_unknown(value: object) -> bool:
    """Whether a value is `UNKNOWN` or a tuple that contains it at any depth."""
    if isinstance(value, tuple):
        items: tuple[object, ...] = value  # pyright: ignore[reportUnknownVariableType]
        types = set(map(type, items))  # fast for constants with very many values
        return Unknown in types or (tuple in types and any(map(has_unknown, items)))
    return value is UNKNOWN


class NotKnown(Exception):
    """A rule read a shape or an attribute that is not known; the rule ends without a verdict."""


class Call:
    """An invocation as a shape rule sees it: operand types, attributes, and `require`."""

    def __init__(
        self,
        op: str,
        operands: Mapping[str, TensorType | Sequence[TensorType] | None],
        attributes: Mapping[str, Attribute],
    ) -> None:
        """`operands` by parameter name: a list for a tensor array, None for an unknown operand."""
        self.op = op
        self._operands = operands
        self._attributes = attributes
        self.problems: list[str] = []
        """The violations so far, as sentences that name the values."""

    def __getitem__(self, attribute: str) -> Any:
        """An attribute; raises NotKnown if any part of it is not known."""
        value = self._attributes[attribute]
        if has_unknown(value):
            raise NotKnown
        return value

    def dtype(self, operand: str) -> DType:
        """Item type of an operand; for a tensor array, that of its first tensor."""
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
        """Shapes of the tensors of a tensor array."""
        types = self._operands[operand]
        if types is None or isinstance(types, TensorType):
            raise NotKnown
        shapes = [t.shape for t in types]
        known = [s for s in shapes if s is not None]
        if len(known) != len(shapes):
            raise NotKnown
        return known

    def require(self, condition: bool, message: str) -> bool:
        """Record `message` unless `condition` holds; returns `condition`."""
        if not condition:
            self.problems.append(message)
        return condition

    def stop_if_wrong(self) -> None:
        """End the rule if a requirement failed and later checks rely on it."""
        if self.problems:
            raise NotKnown


class InferRule(Protocol):
    """`rule(call)` checks an invocation and returns the type or types of its results."""

    def __call__(self, call: Call, /) -> TensorType | Sequence[TensorType]: ...


Reference = Callable[..., Any]
"""`reference(*operands, **attributes)`: float64/int64/bool arrays in, an array or a tuple out.

A tensor array is one list argument.  Integer results are int64, logical ones bool.  The reference
of an operation that `chooses_type` also takes `dtype`, the item type of its result.
"""


class Emit(Protocol):
    """Inserts an operation: `emit("add", x, y)`, `emit("box", x, size=(1, 1, 3, 3))`.

    Operands are Values or numbers, which become rank-0 constants of the type of the first
    operand.  Missing attributes get their defaults; `dtype=` is the type that `cast` converts to.
    Returns the output, or a tuple of several.
    """

    def __call__(self, op: str, /, *operands: Any, **attributes: Any) -> Any: ...


Expand = Callable[[Emit, Op], Any]
"""`expand(emit, op)` returns the value, or tuple of values, that replaces the outputs of `op`."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One invocation for the generic tests.

    `inputs`: shapes of the operands, a list of shapes for a tensor array.
    `attributes`: those of the operation; `dtype` is the type argument.
    `data`: how operands are filled: "normal", "positive", "unit" (in the open interval 0..1),
    "ties" (multiples of 1/4, many equal), "logical" or "integers" (generic operands get that type).
    `values`: explicit items by position of the operand, as nested lists.
    `dtypes`: item types by position of the operand, where they differ from the default.
    """

    inputs: tuple[Any, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])
    data: str = "normal"
    values: Mapping[int, Any] = field(default_factory=dict[int, Any])
    dtypes: Mapping[int, DType] = field(default_factory=dict[int, DType])


class Interpreter(Protocol):
    """The services of the reference interpreter to an `evaluate`; arrays as in `Reference`."""

    def apply(self, op: Op, operands: list[Array]) -> list[Array]:
        """Compute the results of an operation."""
        ...

    def expression(
        self, expression: Expression, operands: list[Array], types: list[TensorType]
    ) -> list[Array]:
        """Compute the results of an expression, which have `types`."""
        ...

    def run(self, body: Graph, operands: list[Array]) -> list[Array]:
        """Compute the outputs of a body."""
        ...


Evaluate = Callable[[Op, list[Array], Interpreter], Sequence[Array]]
"""`evaluate(op, operands, interpreter)` returns the results of an operation."""

CostOfBodies = Callable[[Op, Sequence[Any]], Any]
"""`cost(op, costs)` returns the cost of the bodies in one execution from that of each body."""

Verify = Callable[[Op], list[str]]
"""`verify(op)` returns the rules that `op` violates, as sentences that name the values."""


class ExpressionUse(NamedTuple):
    """How an operation applies its attribute `expression`.

    The inputs of the expression are the sums of the operation, if it has an accumulator, then its
    operands from index `start(op)` on.  `results`: whether the results of the expression are the
    outputs of the operation.
    """

    start: Callable[[Op], int]
    results: bool = True


@dataclass(frozen=True, kw_only=True)
class OpSpec:
    """An operation.

    `signature`: its declaration in NNEF syntax, without a body; "" for an internal operation, which
    only passes and front ends build.
    `section`: section of the NNEF 1.0.2 specification; "beyond" for operations of later versions;
    "tract" for operations of tract's registries, which standard documents cannot use; "internal".
    `infer`, `reference`, `expand`: see their types.  An operation has either an `expand`, which
    rewrites it into simpler operations before lowering, or a lowering of its own.
    `verify`, `evaluate`: replace `infer` and `reference` where these need the operation itself.
    `traits`: the facts that passes and lowering use.
    `elementwise`: each output item depends only on the input items at the same index, so the
    operation may be a Step of an Expression.
    `commutative`: the two operands may be exchanged.
    `integers`: in a graph, the scalar operands may be integers of one type, and scalar results are
    then integers, too, and wrap around.  Documents cannot have such operands.
    `chooses_type`: an invocation chooses the item type of the result, as that of `cast`.
    `pure`: the only effect is to compute the outputs.
    `expression`: how the operation applies its attribute `expression`; None if it has none.
    `beyond`: attributes that NNEF 1.0.2 lacks, of operations that it has.
    `lenient_border`: border = 'ignore' is accepted, because real files use it; the text does not
    allow it.
    `cost_of_bodies`: how the costs of its bodies (graphs among its attributes) add up; None without
    bodies.
    `samples`: invocations for the generic tests.
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
    integers: bool = False
    chooses_type: bool = False
    pure: bool = True
    expression: ExpressionUse | None = None
    cost_of_bodies: CostOfBodies | None = None
    beyond: tuple[str, ...] = ()
    lenient_border: bool = False
    samples: tuple[Sample, ...] = ()

    @property
    def is_internal(self) -> bool:
        """Whether the operation has no signature, so documents cannot name it."""
        return not self.signature

    @cached_property
    def declaration(self) -> Fragment:
        """The parsed signature."""
        from nnefc.syntax.parser import parse_declaration

        assert self.signature, f"{self.name} is internal"
        return parse_declaration(self.signature)

    def operands(self, values: Sequence[Any]) -> dict[str, Any]:
        """Flat operands by parameter name; the tensors of a tensor array form one list."""
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
    """Operations by name."""

    def register(self, spec: OpSpec) -> OpSpec:
        """Add an operation; raises ValueError if its name is taken."""
        if spec.name in self:
            raise ValueError(f"operation {spec.name!r} is registered already")
        self[spec.name] = spec
        return spec


Lookup = Callable[[str], OpSpec | None]
"""`lookup(name)` returns a custom operation, which is not in the table; None if unknown."""


def no_custom(name: str) -> OpSpec | None:
    """A lookup without custom operations."""
    del name
    return None


def infer(spec: OpSpec, call: Call) -> tuple[list[TensorType] | None, list[str]]:
    """Run the shape rule: (types of the results, violated rules); None if types are not known."""
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
    cost_of_bodies: CostOfBodies | None = None,
) -> OpSpec:
    """The entry of an operation that only passes and front ends build."""
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
        cost_of_bodies=cost_of_bodies,
    )
