"""Flattened documents (chapter 6): one assignment per operation, with arguments as literals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nnefc.frontends.nnef.operation_declarations import Declaration, standard
from nnefc.frontends.nnef.standard_form import require_standard_form
from nnefc.frontends.nnef.types import Array, Tensor, Tuple, Type, deduce, is_generic
from nnefc.ir import Graph, Op, Value
from nnefc.ir.compare import is_literal, same_attribute
from nnefc.ops.core.interface import kind_of
from nnefc.ops.custom import spec as custom_spec
from nnefc.support.errors import NnefError
from nnefc.support.names import unused_name
from nnefc.syntax import ast
from nnefc.syntax.lexer import KEYWORDS
from nnefc.syntax.parser import parse_declaration
from nnefc.syntax.printer import print_document, print_literal

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

FRAGMENTS = "KHR_enable_fragment_definitions"


def flatten(source: Graph | ast.Document) -> str:
    """The text of the flattened document of a graph, or of a document without its data.

    Tensors keep their names, literals are written where they are used, and attributes with
    default values are left out.  Custom operations are declared.

    Raises NnefError `flatten/...` for a graph with operations that NNEF cannot express, such as
    those that passes create, and the errors of the document.
    """
    if isinstance(source, ast.Document):
        from nnefc.frontends.nnef.import_model import graph_of

        source = graph_of(source)
    return flattened(source).text


@dataclass(frozen=True, slots=True)
class Flattened:
    """A flattened document, and the identifiers of the inputs and results of its graph."""

    text: str
    inputs: Sequence[str]
    results: Sequence[str]


def flattened(graph: Graph) -> Flattened:
    """The flattened document of a graph; raises NnefError `flatten/...`, see `flatten`."""
    require_standard_form(graph)
    document = _Flattener(graph).document()
    ends = document.graph.parameters, document.graph.results
    inputs, results = ([identifier.name for identifier in each] for each in ends)
    return Flattened(print_document(document), inputs, results)


class _Flattener:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._names: dict[Value, str] = {}
        self._taken: set[str] = set()
        self._declared: dict[str, Declaration] = {}
        self._body: list[ast.Assignment] = []

    def document(self) -> ast.Document:
        graph = self._graph
        self._choose_names()
        for value in graph.inputs:
            self._assign(self._target(value), self._external(value))
        for op in graph.ops:
            if not is_literal(op) or graph.is_output(op.output):
                self._operation(op)
        results = self._results()
        fragments = tuple(d.fragment for d in self._declared.values())
        extensions = (ast.Extension(0, (ast.Identifier(0, FRAGMENTS),)),) if fragments else ()
        return ast.Document(
            ast.SourceText("", "<flattened>"),
            ast.Literal_(0, 1.0),
            extensions,
            fragments,
            ast.Graph(
                0,
                self._valid(graph.name, "graph_"),
                tuple(self._target(v) for v in graph.inputs),
                tuple(results),
                tuple(self._body),
            ),
        )

    # -- names

    def _choose_names(self) -> None:
        """Name the graph's inputs, then its results, then all other values."""
        graph = self._graph
        for value in graph.inputs:
            self._names[value] = self._fresh(value.name)
        for name, value in zip(graph.output_names, graph.outputs):
            if value not in self._names:
                self._names[value] = self._fresh(name)
        for op in graph.ops:
            for value in op.outputs:
                if value not in self._names:
                    self._names[value] = self._fresh(value.name or op.name)

    def _fresh(self, name: str) -> str:
        unused = unused_name(self._valid(name, "t_"), self._taken)
        self._taken.add(unused)
        return unused

    @staticmethod
    def _valid(name: str, prefix: str) -> str:
        if _IDENTIFIER.fullmatch(name) and name not in KEYWORDS | {"true", "false"}:
            return name
        return prefix + re.sub(r"[^A-Za-z0-9_]", "_", name)

    def _target(self, value: Value) -> ast.Identifier:
        return ast.Identifier(0, self._names[value])

    def _results(self) -> list[ast.Identifier]:
        """Results of the graph; repeated results and renamed inputs are copied."""
        identifiers: list[ast.Identifier] = []
        seen: set[str] = set()
        for name, value in zip(self._graph.output_names, self._graph.outputs):
            identifier = self._names[value]
            if identifier in seen or (value.op is None and value.name != name):
                identifier = self._fresh(name)
                argument = ast.Argument(0, None, self._target(value))
                copy = ast.Invocation(0, "copy", None, (argument,))
                self._assign(ast.Identifier(0, identifier), copy)
            seen.add(identifier)
            identifiers.append(ast.Identifier(0, identifier))
        return identifiers

    # -- operations

    def _assign(self, target: ast.LValue, value: ast.Invocation) -> None:
        self._body.append(ast.Assignment(0, target, value))

    def _external(self, value: Value) -> ast.Invocation:
        dtype = kind_of(value.type.dtype)
        shape = _literal(tuple(value.type.dims), Array(Tensor("integer")))
        return ast.Invocation(
            0,
            "external",
            None if dtype == "scalar" else dtype,
            (ast.Argument(0, "shape", shape),),
        )

    def _operation(self, op: Op) -> None:
        declaration = self._declaration(op)
        tensors = [p for p in declaration.parameters if p.is_tensor]
        operands = _grouped(op, [p.type for p in tensors], op.inputs)
        arguments: list[ast.Argument] = []
        while operands and tensors[len(operands) - 1].optional:
            parameter = tensors[len(operands) - 1]
            if not self._is_default(operands[-1], parameter.default):
                break
            operands.pop()
        arguments += [ast.Argument(0, None, self._operand(o)) for o in operands]
        for parameter in declaration.parameters:
            if parameter.is_tensor:
                continue
            value = op.attributes[parameter.name]
            if parameter.optional and same_attribute(value, parameter.default):
                continue
            expression = _literal(_plain(value), parameter.type, op)
            arguments.append(ast.Argument(0, parameter.name, expression))
        dtype = self._dtype(op, declaration, operands, [p.type for p in tensors])
        results = _grouped(op, [t for _, t in declaration.results], op.outputs)
        targets = [self._lvalue(r) for r in results]
        target = targets[0] if len(targets) == 1 else ast.Tuple(0, tuple(targets))
        self._assign(target, ast.Invocation(0, op.name, dtype, tuple(arguments)))

    def _declaration(self, op: Op) -> Declaration:
        known = standard(op.name)
        if known is not None:
            return known
        declared = self._declared.get(op.name)
        if declared is not None:
            return declared
        custom = custom_spec(op.name)
        text = self._graph.declarations.get(op.name)
        if text is None and custom is None:
            message = f"'{op.name}' cannot be written in NNEF"
            raise NnefError.of(
                "flatten/operation", message, op.location.place if op.location else None
            )
        fragment = parse_declaration(text) if text is not None else custom.declaration  # pyright: ignore[reportOptionalMemberAccess]
        self._declared[op.name] = Declaration(fragment)
        return self._declared[op.name]

    def _operand(self, operand: Value | Sequence[Value]) -> ast.Expression:
        if not isinstance(operand, Value):
            return ast.Array(0, tuple(self._operand(v) for v in operand))
        if operand.op is not None and is_literal(operand.op) and not self._is_result(operand):
            (value,) = _plain(operand.op.attributes["value"])
            return _literal(value, Tensor("scalar"), operand.op)
        return self._target(operand)

    def _is_result(self, value: Value) -> bool:
        return self._graph.is_output(value)

    def _lvalue(self, result: Value | Sequence[Value]) -> ast.LValue:
        if isinstance(result, Value):
            return self._target(result)
        return ast.Array(0, tuple(self._target(v) for v in result))

    def _is_default(self, operand: Value | Sequence[Value], default: Any) -> bool:
        if not isinstance(operand, Value) or operand.op is None or not is_literal(operand.op):
            return False
        return same_attribute(_plain(operand.op.attributes["value"]), (default,))

    def _dtype(
        self,
        op: Op,
        declaration: Declaration,
        operands: Iterable[Value | Sequence[Value]],
        types: Sequence[Type],
    ) -> ast.PrimitiveName | None:
        """The type argument; None if it follows from the operands or the declaration."""
        if not declaration.generic:
            return None
        candidates: dict[str, None] = {}
        for operand, declared in zip(operands, types):
            deduce(declared, _type_of(operand), candidates)
        wanted = _generic_dtype(op, declaration) or next(iter(candidates), "scalar")
        if declaration.default_dtype is not None:
            return None if wanted == declaration.default_dtype else _name(wanted)
        return None if wanted in candidates else _name(wanted)


