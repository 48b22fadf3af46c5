"""The symbols that a document declares, its inputs and assertions: its signature."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nnefc.frontends.common.signature import Assertion, Signature, SymbolicInput
from nnefc.frontends.common.values import OperatorError, datum_type
from nnefc.ir import DType
from nnefc.syntax import ast

EXTERNALS: Final = ("external", "tract_core_external")
"""Operators that introduce inputs."""

DECLARATIONS: Final = ("tract_symbol", "tract_pulse_streaming_symbol")
ASSERTION: Final = "tract_assert"


def signature_of(document: ast.Document) -> Signature:
    """The inputs, symbols and assertions of a document."""
    return Signature(
        tuple(_input(document, *each) for each in _shaped_externals(document)),
        tuple(declared(document)),
        tuple(
            Assertion(text, document.source.place(extension.at))
            for extension, text in assertions(document)
        ),
    )


def declarations(document: ast.Document) -> Iterator[tuple[ast.Extension, list[str]]]:
    """The extensions that declare symbols, and the names that each declares."""
    for extension in document.extensions:
        kind = extension.names[0].name
        if kind in DECLARATIONS:
            listed = [n.name for n in extension.names[1:]] or extension.text.split()
            yield extension, listed or (["S"] if kind != "tract_symbol" else [])


def declared(document: ast.Document) -> list[str]:
    """Symbols that the document declares."""
    return list(dict.fromkeys(name for _, names in declarations(document) for name in names))


def externals(document: ast.Document) -> Iterator[tuple[ast.Identifier, ast.Invocation]]:
    """The statements that introduce inputs, in the order of the body."""
    for statement in document.graph.body:
        call, target = statement.value, statement.target
        if not isinstance(target, ast.Identifier) or not isinstance(call, ast.Invocation):
            continue
        if call.name in EXTERNALS:
            yield target, call


def input_types(document: ast.Document) -> Iterator[tuple[SymbolicInput, str]]:
    """The inputs of the graph that have an array as their shape, with the names of their types."""
    for target, shape, name in _shaped_externals(document):
        yield _input(document, target, shape, name), name


def _shaped_externals(
    document: ast.Document,
) -> Iterator[tuple[ast.Identifier, ast.Array, str]]:
    """The inputs that have an array as their shape: target, shape and name of the item type."""
    for target, call in externals(document):
        arguments = dict(
            zip(("shape", "datum_type"), (a.value for a in call.arguments if a.name is None))
        )
        arguments |= {a.name: a.value for a in call.arguments if a.name is not None}
        shape, datum = arguments.get("shape"), arguments.get("datum_type")
        name = call.dtype or "scalar"
        if isinstance(datum, ast.Literal_) and isinstance(datum.value, str):
            name = datum.value
        if isinstance(shape, ast.Array):
            yield target, shape, name


def _input(
    document: ast.Document, target: ast.Identifier, shape: ast.Array, type_name: str
) -> SymbolicInput:
    try:
        dtype = datum_type(type_name).dtype
    except OperatorError:  # reported by `check_declarations`
        dtype = DType.FLOAT32
    return SymbolicInput(target.name, document.source.place(shape.at), shape.items, dtype)


def assertions(document: ast.Document) -> Iterator[tuple[ast.Extension, str]]:
    """The assertions of the document about its symbols, as text."""
    for extension in document.extensions:
        if extension.names[0].name == ASSERTION:
            text = extension.text or " ".join(n.name for n in extension.names[1:])
            yield extension, text
