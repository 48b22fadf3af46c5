"""Values of checked expressions, and the expansion of fragments (3.3.3).

The type of an expression determines its value: bool, int, float, str, a tuple (for arrays and
tuples), an `ir.Value` (for tensors), or `UNKNOWN`.  The evaluator has two modes:

- *real*: the body of the graph and of the fragments that it invokes; operations are built.
- *static*: a fragment with unknown parameters, checked without being invoked.  Tensors are
  values without an operation, invocations are not expanded, both branches of an unknown
  condition are evaluated, and only certain errors are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nnefc.frontends.common.budget import Budget, Exhausted
from nnefc.frontends.nnef import typed_tree as tree
from nnefc.frontends.nnef.build_operations import Elaborator, abstract
from nnefc.frontends.nnef.operation_declarations import Declaration
from nnefc.frontends.nnef.operators import UndefinedResult
from nnefc.frontends.nnef.types import Array, Primitive, Tensor, Tuple, Type
from nnefc.ir import Location, Value
from nnefc.ops.core.spec import UNKNOWN
from nnefc.support.errors import Place, Step
from nnefc.syntax import ast

MAX_CHAIN = 16
"""Length of a chain of invocations in messages; the middle of a longer one is left out."""


@dataclass(slots=True)
class CallFrame:
    """The state of the evaluation of one body.

    `values`: of its identifiers; None: all are unknown.  `certain`: whether the current
    expression is certain to be evaluated in every invocation.
    """

    values: dict[str, Any] | None
    results: Mapping[str, Type] = field(default_factory=dict[str, Type])
    real: bool = True
    certain: bool = True
    depth: int = 0
    chain: tuple[Step, ...] = ()

    def unsure(self) -> CallFrame:
        """The frame for an expression that may not be evaluated."""
        return replace(self, certain=False) if self.certain else self


class RecursionTooDeep(Exception):
    """Invocations nest deeper than `Limits.recursion`."""

    def __init__(self, name: str, place: Place, chain: tuple[Step, ...]) -> None:
        super().__init__(name)
        self.name = name
        self.place = place
        self.chain = chain


Bodies = Callable[[Declaration, str, tuple[Step, ...]], list[tree.Assign] | None]
"""`bodies(declaration, dtype, chain)`: the checked body of a fragment; None after an error."""


class Evaluator:
    def __init__(
        self,
        elaborator: Elaborator,
        bodies: Bodies,
        source: ast.SourceText,
        budget: Budget,
    ) -> None:
        self._elaborator = elaborator
        self._bodies = bodies
        self._source = source
        self._budget = budget
        self._checked_branches: dict[int, tree.Choose] = {}
        self._methods: dict[type, Callable[[Any, CallFrame], Any]] = {
            tree.ConstantNode: self._constant,
            tree.Local: self._local,
            tree.Sequence: self._sequence,
            tree.Choose: self._choose,
            tree.Loop: self._loop,
            tree.ShapeOf: self._shape_of,
            tree.AsTensor: self._as_tensor,
            tree.ErrorNode: self._wrong,
        }
        self._chained: dict[type, Callable[[Any, Any, CallFrame], Any]] = {
            tree.Apply: self._apply,
            tree.Logic: self._logic,
            tree.Call: self._call,
        }

    # -- statements

    def run(self, statement: tree.Assign, frame: CallFrame) -> None:
        """Evaluate the right-hand side and bind the identifiers on the left."""
        try:
            value = self.evaluate(statement.value, frame)
            self._bind(statement.target, value, statement.value.type, frame)
        except Exhausted as exhausted:
            if exhausted.place is None:
                exhausted.place = self._source.place(statement.at)
                exhausted.chain = frame.chain
            raise

    def _bind(self, target: ast.Expression, value: Any, type_: Type, frame: CallFrame) -> None:
        assert frame.values is not None
        if isinstance(target, ast.Identifier):
            declared = frame.results.get(target.name)
            if declared is not None:
                value = self._converted(value, type_, declared, target.at, frame)
            if frame.real and frame.depth == 0:
                location = self._location(target.at, frame)
                value = self._elaborator.name(value, target.name, location)
            frame.values.setdefault(target.name, value)
            return
        assert isinstance(target, ast.Array | ast.Tuple)
        if isinstance(value, tuple):
            if len(value) == len(target.items):  # pyright: ignore[reportUnknownArgumentType]
                for i, item in enumerate(target.items):
                    self._bind(item, value[i], _item_type(type_, i), frame)
                return
            self._error(
                "type/unpack",
                f"{len(value)} items cannot be unpacked to "  # pyright: ignore[reportUnknownArgumentType]
                f"{len(target.items)} identifiers",
                target.at,
                frame,
            )
        for i, item in enumerate(target.items):
            item_type = _item_type(type_, i)
            self._bind(item, self._unknown(item_type, frame), item_type, frame)

    # -- expressions

    def evaluate(self, node: tree.Typed, frame: CallFrame) -> Any:
        self._budget.take_steps()
        method = self._methods.get(type(node))
        if method is not None:
            return method(node, frame)
        # no recursion into left operands: those of a long sum nest as deep as it is long
        chain: list[Any] = []
        while type(node) in self._chained:
            chain.append(node)
            operands: list[tree.Typed | None] = node.operands  # pyright: ignore
            if not operands or operands[0] is None:
                value = None
                break
            node = operands[0]
        else:
            value = self.evaluate(node, frame)
        for link in reversed(chain):
            value = self._chained[type(link)](link, value, frame)
        return value

    def _constant(self, node: tree.ConstantNode, frame: CallFrame) -> Any:
        del frame
        return node.value

    def _local(self, node: tree.Local, frame: CallFrame) -> Any:
        if frame.values is None:
            return abstract(node.type)
        value = frame.values.get(node.name, UNKNOWN)
        return abstract(node.type) if value is UNKNOWN else value

    def _wrong(self, node: tree.ErrorNode, frame: CallFrame) -> Any:
        for operand in node.operands:
            self.evaluate(operand, frame)
        return self._unknown(node.type, frame)

    def _unknown(self, type_: Type, frame: CallFrame) -> Any:
        """An abstract value for an unknown one; it makes the graph incomplete."""
        self._elaborator.incomplete |= frame.real
        return abstract(type_)

    def _sequence(self, node: tree.Sequence, frame: CallFrame) -> Any:
        items: list[Any] = []
        for item in node.items:
            items.append(self.evaluate(item, frame))
        return tuple(items)

    def _apply(self, node: tree.Apply, first: Any, frame: CallFrame) -> Any:
        values = [first]
        for operand in node.operands[1:]:
            values.append(self.evaluate(operand, frame))
        for value in values:
            if value is UNKNOWN:
                return self._unknown(node.type, frame)
        try:
            return node.function(*values)
        except UndefinedResult as undefined:
            if frame.certain:
                self._error(node.rule, undefined.message, node.at, frame, undefined.hint)
            return abstract(node.type)

    def _logic(self, node: tree.Logic, first: Any, frame: CallFrame) -> Any:
        if first is node.until:
            return first
        second = self.evaluate(node.operands[1], frame.unsure() if first is UNKNOWN else frame)
        return second if first is not UNKNOWN or second is node.until else UNKNOWN

    def _choose(self, node: tree.Choose, frame: CallFrame) -> Any:
        condition = self.evaluate(node.condition, frame)
        if condition is UNKNOWN:
            if frame.real:
                return self._unknown(node.type, frame)
            value = self.evaluate(node.value, frame.unsure())
            other = self.evaluate(node.other, frame.unsure())
            return _either(value, other, node.type)
        chosen, other = (node.value, node.other) if condition else (node.other, node.value)
        # a branch that is not taken is checked with unknown identifiers; in fragments this
        # happens when they are checked
        if (not frame.real or frame.depth == 0) and id(node) not in self._checked_branches:
            self._checked_branches[id(node)] = node
            self.evaluate(other, CallFrame(None, real=False, certain=False, chain=frame.chain))
        return self.evaluate(chosen, frame)

    def _loop(self, node: tree.Loop, frame: CallFrame) -> Any:
        arrays: list[Any] = []
        for array in node.arrays:
            arrays.append(self.evaluate(array, frame))
        if frame.values is None or any(a is UNKNOWN for a in arrays):
            if not frame.real:
                self._check_item(node, frame)
            return self._unknown(node.type, frame)
        lengths = [len(a) for a in arrays]
        if any(n != lengths[0] for n in lengths):
            if frame.certain:
                listed = ", ".join(map(str, lengths))
                message = f"the arrays of a comprehension differ in length: {listed}"
                self._error("argument/comprehension", message, node.at, frame)
            return UNKNOWN
        outer = {name: frame.values[name] for name in node.names if name in frame.values}
        items: list[Any] | None = []
        for i in range(lengths[0]):
            for name, array in zip(node.names, arrays):
                frame.values[name] = array[i]
            wanted = True if node.condition is None else self.evaluate(node.condition, frame)
            if wanted is UNKNOWN:
                self.evaluate(node.item, frame.unsure())
                items = None
            elif wanted:
                item = self.evaluate(node.item, frame)
                if items is not None:
                    self._budget.take_items(1)
                    items.append(item)
        for name in node.names:
            frame.values.pop(name, None)
        frame.values.update(outer)
        return UNKNOWN if items is None else tuple(items)

    def _check_item(self, node: tree.Loop, frame: CallFrame) -> None:
        """Check the condition and the item of a comprehension over unknown arrays."""
        values = None
        if frame.values is not None:
            values = {k: v for k, v in frame.values.items() if k not in node.names}
        inner = replace(frame, values=values, certain=False)
        if node.condition is not None:
            self.evaluate(node.condition, inner)
        self.evaluate(node.item, inner)

    def _shape_of(self, node: tree.ShapeOf, frame: CallFrame) -> Any:
        value = self.evaluate(node.operand, frame)
        shape = value.type.shape if isinstance(value, Value) else None
        return UNKNOWN if shape is None else shape

    def _as_tensor(self, node: tree.AsTensor, frame: CallFrame) -> Any:
        value = self.evaluate(node.operand, frame)
        return self._converted(value, node.operand.type, node.type, node.at, frame)

    def _converted(self, value: Any, source: Type, target: Type, at: int, frame: CallFrame) -> Any:
        """`value` with primitive values as constant tensors where `target` has tensors."""
        match source, target:
            case Primitive(name), Tensor():
                location = self._location(at, frame)
                return self._elaborator.literal(value, name, location, real=frame.real)
            case (Array(), Array()) | (Tuple(), Tuple()) if isinstance(value, tuple):
                items: list[Any] = []
                for i, item in enumerate(value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
                    types = _item_type(source, i), _item_type(target, i)
                    items.append(self._converted(item, *types, at, frame))
                return tuple(items)
            case _:
                return value

    # -- invocations

    def _call(self, node: tree.Call, first: Any, frame: CallFrame) -> Any:
        callee = node.callee
        types, _ = callee.types(node.dtype)
        values: list[Any] = []
        for i, operand in enumerate(node.operands):
            if operand is None:
                parameter = callee.parameters[i]
                default = parameter.default
                if parameter.is_tensor:
                    default = self._converted(
                        default, parameter.default_type, types[i], node.at, frame
                    )
                values.append(default)
            else:
                values.append(first if i == 0 else self.evaluate(operand, frame))
        if callee.spec is None and callee.fragment.body is not None:
            if frame.real:
                return self._expand(node, values, frame)
            return abstract(node.type)
        return self._elaborator.operation(
            node, values, self._location(node.at, frame), real=frame.real
        )

    def _expand(self, node: tree.Call, values: list[Any], frame: CallFrame) -> Any:
        callee = node.callee
        place = self._source.place(node.at)
        chain = _extended(frame.chain, Step(f"in '{callee.name}', invoked here", place))
        depth = frame.depth + 1
        if depth > self._budget.limits.recursion:
            raise RecursionTooDeep(callee.name, place, frame.chain)
        body = self._bodies(callee, node.dtype, chain)
        if body is None:
            self._elaborator.spoiled = True
            return abstract(node.type)
        results = callee.result_types(node.dtype)
        inner = {p.name: value for p, value in zip(callee.parameters, values)}
        callee_frame = CallFrame(inner, results, True, True, depth, chain)
        self._budget.invocations[callee.name] += 1
        for statement in body:
            self.run(statement, callee_frame)
        outputs = tuple([inner[name] for name, _ in callee.results])
        return outputs[0] if len(outputs) == 1 else outputs

    # -- reports

    def _location(self, at: int, frame: CallFrame) -> Location:
        return Location(self._source.place(at), frame.chain)

    def _error(self, rule: str, message: str, at: int, frame: CallFrame, hint: str = "") -> None:
        self._elaborator.problem(rule, message, self._location(at, frame), hint)


def _item_type(type_: Type, index: int) -> Type:
    match type_:
        case Array(item):
            return item
        case Tuple(items):
            return items[index]
        case _:
            return type_


def _either(value: Any, other: Any, type_: Type) -> Any:
    """The value that two branches have in common; abstract if they differ."""
    if isinstance(value, Value) and isinstance(other, Value):
        return value if value.type == other.type else abstract(type_)
    same = type(value) is type(other) and value == other and isinstance(type_, Primitive)
    return value if same else abstract(type_)


def _extended(chain: tuple[Step, ...], step: Step) -> tuple[Step, ...]:
    if len(chain) < MAX_CHAIN:
        return (step, *chain)
    half = MAX_CHAIN // 2
    gap = Step("... further invocations are left out ...", chain[half].place)
    return (step, *chain[: half - 2], gap, *chain[-half:])
