"""Bind the arguments of an invocation to parameters, and `?` to a type (3.3.2, Invocations)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from nnefc.frontends.nnef import typed_tree as tree
from nnefc.frontends.nnef.operation_declarations import Declaration, Parameter
from nnefc.frontends.nnef.types import (
    ANY,
    INTEGER,
    OPAQUE,
    SCALAR,
    Array,
    Tensor,
    Tuple,
    Type,
    castable,
    deduce,
    has_any,
    has_tensor,
)
from nnefc.ops.tools.suggest import suggestion
from nnefc.syntax import ast


class Report(Protocol):
    def __call__(self, rule: str, message: str, at: int, *, hint: str = "") -> None: ...


def bind_arguments(
    callee: Declaration,
    node: ast.Invocation,
    arguments: Sequence[tuple[ast.Argument, tree.Typed]],
    error: Report,
) -> dict[int, tree.Typed] | None:
    """Arguments by the index of their parameter; None after an error in their structure."""
    bound: dict[int, tree.Typed] = {}
    is_valid = True
    after_named = False
    for position, (argument, value) in enumerate(arguments):
        if argument.name is not None:
            after_named = True
            is_valid &= _bind_named(callee, argument.name, argument.at, value, bound, error)
        elif after_named:
            error(
                "invocation/positional-after-named",
                f"'{callee.name}': a positional argument comes after named ones",
                argument.at,
            )
            is_valid = False
        elif position < len(callee.parameters):
            hint = _array_hint(callee, node, value)
            if hint:
                error(
                    "invocation/positional-attribute",
                    f"'{callee.name}' takes the tensors as one array",
                    argument.at,
                    hint=hint,
                )
                return None
            is_valid &= _check_positional(callee, callee.parameters[position], argument.at, error)
            bound[position] = value
    return bound if is_valid and _check_count(callee, node, arguments, bound, error) else None


def _bind_named(
    callee: Declaration,
    name: str,
    at: int,
    value: tree.Typed,
    bound: dict[int, tree.Typed],
    error: Report,
) -> bool:
    """Add a named argument to `bound`; False after an error."""
    index = callee.index.get(name)
    if index is None:
        error(
            "invocation/unknown-argument",
            f"'{callee.name}' has no parameter '{name}'",
            at,
            hint=_parameters_hint(callee, name),
        )
        return False
    if index in bound:
        message = f"'{callee.name}': parameter '{name}' is given twice"
        error("invocation/duplicate-argument", message, at)
        return False
    bound[index] = value
    return True


def _check_positional(callee: Declaration, parameter: Parameter, at: int, error: Report) -> bool:
    """Only tensor parameters take positional arguments."""
    if not parameter.is_tensor:
        error(
            "invocation/positional-attribute",
            f"'{callee.name}': '{parameter.name}' is an attribute and must be named",
            at,
            hint=f"write {parameter.name} = ...",
        )
    return parameter.is_tensor


def _check_count(
    callee: Declaration,
    node: ast.Invocation,
    arguments: Sequence[tuple[ast.Argument, tree.Typed]],
    bound: Mapping[int, tree.Typed],
    error: Report,
) -> bool:
    """Check that no argument is left over and that no parameter lacks one."""
    parameters = callee.parameters
    if len(arguments) > len(parameters):
        error(
            "invocation/too-many",
            f"'{callee.name}' takes at most {len(parameters)} arguments, not {len(arguments)}",
            node.at,
            hint=_array_hint(callee, node, arguments[1][1]),
        )
        return False
    missing = [f"'{p.name}'" for i, p in enumerate(parameters) if not p.optional and i not in bound]
    if missing:
        error(
            "invocation/missing-argument",
            f"'{callee.name}': no argument for {', '.join(missing)}",
            node.at,
        )
    return not missing


def bind_dtype(
    callee: Declaration,
    node: ast.Invocation,
    operands: Mapping[int, tree.Typed],
    enclosing: str,
    error: Report,
) -> str | None:
    """The data-type that replaces `?` in the invocation, or None after an error.

    It is "" for operations that are not generic.  `enclosing`: the data-type that replaces `?`
    around the invocation, "" outside generic fragments.
    """
    written = node.dtype
    if not callee.generic:
        if written is not None:
            error(
                "invocation/generic",
                f"'{callee.name}' is not generic and takes no <{written}>",
                node.at,
            )
            return None
        return ""
    if written == OPAQUE:
        if not enclosing:
            message = f"{callee.name}<?>: ? has no meaning outside a generic fragment"
            error("invocation/generic", message, node.at, hint="name the type")
            return None
        return enclosing
    if written is not None:
        return written
    if callee.default_dtype is not None:
        return callee.default_dtype
    candidates: dict[str, None] = {}
    for index, operand in operands.items():
        deduce(callee.parameters[index].type, operand.type, candidates)
    if len(candidates) == 1:
        return next(iter(candidates))
    generic = [(o.type, callee.parameters[i].type) for i, o in operands.items()]
    if not all(castable(type_, declared) for type_, declared in generic):
        return OPAQUE  # `check_types` reports the argument that fits no data-type
    if not candidates and any(has_any(o.type, ANY) for o in operands.values()):
        return None
    reason = f"could be {' or '.join(candidates)}" if candidates else "does not follow"
    error(
        "type/generic",
        f"'{callee.name}': the generic type {reason} from the arguments",
        node.at,
        hint=f"write it: {callee.name}<scalar>(...)",
    )
    return None


def check_types(
    callee: Declaration, dtype: str, at: int, bound: Mapping[int, tree.Typed], error: Report
) -> tree.Typed:
    """The checked invocation; argument types are checked with `dtype` in place of `?`."""
    types, result = callee.types(dtype)
    operands: list[tree.Typed | None] = [None] * len(types)
    wrong = False
    for i, operand in bound.items():
        declared = types[i]
        if isinstance(operand, tree.Call) and not isinstance(operand.type, Tensor):
            error(
                "invocation/chaining",
                f"'{operand.callee.name}' results in {operand.type}; only an operation with a "
                "single tensor as its result can be an argument",
                operand.at,
                hint="assign the results first",
            )
            wrong = True
        elif operand.type is not declared and not castable(operand.type, declared):
            _argument_error(callee.name, callee.parameters[i], declared, operand, error)
            wrong = True
        operands[i] = tree.as_tensor(operand, declared)
    for i, parameter in enumerate(callee.parameters):
        if i not in bound and not castable(parameter.default_type, types[i]):
            error(
                "type/argument",
                f"{callee.name}: the default of '{parameter.name}' is "
                f"{parameter.default_type}, but the parameter is {types[i]} here",
                at,
                hint=f"give '{parameter.name}' explicitly",
            )
            wrong = True
    if wrong:
        return tree.ErrorNode(at)
    return tree.Call(at, result, callee, dtype, operands)


def _argument_error(
    name: str, parameter: Parameter, declared: Type, operand: tree.Typed, error: Report
) -> None:
    hint = ""
    if operand.type == INTEGER and castable(SCALAR, declared):
        hint = "write a decimal point: 1.0"
    elif isinstance(declared, Array) and castable(operand.type, declared.item):
        hint = "write it as an array: [...]"
    elif isinstance(declared, Array) and isinstance(declared.item, Tuple) and not _pairs(operand):
        hint = "write a pair for each dimension, as in [(1,1), (1,1)]"
    elif isinstance(operand.type, Tensor) and not has_tensor(declared):
        hint = f"'{parameter.name}' must be known at compile time"
    error(
        "type/argument",
        f"{name}: parameter '{parameter.name}' is {declared}, but the argument is {operand.type}",
        operand.at,
        hint=hint,
    )


def _pairs(operand: tree.Typed) -> bool:
    return isinstance(operand.type, Array) and isinstance(operand.type.item, Tuple)


def _array_hint(callee: Declaration, node: ast.Invocation, second: tree.Typed) -> str:
    """How to write several tensors as one array argument; "" if that is not the mistake."""
    parameters = callee.parameters
    takes_array = parameters[0].is_tensor and isinstance(parameters[0].type, Array)
    is_last = len(parameters) == 1 or not parameters[1].is_tensor
    written = [a.value for a in node.arguments if a.name is None]
    if not (takes_array and is_last and len(written) > 1 and isinstance(second.type, Tensor)):
        return ""
    names = [value.name if isinstance(value, ast.Identifier) else "..." for value in written[:4]]
    more = ", ..." if len(written) > 4 else ""
    rest = "" if len(parameters) == 1 else f", {parameters[1].name} = ..."
    return f"write {callee.name}([{', '.join(names)}{more}]{rest})"


def _parameters_hint(callee: Declaration, name: str) -> str:
    names = [p.name for p in callee.parameters]
    return suggestion(name, names) or f"its parameters are {', '.join(names)}"
