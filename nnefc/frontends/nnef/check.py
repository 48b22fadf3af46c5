"""Static types and identifiers of a body: syntax tree in, typed tree out (chapter 3.3).

Every expression is looked at once, whether or not it will be evaluated.  A wrong
expression is reported and has the type `ANY` from then on, which fits everywhere,
so that one mistake is one error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any

from nnefc.errors import Diagnostics, Step
from nnefc.frontends.nnef import operators, tree
from nnefc.frontends.nnef.declare import LITERALS, ONLY_IN_GRAPH, Declaration, Scope
from nnefc.frontends.nnef.invoke import bind_arguments, bind_dtype
from nnefc.frontends.nnef.operators import Budget
from nnefc.frontends.nnef.results import target_lengths
from nnefc.frontends.nnef.types import (
    ANY,
    INTEGER,
    INTEGERS,
    LOGICAL,
    SCALAR,
    STRING,
    Any_,
    Array,
    Primitive,
    Tensor,
    Tuple,
    Type,
    castable,
    common,
    has_tensor,
)
from nnefc.syntax import ast

COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})


class Checker:
    """Checks one body.

    `names`: types of the identifiers known so far.  `parameters`: those among them that
    must not be assigned.  `results`: declared types of the results.  `dtype`: what `?`
    stands for, "" outside generic fragments.
    """

    def __init__(
        self,
        scope: Scope,
        source: ast.Source,
        budget: Budget,
        diagnostics: Diagnostics,
        *,
        parameters: Mapping[str, Type],
        results: Mapping[str, Type],
        dtype: str = "",
        in_graph: bool = False,
        later: Iterable[str] = (),
        chain: tuple[Step, ...] = (),
    ) -> None:
        self.scope = scope
        self.source = source
        self.budget = budget
        self.diagnostics = diagnostics
        self.names: dict[str, Type] = dict(parameters)
        self.parameters = frozenset(parameters)
        self.results = results
        self.dtype = dtype
        self.in_graph = in_graph
        self.chain = chain
        self._assigned: dict[str, int] = {}
        self._later = frozenset(later)
        self._undefined: set[str] = set()
        self._methods: dict[type, Callable[[Any], tree.Typed]] = {
            ast.Literal_: self._literal,
            ast.Identifier: self._identifier,
            ast.Invocation: self._invocation,
            ast.Array: self._array,
            ast.Tuple: self._tuple,
            ast.Binary: self._binary_chain,
            ast.Unary: self._unary,
            ast.IfElse: self._if_else,
            ast.Comprehension: self._comprehension,
            ast.Subscript: self._subscript,
            ast.Builtin: self._builtin,
        }

    def error(self, rule: str, message: str, at: int, *, hint: str = "") -> None:
        self.diagnostics.error(rule, message, self.source.place(at), hint=hint, chain=self.chain)

    def _wrong(self, rule: str, message: str, at: int, *, hint: str = "") -> tree.Wrong:
        self.error(rule, message, at, hint=hint)
        return tree.Wrong(at)

    # -- assignments

    def assignment(self, node: ast.Assignment) -> tree.Assign:
        """Check a statement and define what it assigns."""
        value = self.expression(node.value)
        if isinstance(node.value, ast.Invocation) and not isinstance(value, tree.Wrong):
            fits = self._equivalent(node.target, value.type, node.value.name)
            if isinstance(value, tree.Call):
                value.lengths = target_lengths(node.target, len(value.callee.results))
        else:
            fits = True
        self._define(node.target, value.type if fits else ANY)
        return tree.Assign(node.at, node.target, value)

    def _equivalent(self, target: ast.Expression, type_: Type, name: str) -> bool:
        """Whether the left side has the structure of the result of an invocation (3.3.2)."""
        match target, type_:
            case (_, Any_()) | (ast.Identifier(), Tensor() | Primitive()):
                return True
            case ast.Array(items=items), Array(item):
                return all(self._equivalent(t, item, name) for t in items)
            case ast.Tuple(items=items), Tuple(types) if len(items) == len(types):
                return all(self._equivalent(t, i, name) for t, i in zip(items, types))
            case _:
                self.error(
                    "invocation/structure",
                    f"'{name}' results in {type_}, which cannot be assigned to {_describe(target)}",
                    target.at,
                    hint=_structure_hint(type_),
                )
                return False

    def _define(self, target: ast.Expression, type_: Type) -> None:
        match target, type_:
            case ast.Identifier(), _:
                self._define_name(target, type_)
            case ((ast.Array(items=items) | ast.Tuple(items=items)), Any_()):
                for item in items:
                    self._define(item, ANY)
            case ast.Array(items=items), Array(item):
                for part in items:
                    self._define(part, item)
            case ast.Tuple(items=items), Tuple(types) if len(items) == len(types):
                for part, part_type in zip(items, types):
                    self._define(part, part_type)
            case _:
                message = f"{type_} cannot be unpacked to {_describe(target)}"
                self.error("type/unpack", message, target.at)
                self._define(target, ANY)

    def _define_name(self, target: ast.Identifier, type_: Type) -> None:
        name = target.name
        if name in self._assigned:
            line = self.source.place(self._assigned[name]).line
            message = f"'{name}' is assigned already, on line {line}"
            self.error("identifier/assigned-twice", message, target.at)
            return
        if name in self.parameters:
            self.error(
                "identifier/parameter-assigned",
                f"'{name}' is a parameter of the fragment and must not be assigned",
                target.at,
            )
            return
        self._assigned[name] = target.at
        declared = self.results.get(name)
        if declared is not None:
            if not castable(type_, declared):
                hint = "write a decimal point: 1.0" if type_ == INTEGER else ""
                self.error(
                    "type/result",
                    f"result '{name}' is declared {declared}, but {type_} is assigned",
                    target.at,
                    hint=hint if castable(SCALAR, declared) else "",
                )
            type_ = declared
        elif self.in_graph and not isinstance(type_, Tensor | Any_):
            self.error(
                "identifier/not-tensor",
                f"identifiers in the graph are tensors; '{name}' would be {type_}",
                target.at,
                hint="write the value where it is used"
                if not has_tensor(type_)
                else "assign the items to identifiers of their own, as in [a, b] = ...",
            )
            type_ = ANY
        self.names[name] = type_

    def finish(self, results: Iterable[tuple[str, int]]) -> None:
        """Check that every result is assigned; with it comes where it is declared."""
        for name, at in results:
            if name not in self._assigned:
                self.error(
                    "identifier/result",
                    f"result '{name}' is never assigned",
                    at,
                    hint=suggestion(name, self._assigned),
                )

    # -- expressions

    def expression(self, node: ast.Expression) -> tree.Typed:
        """Check an expression."""
        return self._methods[type(node)](node)

    def _literal(self, node: ast.Literal_) -> tree.Typed:
        return tree.Known(node.at, LITERALS[type(node.value)], node.value)

    def _identifier(self, node: ast.Identifier) -> tree.Typed:
        type_ = self.names.get(node.name)
        if type_ is not None:
            return tree.Local(node.at, type_, node.name)
        if node.name not in self._undefined:
            self._undefined.add(node.name)
            hint = f"'{node.name}' is assigned further down" if node.name in self._later else ""
            self.error(
                "identifier/undefined",
                f"'{node.name}' is not defined here",
                node.at,
                hint=hint or suggestion(node.name, self.names),
            )
        return tree.Wrong(node.at)

    def _array(self, node: ast.Array) -> tree.Typed:
        items = [self.expression(item) for item in node.items]
        item_type: Type = items[0].type if items else ANY
        alike = True
        for item in items:
            if item.type is item_type or item.type == item_type:
                continue
            joint = common(item_type, item.type)
            if joint is None:
                return self._wrong(
                    "type/array-items",
                    f"items of an array must have a common type: {item_type} and {item.type}",
                    item.at,
                )
            item_type = joint
            alike = False
        if not alike:
            items = [as_tensor(item, item_type) for item in items]
        return _sequence(node.at, Array(item_type), items)

    def _tuple(self, node: ast.Tuple) -> tree.Typed:
        items = [self.expression(item) for item in node.items]
        return _sequence(node.at, Tuple(tuple([item.type for item in items])), items)

    # -- operators

    def _binary_chain(self, node: ast.Binary) -> tree.Typed:
        """Left operands nest as deep as a sum is long: no recursion there."""
        chain: list[ast.Binary] = [node]
        while isinstance(chain[-1].left, ast.Binary):
            chain.append(chain[-1].left)
        left = self.expression(chain[-1].left)
        for link in reversed(chain):
            left = self._binary(link, left, self.expression(link.right))
        return left

    def _binary(self, node: ast.Binary, left: tree.Typed, right: tree.Typed) -> tree.Typed:
        symbol = node.operator
        if symbol == "in":
            return self._contains(node, left, right)
        operation = operators.BINARY_OPERATIONS[symbol]
        if isinstance(left.type, Tensor) or isinstance(right.type, Tensor):
            return self._operation(operation, node.at, [left, right])
        if left.type is ANY or right.type is ANY:
            return tree.Wrong(node.at, LOGICAL if symbol in COMPARISONS else ANY)
        if symbol in ("&&", "||"):
            if left.type == right.type == LOGICAL:
                return tree.Logic(node.at, LOGICAL, symbol == "||", [left, right])
        elif symbol in ("==", "!="):
            if left.type == right.type and isinstance(left.type, Primitive):
                function = partial(operators.EQUALITY[symbol], self.budget)
                return _operate(node.at, LOGICAL, "argument/expression", function, [left, right])
        elif left.type == right.type and (left.type in (INTEGER, SCALAR)):
            assert isinstance(left.type, Primitive)
            if symbol in operators.ORDER:
                function = operators.ORDER[symbol]
                return _operate(node.at, LOGICAL, "argument/expression", function, [left, right])
            function = operators.ARITHMETIC[symbol, left.type]
            return _operate(node.at, left.type, "argument/arithmetic", function, [left, right])
        elif symbol == "+" and (
            left.type == right.type == STRING
            or (isinstance(left.type, Array) and isinstance(right.type, Array))
        ):
            joint = common(left.type, right.type)
            if joint is not None:
                operands = [as_tensor(left, joint), as_tensor(right, joint)]
                function = partial(operators.concatenate, self.budget)
                return tree.Operate(node.at, joint, "argument/array", function, operands)
        elif symbol == "*" and right.type == INTEGER and _is_sequence(left.type):
            function = partial(operators.duplicate, self.budget)
            return tree.Operate(node.at, left.type, "argument/array", function, [left, right])
        return self._wrong(
            "type/operator",
            f"operator {symbol} does not take {left.type} and {right.type}",
            node.at,
            hint=_mixed_hint(left.type, right.type),
        )

    def _contains(self, node: ast.Binary, left: tree.Typed, right: tree.Typed) -> tree.Typed:
        if right.type is ANY:
            return tree.Wrong(node.at, LOGICAL)
        if not isinstance(right.type, Array):
            message = f"'in' looks into an array, not into {right.type}"
            return self._wrong("type/operator", message, node.at)
        if has_tensor(left.type) or has_tensor(right.type):
            message = "'in' compares values that are known at compile time, not tensors"
            return self._wrong("type/operator", message, node.at)
        if common(left.type, right.type.item) is None:
            message = f"'in' looks for {left.type} in an array of {right.type.item}"
            return self._wrong("type/operator", message, node.at)
        function = partial(operators.contains, self.budget)
        return tree.Operate(node.at, LOGICAL, "argument/expression", function, [left, right])

    def _unary(self, node: ast.Unary) -> tree.Typed:
        operand = self.expression(node.operand)
        if isinstance(operand.type, Tensor):
            return self._operation(operators.UNARY_OPERATIONS[node.operator], node.at, [operand])
        if operand.type is ANY:
            return tree.Wrong(node.at)
        match node.operator, operand.type:
            case "!", Primitive("logical"):
                return _operate(node.at, LOGICAL, "", _negate_logical, [operand])
            case "+", Primitive("integer" | "scalar"):
                return operand
            case "-", Primitive("integer"):
                function = operators.negate_integer
                return _operate(node.at, INTEGER, "argument/arithmetic", function, [operand])
            case "-", Primitive("scalar"):
                return _operate(node.at, SCALAR, "", _negate_scalar, [operand])
            case _:
                message = f"operator {node.operator} does not take {operand.type}"
                return self._wrong("type/operator", message, node.at)

    def _operation(self, name: str, at: int, operands: list[tree.Typed]) -> tree.Typed:
        """An operator on tensors is checked as the operation that it stands for."""
        callee = self.scope.standard(name)
        given = dict(enumerate(operands))
        node = ast.Invocation(at, name, None, ())
        dtype = bind_dtype(callee, node, given, self.dtype, self.error)
        return tree.Wrong(at) if dtype is None else self._call(callee, dtype, at, given)

    # -- the rest of 3.3.3

    def _if_else(self, node: ast.IfElse) -> tree.Typed:
        condition = self.expression(node.condition)
        value = self.expression(node.value)
        other = self.expression(node.other)
        if not castable(condition.type, LOGICAL):
            message = f"a condition is a logical value, not {condition.type}"
            hint = ""
            if isinstance(condition.type, Tensor):
                message = "a condition must be known at compile time; this one is a tensor"
                hint = "use select(condition, a, b) to choose item by item"
            self.error("type/condition", message, condition.at, hint=hint)
            condition = tree.Wrong(node.at)
        type_ = common(value.type, other.type)
        if type_ is None:
            message = f"the branches of if-else have no common type: {value.type} and {other.type}"
            return self._wrong("type/branches", message, node.at)
        return tree.Choose(
            node.at, type_, condition, as_tensor(value, type_), as_tensor(other, type_)
        )

    def _comprehension(self, node: ast.Comprehension) -> tree.Typed:
        arrays: list[tree.Typed] = []
        local: dict[str, Type] = {}
        for name, iterated in node.iterators:
            array = self.expression(iterated)
            item: Type = ANY
            if isinstance(array.type, Array):
                item = array.type.item
            elif array.type is not ANY:
                hint = "iterate range_of(...)" if array.type in (STRING, INTEGER) else ""
                message = f"only arrays can be iterated, not {array.type}"
                self.error("type/iterate", message, array.at, hint=hint)
                array = tree.Wrong(array.at)
            if name.name in local:
                message = f"loop variable '{name.name}' occurs twice"
                self.error("identifier/loop-variable", message, name.at)
            local[name.name] = item
            arrays.append(array)
        outer, self.names = self.names, {**self.names, **local}
        condition = None if node.condition is None else self.expression(node.condition)
        if condition is not None and not castable(condition.type, LOGICAL):
            message = f"a condition is a logical value, not {condition.type}"
            self.error("type/condition", message, condition.at)
            condition = tree.Wrong(condition.at)
        item_value = self.expression(node.item)
        self.names = outer
        return tree.Loop(
            node.at, Array(item_value.type), list(local), arrays, condition, item_value
        )

    def _subscript(self, node: ast.Subscript) -> tree.Typed:
        operand = self.expression(node.operand)
        bounds = [None if b is None else self.expression(b) for b in (node.begin, node.end)]
        type_ = operand.type
        if type_ is ANY:
            return tree.Wrong(node.at)
        if isinstance(type_, Tuple):
            return self._tuple_item(node, operand, type_)
        if not _is_sequence(type_):
            hint = "use the operation slice" if isinstance(type_, Tensor) else ""
            message = f"{type_} cannot be subscripted"
            return self._wrong("type/subscript", message, node.at, hint=hint)
        for bound in bounds:
            if bound is not None and not castable(bound.type, INTEGER):
                message = f"a subscript is an integer, not {bound.type}"
                return self._wrong("type/subscript", message, bound.at)
        begin, end = (tree.Known(node.at, INTEGER, None) if b is None else b for b in bounds)
        if node.is_range:
            function = partial(operators.item_range, self.budget)
            return tree.Operate(node.at, type_, "argument/index", function, [operand, begin, end])
        item_type = type_.item if isinstance(type_, Array) else STRING
        return tree.Operate(node.at, item_type, "argument/index", operators.item, [operand, begin])

    def _tuple_item(self, node: ast.Subscript, operand: tree.Typed, type_: Tuple) -> tree.Typed:
        match node.begin:
            case ast.Literal_(value=int() as index) if not node.is_range and not isinstance(
                index, bool
            ):
                if index >= len(type_.items):
                    message = f"index {index} is outside {type_}"
                    return self._wrong("type/subscript", message, node.at)
                known = tree.Known(node.at, INTEGER, index)
                return tree.Operate(
                    node.at, type_.items[index], "argument/index", operators.item, [operand, known]
                )
            case _:
                message = "the subscript of a tuple must be an integer literal"
                return self._wrong("type/subscript", message, node.at)

    def _builtin(self, node: ast.Builtin) -> tree.Typed:
        operand = self.expression(node.argument)
        type_ = operand.type
        if node.name == "shape_of":
            if isinstance(type_, Tensor | Any_):
                return tree.ShapeOf(node.at, INTEGERS, operand)
            return tree.Known(node.at, INTEGERS, ())
        if node.name in ("length_of", "range_of"):
            result = INTEGER if node.name == "length_of" else INTEGERS
            if type_ is ANY:
                return tree.Wrong(node.at, result)
            if not _is_sequence(type_):
                message = f"{node.name} takes an array or a string, not {type_}"
                hint = "shape_of gives the extents of a tensor" if isinstance(type_, Tensor) else ""
                return self._wrong("type/builtin", message, node.at, hint=hint)
            function = len if node.name == "length_of" else partial(operators.range_of, self.budget)
            return tree.Operate(node.at, result, "argument/array", function, [operand])
        result, function = operators.CASTS[node.name]
        if type_ is ANY:
            return tree.Wrong(node.at, result)
        if not isinstance(type_, Primitive):
            message = f"{node.name}(...) converts primitive values, not {type_}"
            return self._wrong("type/cast", message, node.at)
        return _operate(node.at, result, "type/cast", function, [operand])

    # -- invocations

    def _invocation(self, node: ast.Invocation) -> tree.Typed:
        callee = self.scope.find(node.name)
        arguments = [(a, self.expression(a.value)) for a in node.arguments]
        if callee is None:
            return self._wrong(
                "invocation/unknown",
                f"there is no operation '{node.name}'",
                node.at,
                hint=suggestion(node.name, self.scope.names),
            )
        if callee.malformed:
            return tree.Wrong(node.at)
        self.scope.note_use(callee, node, self.source, self.diagnostics)
        if node.name in ONLY_IN_GRAPH and callee.spec is not None and not self.in_graph:
            return self._wrong(
                "identifier/in-fragment",
                f"'{node.name}' must not be used in a fragment",
                node.at,
                hint="use it in the graph and pass the tensor on",
            )
        operands = bind_arguments(callee, node, arguments, self.error)
        if operands is None:
            return tree.Wrong(node.at)
        dtype = bind_dtype(callee, node, operands, self.dtype, self.error)
        if dtype is None:
            return tree.Wrong(node.at)
        for operand in operands.values():
            self._check_chaining(operand)
        return self._call(callee, dtype, node.at, operands)

    def _check_chaining(self, operand: tree.Typed) -> None:
        if isinstance(operand, tree.Call) and not isinstance(operand.type, Tensor):
            self.error(
                "invocation/chaining",
                f"'{operand.callee.name}' results in {operand.type}; only an operation with a "
                "single tensor as its result can be an argument",
                operand.at,
                hint="assign the results first",
            )

    def _call(
        self, callee: Declaration, dtype: str, at: int, given: Mapping[int, tree.Typed]
    ) -> tree.Typed:
        """Check argument types against the parameters, of which `dtype` replaces `?`."""
        types, result = callee.types(dtype)
        operands: list[tree.Typed | None] = [None] * len(types)
        wrong = False
        for i, operand in given.items():
            declared = types[i]
            if operand.type is not declared and not castable(operand.type, declared):
                if isinstance(operand, tree.Call) and not isinstance(operand.type, Tensor):
                    wrong = True
                    continue
                self._argument_error(callee, i, declared, operand)
                wrong = True
            operands[i] = as_tensor(operand, declared)
        for i, parameter in enumerate(callee.parameters):
            if i not in given and not castable(parameter.default_type, types[i]):
                self.error(
                    "type/argument",
                    f"{callee.name}: the default of '{parameter.name}' is "
                    f"{parameter.default_type}, but the parameter is {types[i]} here",
                    at,
                    hint=f"give '{parameter.name}' explicitly",
                )
                wrong = True
        if wrong:
            return tree.Wrong(at)
        return tree.Call(at, result, callee, dtype, operands)

    def _argument_error(
        self, callee: Declaration, index: int, declared: Type, operand: tree.Typed
    ) -> None:
        parameter = callee.parameters[index]
        hint = ""
        if operand.type == INTEGER and castable(SCALAR, declared):
            hint = "write a decimal point: 1.0"
        elif isinstance(declared, Array) and castable(operand.type, declared.item):
            hint = "write it as an array: [...]"
        elif isinstance(operand.type, Tensor) and not has_tensor(declared):
            hint = f"'{parameter.name}' must be known at compile time"
        self.error(
            "type/argument",
            f"{callee.name}: parameter '{parameter.name}' is {declared}, but the argument is "
            f"{operand.type}",
            operand.at,
            hint=hint,
        )


# -- helpers


def suggestion(name: str, names: Iterable[str]) -> str:
    """A hint that names what might be meant, or nothing."""
    close = get_close_matches(name, names, n=3, cutoff=0.7)
    return f"did you mean {' or '.join(repr(c) for c in close)}?" if close else ""


def as_tensor(node: tree.Typed, type_: Type) -> tree.Typed:
    """`node` where `type_` is declared: primitive values become tensors where it says so."""
    if node.type is type_ or not has_tensor(type_) or not _needs_tensor(node.type, type_):
        return node
    return tree.AsTensor(node.at, type_, node)


def _needs_tensor(source: Type, target: Type) -> bool:
    match source, target:
        case Primitive(), Tensor():
            return True
        case Array(item), Array(other):
            return _needs_tensor(item, other)
        case Tuple(items), Tuple(others):
            return any(map(_needs_tensor, items, others))
        case _:
            return False


def _sequence(at: int, type_: Type, items: list[tree.Typed]) -> tree.Typed:
    """An array or tuple; a known one if all its items are."""
    values: list[Any] = []
    for item in items:
        if not isinstance(item, tree.Known):
            return tree.Sequence(at, type_, items)
        values.append(item.value)
    return tree.Known(at, type_, tuple(values))


def _operate(
    at: int, type_: Type, rule: str, function: object, operands: list[tree.Typed]
) -> tree.Typed:
    return tree.Operate(at, type_, rule, function, operands)  # pyright: ignore[reportArgumentType]


def _negate_logical(x: bool) -> bool:
    return not x


def _negate_scalar(x: float) -> float:
    return -x


def _is_sequence(type_: Type) -> bool:
    return isinstance(type_, Array) or type_ == STRING


def _mixed_hint(left: Type, right: Type) -> str:
    if {left, right} == {INTEGER, SCALAR}:
        return "integers and scalars do not mix: write a decimal point, or cast with scalar(...)"
    if left == INTEGER and _is_sequence(right):
        return "the array comes first: [0] * 2"
    return ""


def _describe(target: ast.Expression) -> str:
    match target:
        case ast.Identifier(name=name):
            return f"the identifier '{name}'"
        case ast.Array(items=items):
            return f"an array of {len(items)}"
        case ast.Tuple(items=items):
            return f"a tuple of {len(items)}"
        case _:
            return "this"


def _structure_hint(type_: Type) -> str:
    match type_:
        case Array():
            return "write an array of identifiers: [a, b, ...] = ..."
        case Tuple(items):
            return f"write a tuple of {len(items)} identifiers: a, b = ..."
        case _:
            return "write a single identifier"
