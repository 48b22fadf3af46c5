"""The signature of a document: its inputs, whose extents may be expressions of symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from nnefc.frontends.common.extents import extent_text, names_of
from nnefc.ir import DType
from nnefc.support.errors import Diagnostic, Place
from nnefc.support.value_inputs import ValueInput
from nnefc.syntax import ast


@dataclass(frozen=True, slots=True)
class SymbolicInput:
    """A graph input with extents as expressions."""

    name: str
    place: Place
    extents: tuple[ast.Expression, ...]
    """The extents; the symbols of the items, for known values of a known number."""
    dtype: DType
    values: ValueInput | None = None
    """Its items, if its values decide shapes."""

    @property
    def written(self) -> tuple[str, ...]:
        """The extents as text: `1`, `2*S+1`."""
        return tuple(map(extent_text, self.extents))

    def mismatch(self, shape: Sequence[int], reason: str) -> Diagnostic:
        """The error `input/shape` of a `shape` that does not fit this input."""
        actual = f"[{','.join(map(str, shape))}]"
        declared = f"[{','.join(self.written)}]"
        message = f"input '{self.name}' is {declared}, but {actual} is given: {reason}"
        return Diagnostic("input/shape", message, self.place)


@dataclass(frozen=True, slots=True)
class Assertion:
    """A condition on symbols that a document states, as text."""

    text: str
    place: Place


@dataclass(frozen=True)
class Signature:
    """The inputs of a document, its symbols, and the conditions on them."""

    inputs: tuple[SymbolicInput, ...]
    declared: tuple[str, ...] = ()
    """The symbols that the document declares, whether or not an input has them."""
    assertions: tuple[Assertion, ...] = ()

    @cached_property
    def value_inputs(self) -> dict[str, ValueInput]:
        """The inputs whose values decide shapes, by name."""
        return {each.name: each.values for each in self.inputs if each.values is not None}

    @cached_property
    def shaped(self) -> Signature:
        """The signature of the other inputs."""
        shaped = tuple(each for each in self.inputs if each.values is None)
        return Signature(shaped, self.declared, self.assertions)

    @cached_property
    def value_symbols(self) -> frozenset[str]:
        """The symbols that stand for items; they may be negative."""
        return frozenset(
            name for each in self.inputs if each.values for name in names_of(each.extents)
        )

    @cached_property
    def free_symbols(self) -> list[str]:
        """The symbols in the shapes of inputs, in the order of their first use."""
        return list(dict.fromkeys(n for each in self.inputs for n in names_of(each.extents)))

    @cached_property
    def all_symbols(self) -> list[str]:
        """The declared symbols, then others in the shapes of inputs."""
        return list(dict.fromkeys([*self.declared, *self.free_symbols]))
