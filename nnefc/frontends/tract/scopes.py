"""What evaluation goes through: bodies with their identifiers, and the model around them."""

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
    """The value of an expression that was wrong."""

    def __repr__(self) -> str:
        return "BROKEN"


BROKEN: Final = Broken()


@dataclass(slots=True)
class Scope:
    """The body that is being evaluated: its identifiers, and how it was reached."""

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    depth: int = 0
    chain: tuple[Step, ...] = ()


@dataclass(slots=True)
class EvaluationContext:
    """What evaluation has of the model around it.

    `fragments` of the document; `operators` of the registries it declares; `symbols` with
    values.  `external`, `variable` make inputs and weights.
    """

    source: ast.SourceText
    fragments: Mapping[str, ast.Fragment]
    operators: Mapping[str, Operator]
    symbols: Mapping[str, int]
    budget: Budget
    diagnostics: Diagnostics
    unbound: frozenset[str] = frozenset()
    """Symbols without a value."""
    quantized: Mapping[str, DatumType] = field(default_factory=dict[str, DatumType])
    """Item types of quantized results, by identifier."""
    unknown: dict[str, list[Place]] = field(default_factory=dict[str, list[Place]])
    """Operators that are in no registry that was declared, and where they are used."""
    model: Any = None
    """The `nnefc.frontends.tract.model.ModelContext`: inputs, weights and states of the graph."""
    target: str = ""
    """The identifier that is being assigned to in the body of the graph."""
