"""The registry of custom operations: Python functions that build them from standard operations.

    @nnefc.operation("fragment swish( x: tensor<scalar>, beta: scalar ) -> ( y: tensor<scalar> )")
    def swish(emit, op):
        x, beta = op.inputs[0], op.attributes["beta"]
        return emit("mul", x, emit("sigmoid", emit("mul", x, beta)))

Documents declare custom operations as fragments without a body.  A package registers its operations
when it is imported.  Entry points of the group `nnefc.operations` name modules that do so; they are
imported when a document declares a fragment without a body.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from nnefc.ir import Graph, TensorType
from nnefc.ir.graph import walk
from nnefc.ops.core.spec import Call, Expand, InferRule, NotKnown, OpSpec
from nnefc.ops.core.traits import COMPOUND
from nnefc.ops.tools.table import declared, operations
from nnefc.support.errors import Diagnostic, NnefError, Place
from nnefc.syntax import ast

ENTRY_POINTS = "nnefc.operations"

_registered: dict[str, OpSpec] = {}


def operation(
    signature: str, *, shape: InferRule | None = None, replace: bool = False
) -> Callable[[Expand], Expand]:
    """Register a custom operation.

    Args:
        signature: The declaration in NNEF: `fragment name( ... ) -> ( ... )`.  A document that
            uses the operation declares the same parameters and results (defaults may differ).
        shape: `shape(call)` checks the arguments and returns the types of the results (see
            `nnefc.ops.core.spec.Call`).  None: results have the type of the first operand.
        replace: Whether to replace an earlier registration of the name.

    Returns:
        A decorator of `expand(emit, op)`, which returns the results: `emit("add", x, y)` inserts
        an operation, `op.inputs` are the tensors, `op.attributes` the attributes.

    Raises:
        NnefError: `custom/...` if the signature is wrong or the name is taken; from the decorator,
            if the function does not take `emit` and `op`.
    """
    from nnefc.syntax.parser import parse_declaration

    declaration = parse_declaration(signature)
    name = declaration.name
    if name in declared():
        raise NnefError.of("custom/name", f"'{name}' is an operation of nnefc")
    if name in _registered and not replace:
        raise NnefError.of(
            "custom/name", f"'{name}' is registered already", hint="give replace=True"
        )

    def register(expand: Expand) -> Expand:
        _require_two_parameters(name, expand)
        summary = (inspect.getdoc(expand) or f"Custom operation {name}").partition("\n")[0]
        _registered[name] = OpSpec(
            name=name,
            signature=signature,
            section="custom",
            summary=summary.rstrip(".") + ".",
            infer=shape or _like_first(declaration),
            reference=None,
            traits=COMPOUND,
            expand=expand,
        )
        return expand

    return register


def _require_two_parameters(name: str, expand: Expand) -> None:
    """Raise NnefError `custom/function` unless `expand` can be called with two arguments."""
    try:
        signature = inspect.signature(expand)
    except (TypeError, ValueError):  # not every callable has a signature
        return
    try:
        signature.bind(None, None)
    except TypeError as error:
        raise NnefError.of(
            "custom/function",
            f"the function for '{name}' cannot be called with emit and op: {error}",
            hint="declare it as f(emit, op)",
        ) from None


def unregister(name: str) -> None:
    """Remove a custom operation from the registry."""
    _registered.pop(name, None)


def spec(name: str) -> OpSpec | None:
    """The custom operation called `name`; None if it is not registered."""
    return _registered.get(name)


def registered() -> dict[str, OpSpec]:
    """All custom operations by name, including those of installed packages.

    Raises NnefError `custom/entry-point` if such a package fails to import.
    """
    load_entry_points()
    return dict(_registered)


def require_known(graph: Graph) -> None:
    """Raise NnefError `custom/unregistered` for operations of `graph` that are not registered."""
    missing: dict[str, Diagnostic] = {}
    for op in walk(graph):
        if op.name in operations() or op.name in _registered:
            continue
        place = op.location.place if op.location else None
        chain = op.location.chain if op.location else ()
        missing.setdefault(op.name, unregistered(op.name, place, chain))
    if missing:
        raise NnefError(missing.values())


def unregistered(name: str, place: Place | None, chain: Any = ()) -> Diagnostic:
    """The error for an operation that is declared without a body and not registered."""
    return Diagnostic(
        "custom/unregistered",
        f"'{name}' is declared without a body and not registered",
        place,
        chain=chain,
        hint="register it with @nnefc.operation(...), or give the fragment a body",
    )


def _like_first(declaration: ast.Fragment) -> InferRule:
    """A shape rule: all results have the type of the first operand."""
    first = next((p.name for p in declaration.parameters if _is_tensor(p)), None)
    count = len(declaration.results)

    def infer(call: Call) -> list[TensorType]:
        if first is None:
            raise NotKnown
        return [TensorType(call.dtype(first), call.shape(first))] * count

    return infer


def _is_tensor(parameter: ast.Parameter) -> bool:
    return isinstance(parameter.type, ast.TensorSpec)


@cache
def load_entry_points() -> None:
    """Import the modules that entry points name, once.

    Raises NnefError `custom/entry-point` if one fails to import.
    """
    from importlib.metadata import entry_points

    for entry in entry_points(group=ENTRY_POINTS):
        try:
            entry.load()
        except Exception as error:  # importing foreign code may raise anything
            raise NnefError.of(
                "custom/entry-point",
                f"the package of entry point '{entry.name}' ({entry.value}) fails to import: "
                f"{type(error).__name__}: {error}",
            ) from error
