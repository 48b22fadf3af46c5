"""Declarations of operations, and their checks (chapter 3.3.2, Declarations)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from nnefc.frontends.nnef.types import (
    ANY,
    INTEGER,
    LOGICAL,
    NOTHING,
    OPAQUE,
    SCALAR,
    STRING,
    Array,
    Tensor,
    Tuple,
    Type,
    castable,
    common,
    from_spec,
    has_tensor,
    instantiate,
    is_generic,
    mixes_tensors_and_attributes,
)
from nnefc.ops.core.interface import value_of
from nnefc.ops.core.spec import OpSpec
from nnefc.ops.tools import table
from nnefc.support.errors import Diagnostics
from nnefc.syntax import ast

ONLY_IN_GRAPH = frozenset({"external", "variable", "update"})
"""Operations that a fragment must not use (Identifier Usage)."""

LITERALS: Mapping[type, Type] = {bool: LOGICAL, int: INTEGER, float: SCALAR, str: STRING}
"""Types of literals."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A formal parameter; `default` is meaningful if `optional`."""

    name: str
    type: Type
    is_tensor: bool
    optional: bool = False
    default: Any = None
    default_type: Type = ANY


class Declaration:
    """The declaration that invocations are checked against.

    `spec` is set for operations that nnefc knows, `fragment.body` for those that the document
    defines.  An operation with neither is a custom operation that is not registered.
    """

    def __init__(self, fragment: ast.Fragment, spec: OpSpec | None = None) -> None:
        self.name = fragment.name
        self.fragment = fragment
        self.spec = spec
        self.generic = fragment.generic
        self.default_dtype = fragment.default_dtype
        self.parameters = tuple(_parameter(p) for p in fragment.parameters)
        self.index = {p.name: i for i, p in reversed(list(enumerate(self.parameters)))}
        self.results = tuple((r.name, from_spec(r.type)) for r in fragment.results)
        types = tuple(t for _, t in self.results)
        self.result_type: Type = types[0] if len(types) == 1 else Tuple(types)
        self.malformed = False
        """Whether the declaration itself is wrong; its invocations are not checked then."""
        self.broken = False
        """Whether the body is wrong; it is not expanded then."""

    @cached_property
    def _types(self) -> dict[str, tuple[tuple[Type, ...], Type]]:
        return {}

    def types(self, dtype: str) -> tuple[tuple[Type, ...], Type]:
        """Types of the parameters and of the result, with `dtype` in place of `?`."""
        types = self._types.get(dtype)
        if types is None:
            parameters = tuple(instantiate(p.type, dtype) for p in self.parameters)
            types = parameters, instantiate(self.result_type, dtype)
            self._types[dtype] = types
        return types

    def result_types(self, dtype: str) -> dict[str, Type]:
        """Types of the results by name, with `dtype` in place of `?`."""
        return {name: instantiate(type_, dtype) for name, type_ in self.results}


def _parameter(parameter: ast.Parameter) -> Parameter:
    type_ = from_spec(parameter.type)
    if parameter.default is None:
        return Parameter(parameter.name, type_, has_tensor(type_))
    default_type = literal_type(parameter.default) or ANY
    default = value_of(parameter.default)
    return Parameter(parameter.name, type_, has_tensor(type_), True, default, default_type)


def literal_type(expression: ast.Expression) -> Type | None:
    """Type of an expression of literals; None if its items have no common type."""
    match expression:
        case ast.Literal_(value=value):
            return LITERALS[type(value)]
        case ast.Unary(operator="-", operand=operand):
            return literal_type(operand)
        case ast.Tuple(items=items):
            types = [literal_type(item) for item in items]
            known = tuple(t for t in types if t is not None)
            return Tuple(known) if len(known) == len(types) else None
        case ast.Array(items=items):
            item: Type | None = NOTHING
            for type_ in map(literal_type, items):
                item = None if item is None or type_ is None else common(item, type_)
            return None if item is None else Array(item)
        case _:
            return None


@cache
def standard(name: str) -> Declaration | None:
    """The declaration of an operation that every document may use."""
    spec = table.standard().get(name)
    if spec is None:
        return None
    return Declaration(spec.declaration, spec)


class DeclaredOperations:
    """All operations that a document may invoke."""

    def __init__(self, declared: Mapping[str, Declaration]) -> None:
        self.declared = declared
        self._beyond: set[str] = set()

    def find(self, name: str) -> Declaration | None:
        return self.declared.get(name) or standard(name)

    def standard(self, name: str) -> Declaration:
        """The standard operation of this name, which must exist."""
        declaration = standard(name)
        assert declaration is not None, name
        return declaration

    @property
    def names(self) -> list[str]:
        return [*self.declared, *table.standard()]

    def note_use(
        self, callee: Declaration, node: ast.Invocation, source: ast.SourceText, report: Diagnostics
    ) -> None:
        """Warn, once each, of operations and parameters that are not part of NNEF 1.0.2."""
        if callee.spec is None or callee.name in self.declared:
            return
        name = callee.name
        if callee.spec.section == "beyond":
            what = f"operation '{name}'"
        else:
            extra = [a.name for a in node.arguments if a.name in callee.spec.beyond]
            if not extra:
                return
            what = f"parameter '{extra[0]}' of '{name}'"
        if what not in self._beyond:
            self._beyond.add(what)
            place = source.place(node.at)
            report.warn("invocation/beyond-1.0.2", f"{what} is not part of NNEF 1.0.2", place)


