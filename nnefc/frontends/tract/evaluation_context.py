"""The context in which a document is evaluated, and scopes of its identifiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from nnefc.frontends.common.budget import Budget
from nnefc.frontends.common.values import DatumType
from nnefc.frontends.tract.registry import Operator
from nnefc.support.errors import Diagnostics, Place, Step
from nnefc.syntax import ast


class Broken:
    """The type of `BROKEN`, the value of an expression with an error."""

    def __repr__(self) -> str:
        return "BROKEN"


BROKEN: Final = Broken()


@dataclass(slots=True)
class Scope:
    """The identifiers of a body, its depth, and the invocations that lead to it."""

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    depth: int = 0
    chain: tuple[Step, ...] = ()


@dataclass(slots=True)
class EvaluationContext:
    """The context of the evaluation of one document.

    `fragments` are those of the document, `operators` those of its declared registries, `symbols`
    the values of the bound symbols.
    """

    source: ast.SourceText
    fragments: Mapping[str, ast.Fragment]
    operators: Mapping[str, Operator]
    symbols: Mapping[str, int]
    budget: Budget
    diagnostics: Diagnostics
    unbound: frozenset[str] = frozenset()
    """Symbols without a value."""
    quantized_types: Mapping[str, DatumType] = field(default_factory=dict[str, DatumType])
    """Types in graph.quant, by identifier."""
    unknown: dict[str, list[Place]] = field(default_factory=dict[str, list[Place]])
    """Unknown operators that evaluation met, with the places of their uses."""
    model: Any = None
    """The `ModelContext` (`nnefc.frontends.tract.model_context`): inputs, weights and states."""
    target: str = ""
    """The identifier that the current statement of the graph assigns."""
