"""Types of operators on attribute values, of subscripts and built-in functions (3.3.3)."""

from __future__ import annotations

from functools import partial

from nnefc.frontends.common.budget import Budget
from nnefc.frontends.nnef import operators
from nnefc.frontends.nnef import typed_tree as tree
from nnefc.frontends.nnef.invoke import Report
from nnefc.frontends.nnef.types import (
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
    unknown,
)
from nnefc.syntax import ast

COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})


class OperatorChecker:
    """Builds typed nodes of operators from typed operands; reports operands that do not fit."""

    def __init__(self, budget: Budget, error: Report) -> None:
        self.budget = budget
        self.error = error

    def _wrong(self, rule: str, message: str, at: int, *, hint: str = "") -> tree.ErrorNode:
        self.error(rule, message, at, hint=hint)
        return tree.ErrorNode(at)

    def binary(self, node: ast.Binary, left: tree.Typed, right: tree.Typed) -> tree.Typed:
        symbol = node.operator
        if symbol == "in":
            return self._contains(node, left, right)
        if symbol in ("&&", "||"):
            if castable(left.type, LOGICAL) and castable(right.type, LOGICAL):
                return tree.Logic(node.at, LOGICAL, symbol == "||", [left, right])
        elif isinstance(left.type, Any_) or isinstance(right.type, Any_):
            type_ = LOGICAL if symbol in COMPARISONS else unknown(left.type, right.type)
            return tree.ErrorNode(node.at, type_, (left, right))
        elif symbol in ("==", "!="):
            if left.type == right.type and isinstance(left.type, Primitive):
                function = partial(operators.EQUALITY[symbol], self.budget)
                return _apply(node.at, LOGICAL, "argument/expression", function, [left, right])
        elif left.type == right.type and (left.type in (INTEGER, SCALAR)):
            assert isinstance(left.type, Primitive)
            if symbol in operators.ORDER:
                function = operators.ORDER[symbol]
                return _apply(node.at, LOGICAL, "argument/expression", function, [left, right])
            function = operators.ARITHMETIC[symbol, left.type]
            return _apply(node.at, left.type, "argument/arithmetic", function, [left, right])
        elif symbol == "+" and (
            left.type == right.type == STRING
            or (isinstance(left.type, Array) and isinstance(right.type, Array))
        ):
            joint = common(left.type, right.type)
            if joint is not None:
                operands = [tree.as_tensor(left, joint), tree.as_tensor(right, joint)]
                function = partial(operators.concatenate, self.budget)
                return tree.Apply(node.at, joint, "argument/array", function, operands)
        elif symbol == "*" and right.type == INTEGER and _is_sequence(left.type):
            function = partial(operators.duplicate, self.budget)
            return tree.Apply(node.at, left.type, "argument/array", function, [left, right])
        return self._wrong(
            "type/operator",
            f"operator {symbol} does not take {left.type} and {right.type}",
            node.at,
            hint=_mixed_hint(left.type, right.type),
        )

    def _contains(self, node: ast.Binary, left: tree.Typed, right: tree.Typed) -> tree.Typed:
        if isinstance(right.type, Any_):
            return tree.ErrorNode(node.at, LOGICAL, (left, right))
        if not isinstance(right.type, Array):
            message = f"'in' takes an array on its right, not {right.type}"
            return self._wrong("type/operator", message, node.at)
        if has_tensor(left.type) or has_tensor(right.type):
            message = "'in' compares values that are known at compile time, not tensors"
            return self._wrong("type/operator", message, node.at)
        if common(left.type, right.type.item) is None:
            message = f"'in' looks for {left.type} in an array of {right.type.item}"
            return self._wrong("type/operator", message, node.at)
        function = partial(operators.contains, self.budget)
        return tree.Apply(node.at, LOGICAL, "argument/expression", function, [left, right])

    def unary(self, node: ast.Unary, operand: tree.Typed) -> tree.Typed:
        if isinstance(operand.type, Any_):
            return tree.ErrorNode(node.at, operand.type, (operand,))
        match node.operator, operand.type:
            case "!", Primitive("logical"):
                return _apply(node.at, LOGICAL, "", _negate_logical, [operand])
            case "+", Primitive("integer" | "scalar"):
                return operand
            case "-", Primitive("integer"):
                function = operators.negate_integer
                return _apply(node.at, INTEGER, "argument/arithmetic", function, [operand])
            case "-", Primitive("scalar"):
                return _apply(node.at, SCALAR, "", _negate_scalar, [operand])
            case _:
                message = f"operator {node.operator} does not take {operand.type}"
                return self._wrong("type/operator", message, node.at)

    def subscript(
        self,
        node: ast.Subscript,
        operand: tree.Typed,
        begin: tree.Typed | None,
        end: tree.Typed | None,
    ) -> tree.Typed:
        type_ = operand.type
        if isinstance(type_, Any_):
            return tree.ErrorNode(node.at, type_, (operand,))
        if isinstance(type_, Tuple):
            return self._tuple_item(node, operand, type_)
        if not _is_sequence(type_):
            hint = "use the operation slice" if isinstance(type_, Tensor) else ""
            message = f"{type_} cannot be subscripted"
            return self._wrong("type/subscript", message, node.at, hint=hint)
        for bound in (begin, end):
            if bound is not None and not castable(bound.type, INTEGER):
                message = f"a subscript is an integer, not {bound.type}"
                return self._wrong("type/subscript", message, bound.at)
        no_bound = tree.ConstantNode(node.at, INTEGER, None)
        if node.is_range:
            function = partial(operators.item_range, self.budget)
            bounds = [no_bound if begin is None else begin, no_bound if end is None else end]
            return tree.Apply(node.at, type_, "argument/index", function, [operand, *bounds])
        assert begin is not None, "only a range may lack a bound"
        item_type = type_.item if isinstance(type_, Array) else STRING
        return tree.Apply(node.at, item_type, "argument/index", operators.item, [operand, begin])

    def _tuple_item(self, node: ast.Subscript, operand: tree.Typed, type_: Tuple) -> tree.Typed:
        match node.begin:
            case ast.Literal_(value=int() as index) if not node.is_range and not isinstance(
                index, bool
            ):
                if index >= len(type_.items):
                    message = f"index {index} is outside {type_}"
                    return self._wrong("type/subscript", message, node.at)
                known = tree.ConstantNode(node.at, INTEGER, index)
                return tree.Apply(
                    node.at, type_.items[index], "argument/index", operators.item, [operand, known]
                )
            case _:
                message = "the subscript of a tuple must be an integer literal"
                return self._wrong("type/subscript", message, node.at)

    def builtin(self, node: ast.Builtin, operand: tree.Typed) -> tree.Typed:
        type_ = operand.type
        if node.name == "shape_of":
            if isinstance(type_, Tensor | Any_):
                return tree.ShapeOf(node.at, INTEGERS, operand)
            return tree.ConstantNode(node.at, INTEGERS, ())
        if node.name in ("length_of", "range_of"):
            result = INTEGER if node.name == "length_of" else INTEGERS
            if isinstance(type_, Any_):
                return tree.ErrorNode(node.at, result, (operand,))
            if not _is_sequence(type_):
                message = f"{node.name} takes an array or a string, not {type_}"
                hint = "shape_of gives the extents of a tensor" if isinstance(type_, Tensor) else ""
                return self._wrong("type/builtin", message, node.at, hint=hint)
            function = len if node.name == "length_of" else partial(operators.range_of, self.budget)
            return tree.Apply(node.at, result, "argument/array", function, [operand])
        result, function = operators.CASTS[node.name]
        if isinstance(type_, Any_):
            return tree.ErrorNode(node.at, result, (operand,))
        if not isinstance(type_, Primitive):
            message = f"{node.name}(...) converts primitive values, not {type_}"
            return self._wrong("type/cast", message, node.at)
        return _apply(node.at, result, "type/cast", function, [operand])


def _apply(
    at: int, type_: Type, rule: str, function: object, operands: list[tree.Typed]
) -> tree.Typed:
    return tree.Apply(at, type_, rule, function, operands)  # pyright: ignore[reportArgumentType]


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