def declare(
    fragments: Sequence[ast.Fragment], source: ast.SourceText, diagnostics: Diagnostics
) -> DeclaredOperations:
    """Check and collect the declarations of a document; the first one of a name is valid."""
    declared: dict[str, Declaration] = {}
    for fragment in fragments:
        known = table.standard().get(fragment.name)
        place = source.place(fragment.at)
        if fragment.name in declared:
            first = source.place(declared[fragment.name].fragment.at)
            diagnostics.error(
                "definition/duplicate",
                f"fragment '{fragment.name}' is declared already, on line {first.line}",
                place,
            )
            continue
        if known is not None and known.section != "beyond":
            diagnostics.error(
                "definition/standard",
                f"'{fragment.name}' is a standard operation and must not be declared again",
                place,
                hint="give the fragment another name",
            )
            declared[fragment.name] = Declaration(fragment)
            declared[fragment.name].malformed = True
            continue
        if fragment.body is None and known is None and fragment.name in table.declared():
            diagnostics.error(
                "definition/standard",
                f"'{fragment.name}' is the name of an operation of nnefc; a fragment without a "
                "body must have another one",
                place,
                hint="give the fragment another name",
            )
        declaration = Declaration(fragment)
        before = len(diagnostics.errors)
        _check(declaration, source, diagnostics)
        declaration.malformed = len(diagnostics.errors) > before
        if fragment.body is None and known is not None and known.section == "beyond":
            ours = Declaration(known.declaration, known)
            if same_signature(ours, declaration):
                declaration.spec = known
        declared[fragment.name] = declaration
    return DeclaredOperations(declared)


def same_signature(left: Declaration, right: Declaration) -> bool:
    """Whether two declarations agree in names, types and genericity (defaults may differ)."""

    def signature(declaration: Declaration) -> object:
        parameters = tuple((p.name, p.type) for p in declaration.parameters)
        return declaration.generic, parameters, tuple(t for _, t in declaration.results)

    return signature(left) == signature(right)


def _check(declaration: Declaration, source: ast.SourceText, diagnostics: Diagnostics) -> None:
    fragment = declaration.fragment
    seen: dict[str, str] = {}
    for kind, formal in [
        *(("parameter", p) for p in fragment.parameters),
        *(("result", r) for r in fragment.results),
    ]:
        if formal.name in seen:
            diagnostics.error(
                "definition/duplicate",
                f"{kind} '{formal.name}' of fragment '{fragment.name}' has the name of "
                f"another {seen[formal.name]}",
                source.place(formal.at),
            )
        seen.setdefault(formal.name, kind)

    attribute = ""
    for parameter, formal in zip(declaration.parameters, fragment.parameters):
        place = source.place(formal.at)
        if mixes_tensors_and_attributes(parameter.type):
            diagnostics.error(
                "definition/mixed-tuple",
                f"parameter '{formal.name}': type {parameter.type} mixes tensors and attributes",
                place,
            )
        if not parameter.is_tensor:
            attribute = attribute or formal.name
        elif attribute:
            diagnostics.error(
                "definition/order",
                f"tensor parameter '{formal.name}' comes after attribute '{attribute}'",
                place,
                hint="declare tensor parameters first",
            )
        if parameter.optional:
            _check_default(parameter, formal, source, diagnostics)

    for (name, type_), formal in zip(declaration.results, fragment.results):
        if not _only_tensors(type_):
            diagnostics.error(
                "definition/result",
                f"result '{name}' of fragment '{fragment.name}' has type {type_}; "
                "results must be tensors",
                source.place(formal.at),
            )
        elif _has_unbound(type_):
            diagnostics.error(
                "definition/result",
                f"result '{name}' of fragment '{fragment.name}' is an unbound tensor; "
                "only parameters may be",
                source.place(formal.at),
                hint="write the data-type, as in tensor<scalar>",
            )
    _check_generic(declaration, source, diagnostics)


def _check_default(
    parameter: Parameter, formal: ast.Parameter, source: ast.SourceText, diagnostics: Diagnostics
) -> None:
    assert formal.default is not None
    type_ = literal_type(formal.default)
    if type_ is None or not castable(type_, parameter.type):
        actual = "items of different types" if type_ is None else f"type {type_}"
        hint = "write a decimal point: 1.0" if type_ == INTEGER else ""
        diagnostics.error(
            "definition/default",
            f"default value of parameter '{formal.name}' has {actual}; declared is "
            f"{parameter.type}",
            source.place(formal.default.at),
            hint=hint if castable(SCALAR, parameter.type) else "",
        )


def _check_generic(
    declaration: Declaration, source: ast.SourceText, diagnostics: Diagnostics
) -> None:
    fragment = declaration.fragment
    types = [p.type for p in declaration.parameters] + [t for _, t in declaration.results]
    used = any(map(is_generic, types))
    place = source.place(fragment.at)
    if used and not fragment.generic:
        diagnostics.error(
            "definition/generic",
            f"fragment '{fragment.name}' uses the generic type ? but does not declare it",
            place,
            hint=f"write fragment {fragment.name}<?>( ...",
        )
    if fragment.generic and not used:
        diagnostics.error(
            "definition/generic",
            f"fragment '{fragment.name}' is generic but none of its parameters and results is",
            place,
            hint="use ? in a type, or leave out <?>",
        )
    if fragment.default_dtype == OPAQUE:
        diagnostics.error(
            "definition/generic",
            f"fragment '{fragment.name}': the default of ? must be a data-type, not ?",
            place,
        )


def _only_tensors(type_: Type) -> bool:
    match type_:
        case Tensor():
            return True
        case Array(item):
            return _only_tensors(item)
        case Tuple(items):
            return all(map(_only_tensors, items))
        case _:
            return False


def _has_unbound(type_: Type) -> bool:
    match type_:
        case Tensor(dtype):
            return dtype is None
        case Array(item):
            return _has_unbound(item)
        case Tuple(items):
            return any(map(_has_unbound, items))
        case _:
            return False
