"""Check the types and identifiers of a body: syntax tree in, typed tree out (chapter 3.3).

Every expression is checked once, whether or not it will be evaluated.  A wrong expression
is reported and gets the type `ANY`, which fits everywhere, so one mistake is one error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nnefc.frontends.common.budget import Budget
from nnefc.frontends.common.tensor_operators import BINARY_OPERATIONS, UNARY_OPERATIONS
from nnefc.frontends.nnef import typed_tree as tree
from nnefc.frontends.nnef.check_operators import OperatorChecker
from nnefc.frontends.nnef.invoke import bind_arguments, bind_dtype, check_types
from nnefc.frontends.nnef.left_side_text import describe_target, structure_hint
from nnefc.frontends.nnef.operation_declarations import LITERALS, ONLY_IN_GRAPH, DeclaredOperations
from nnefc.frontends.nnef.results import target_lengths
from nnefc.frontends.nnef.types import (
    ANY,
    INTEGER,
    LOGICAL,
    NOTHING,
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
from nnefc.frontends.nnef.variable_literals import VariableLiterals
from nnefc.ops.tools.suggest import suggestion
from nnefc.support.errors import Diagnostics, Step
from nnefc.syntax import ast


class TypeChecker:
    """Checks one body.

    `names`: types of the identifiers known so far.  `parameters`: identifiers that must not
    be assigned.  `results`: declared types of the results.  `dtype`: the data-type that
    replaces `?`, "" outside generic fragments.  `literals`: in the graph, replaces variables
    among arguments.
    """

    def __init__(
        self,
        scope: DeclaredOperations,
        source: ast.SourceText,
        budget: Budget,
        diagnostics: Diagnostics,
        *,
        parameters: Mapping[str, Type],
        results: Mapping[str, Type],
        dtype: str = "",
        in_graph: bool = False,
        later: Iterable[str] = (),
        chain: tuple[Step, ...] = (),
        literals: VariableLiterals | None = None,
    ) -> None:
        self.scope = scope
        self.source = source
        self.budget = budget
        self.diagnostics = diagnostics
        self.names = self._body_names = dict(parameters)
        self.literals = literals
        self.parameters = frozenset(parameters)
        self.results = results
        self.dtype = dtype
        self.in_graph = in_graph
        self.chain = chain
        self._assigned: dict[str, int] = {}
        self._later = frozenset(later)
        self._undefined: set[str] = set()
        self._operators = OperatorChecker(budget, self.error)
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

    def _wrong(self, rule: str, message: str, at: int, *, hint: str = "") -> tree.ErrorNode:
        self.error(rule, message, at, hint=hint)
        return tree.ErrorNode(at)

    # -- assignments

    def assignment(self, node: ast.Assignment) -> tree.Assign:
        """Check a statement and define the identifiers that it assigns."""
        value = self.expression(node.value)
        if isinstance(node.value, ast.Invocation) and not isinstance(value, tree.ErrorNode):
            fits = self._equivalent(node.target, value.type, node.value.name)
            if isinstance(value, tree.Call):
                value.lengths = target_lengths(node.target, len(value.callee.results))
        else:
            fits = True
        if not self._define(node.target, value.type if fits else ANY) or not fits:
            value = tree.ErrorNode(value.at)
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
                described = describe_target(target)
                self.error(
                    "invocation/structure",
                    f"'{name}' results in {type_}, which cannot be assigned to {described}",
                    target.at,
                    hint=structure_hint(type_),
                )
                return False

    def _define(self, target: ast.Expression, type_: Type) -> bool:
        """Define the identifiers of a left side; False if it cannot hold a value of the type."""
        match target, type_:
            case ast.Identifier(), _:
                return self._define_name(target, type_)
            case ((ast.Array(items=items) | ast.Tuple(items=items)), Any_()):
                return self._define_all(items, [ANY] * len(items))
            case ast.Array(items=items), Array(item):
                return self._define_all(items, [item] * len(items))
            case ast.Tuple(items=items), Tuple(types) if len(items) == len(types):
                return self._define_all(items, types)
            case _:
                message = f"{type_} cannot be unpacked to {describe_target(target)}"
                self.error("type/unpack", message, target.at)
                self._define(target, ANY)
                return False

    def _define_all(self, targets: Sequence[ast.Expression], types: Sequence[Type]) -> bool:
        """Define all targets, even after one that does not fit; whether all fit."""
        fitting = [self._define(target, type_) for target, type_ in zip(targets, types)]
        return all(fitting)

    def _define_name(self, target: ast.Identifier, type_: Type) -> bool:
        name = target.name
        if name in self._assigned:
            line = self.source.place(self._assigned[name]).line
            message = f"'{name}' is assigned already, on line {line}"
            self.error("identifier/assigned-twice", message, target.at)
            return True
        if name in self.parameters:
            self.error(
                "identifier/parameter-assigned",
                f"'{name}' is a parameter of the fragment and must not be assigned",
                target.at,
            )
            return True
        self._assigned[name] = target.at
        fits = True
        declared = self.results.get(name)
        if declared is not None:
            fits = castable(type_, declared)
            if not fits:
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
            fits = False
        self.names[name] = type_
        return fits

    def finish(self, results: Iterable[tuple[str, int]]) -> None:
        """Check that every result, given with the position of its declaration, is assigned."""
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
        return tree.ConstantNode(node.at, LITERALS[type(node.value)], node.value)

    def _identifier(self, node: ast.Identifier) -> tree.Typed:
        type_ = self.names.get(node.name)
        if type_ is not None:
            return tree.Local(node.at, type_, node.name)
        if node.name not in self._undefined:
            self._undefined.add(node.name)
            hint = f"'{node.name}' is assigned further down" if node.name in self._later else ""
            if node.name in ("True", "False"):
                hint = f"the literal is written {node.name.lower()}"
            self.error(
                "identifier/undefined",
                f"'{node.name}' is not defined here",
                node.at,
                hint=hint or suggestion(node.name, self.names),
            )
        return tree.ErrorNode(node.at)

    def _array(self, node: ast.Array) -> tree.Typed:
        items = [self.expression(item) for item in node.items]
        item_type: Type = items[0].type if items else NOTHING
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
            items = [tree.as_tensor(item, item_type) for item in items]
        return tree.sequence(node.at, Array(item_type), items)

    def _tuple(self, node: ast.Tuple) -> tree.Typed:
        items = [self.expression(item) for item in node.items]
        return tree.sequence(node.at, Tuple(tuple([item.type for item in items])), items)

    # -- operators

    def _binary_chain(self, node: ast.Binary) -> tree.Typed:
        """Check a chain of operators in a loop: its left operands nest as deep as it is long."""
        chain: list[ast.Binary] = [node]
        while isinstance(chain[-1].left, ast.Binary):
            chain.append(chain[-1].left)
        left = self.expression(chain[-1].left)
        for link in reversed(chain):
            left = self._binary(link, left, self.expression(link.right))
        return left

    def _binary(self, node: ast.Binary, left: tree.Typed, right: tree.Typed) -> tree.Typed:
        tensors = isinstance(left.type, Tensor) or isinstance(right.type, Tensor)
        if tensors and node.operator != "in":
            return self._operation(BINARY_OPERATIONS[node.operator], node.at, [left, right])
        return self._operators.binary(node, left, right)

    def _unary(self, node: ast.Unary) -> tree.Typed:
        operand = self.expression(node.operand)
        if isinstance(operand.type, Tensor):
            return self._operation(UNARY_OPERATIONS[node.operator], node.at, [operand])
        return self._operators.unary(node, operand)

    def _operation(self, name: str, at: int, operands: list[tree.Typed]) -> tree.Typed:
        """Check an operator on tensors as an invocation of its operation."""
        callee = self.scope.standard(name)
        bound = dict(enumerate(operands))
        node = ast.Invocation(at, name, None, ())
        dtype = bind_dtype(callee, node, bound, self.dtype, self.error)
        return (
            tree.ErrorNode(at)
            if dtype is None
            else check_types(callee, dtype, at, bound, self.error)
        )

    # -- other expressions of 3.3.3

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
            condition = tree.ErrorNode(node.at)
        type_ = common(value.type, other.type)
        if type_ is None:
            message = f"the branches of if-else have no common type: {value.type} and {other.type}"
            return self._wrong("type/branches", message, node.at)
        return tree.Choose(
            node.at, type_, condition, tree.as_tensor(value, type_), tree.as_tensor(other, type_)
        )

    def _comprehension(self, node: ast.Comprehension) -> tree.Typed:
        arrays: list[tree.Typed] = []
        local: dict[str, Type] = {}
        for name, iterated in node.iterators:
            array = self.expression(iterated)
            item: Type = array.type
            if isinstance(array.type, Array):
                item = array.type.item
            elif not isinstance(array.type, Any_):
                hint = "iterate range_of(...)" if array.type in (STRING, INTEGER) else ""
                message = f"only arrays can be iterated, not {array.type}"
                self.error("type/iterate", message, array.at, hint=hint)
                array = tree.ErrorNode(array.at)
                item = ANY
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
            condition = tree.ErrorNode(condition.at)
        item_value = self.expression(node.item)
        self.names = outer
        return tree.Loop(
            node.at, Array(item_value.type), list(local), arrays, condition, item_value
        )

    def _subscript(self, node: ast.Subscript) -> tree.Typed:
        operand = self.expression(node.operand)
        begin = None if node.begin is None else self.expression(node.begin)
        end = None if node.end is None else self.expression(node.end)
        return self._operators.subscript(node, operand, begin, end)

    def _builtin(self, node: ast.Builtin) -> tree.Typed:
        return self._operators.builtin(node, self.expression(node.argument))

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
            return tree.ErrorNode(node.at)
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
            return tree.ErrorNode(node.at)
        if self.literals is not None and self.names is self._body_names:  # not of a comprehension
            operands = self.literals.replace(callee, operands)
        dtype = bind_dtype(callee, node, operands, self.dtype, self.error)
        if dtype is None:
            return tree.ErrorNode(node.at)
        return check_types(callee, dtype, node.at, operands, self.error)