def _name(dtype: str) -> ast.PrimitiveName:
    for name in ("integer", "scalar", "logical", "string"):
        if name == dtype:
            return name
    raise AssertionError(dtype)


def _generic_dtype(op: Op, declaration: Declaration) -> str | None:
    """The data-type that replaces `?`, from the first result that is generic."""
    outputs = _grouped(op, [t for _, t in declaration.results], op.outputs)
    for output, (_, type_) in zip(outputs, declaration.results):
        if is_generic(type_):
            first = output if isinstance(output, Value) else next(iter(output), None)
            if first is not None:
                return kind_of(first.type.dtype)
    return None


def _type_of(operand: Value | Sequence[Value]) -> Type:
    if isinstance(operand, Value):
        return Tensor(kind_of(operand.type.dtype))
    return Array(_type_of(operand[0])) if operand else Tuple(())


def _grouped(
    op: Op, types: Sequence[Type], values: Sequence[Value]
) -> list[Value | Sequence[Value]]:
    """Flat operands or results grouped by parameter; at most one parameter is an array."""
    arrays = sum(not isinstance(t, Tensor) for t in types)
    if arrays > 1 or any(not isinstance(t, Tensor | Array) for t in types):
        message = f"'{op.name}' has several tensor arrays; their lengths are not known"
        raise NnefError.of("flatten/operation", message, op.location.place if op.location else None)
    length = len(values) - (len(types) - arrays)
    grouped: list[Value | Sequence[Value]] = []
    at = 0
    for type_ in types:
        if isinstance(type_, Tensor):
            grouped.append(values[at])
            at += 1
        else:
            grouped.append(values[at : at + length])
            at += length
    return grouped


def _plain(value: Any) -> Any:
    """An attribute with arrays as tuples of Python numbers; floats get their shortest digits."""
    import numpy as np

    if not isinstance(value, np.ndarray):
        return value
    array: np.ndarray[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
    items: list[Any] = list(array.reshape(-1))
    if array.dtype.kind == "f":
        return tuple([float(str(item)) for item in items])
    return tuple([item.item() for item in items])


def _literal(value: Any, type_: Type, op: Op | None = None) -> ast.Expression:
    """The literal of a value; raises NnefError `flatten/literal` if it has none."""
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        if isinstance(type_, Tuple):
            return ast.Tuple(0, tuple(_literal(item, t, op) for item, t in zip(items, type_.items)))
        item_type = type_.item if isinstance(type_, Array) else type_
        return ast.Array(0, tuple(_literal(item, item_type, op) for item in items))
    try:
        print_literal(value)
    except ValueError as error:
        message = f"'{op.name}' cannot be written in NNEF: {error}" if op else str(error)
        place = op.location.place if op and op.location else None
        raise NnefError.of("flatten/literal", message, place) from None
    return ast.Literal_(0, value)
