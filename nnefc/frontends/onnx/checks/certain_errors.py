"""Errors of a model that no extents of its inputs avoid.

A model with symbols has a graph for the shapes of a call only.  Its nodes are evaluated for sample
extents when it is opened.  Without an error, that is all.  Otherwise a trace tells which errors are
certain: its extents are symbolic, and a node whose error depends on them compares them first.  An
error is certain if its node made no comparison before, for several samples, with the same text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from nnefc.support.errors import Diagnostic, NnefError
from nnefc.symbolic.guard_watch import GuardWatch
from nnefc.symbolic.integers import Trace

if TYPE_CHECKING:
    from nnefc.frontends.common.symbolic_source import SymbolicSource

Shapes = Mapping[str, Sequence[int]]
Errors = Callable[[Shapes, Mapping[str, Any] | None, "CertainErrors | None"], Sequence[Diagnostic]]
"""`errors(shapes, lifted, certain)`: the errors of a model; see `OnnxSource.graph`."""

SAMPLES: Final = (0, 1, 2, 3, 4, 9, 15)
"""Numbers of the sample shapes that are tried: small extents, and two large ones."""
_STATIC: Final = frozenset({"onnx/name", "onnx/arguments", "onnx/type", "onnx/operator"})
"""Rules of errors of the text of a node: they hold as well where the node may not run."""
_OF_MODELS: Final = frozenset({"onnx/name", "onnx/declared", "onnx/tensor", "onnx/external"})
"""Rules of errors beside those of nodes that never depend on extents."""
_SYMBOLIC: Final = re.compile(r"(-?\d+):([sv]\d+)")
"""A symbolic integer in a message: its value for the sample, and its name in the trace."""


class CertainErrors:
    """Notes which errors of nodes are certain while a trace evaluates them."""

    def __init__(self, trace: Trace) -> None:
        self.steps = GuardWatch(trace)
        self._noted: set[Diagnostic] = set()

    def note(self, error: Diagnostic) -> None:
        """Note an error of the current node."""
        if not self.steps.has_asked(may_run=error.rule not in _STATIC):
            self._noted.add(error)

    def has(self, error: Diagnostic) -> bool:
        """Whether an error is certain."""
        return error in self._noted or error.rule in _OF_MODELS


def certain_errors(source: SymbolicSource, shapes: Shapes, errors: Errors) -> list[Diagnostic]:
    """The errors of a model for all inputs, of which some have `shapes`."""
    certain: list[Diagnostic] = []
    try:
        known = source.symbol_values(shapes)
        samples = list(islice(source.sample_shapes(shapes), max(SAMPLES) + 1))
    except NnefError:  # of shapes and symbols, which calls report
        return []
    for number in SAMPLES:
        if number >= len(samples):
            break
        sample, _ = samples[number]
        plain = {(each.rule, each.message) for each in errors(sample, None, None)}
        if not plain:
            return []
        found = _traced(source.symbol_values(sample), known, plain, sample, errors)
        certain = [each for each in found if not number or each in certain]
        if not certain:
            return []
    return certain


def _traced(
    values: Mapping[str, int],
    known: Mapping[str, int],
    plain: set[tuple[str, str]],
    sample: Shapes,
    errors: Errors,
) -> list[Diagnostic]:
    """The certain errors of a trace that are among the `plain` ones, with names of symbols.

    `values`: those of the symbols for the sample; `known`: those that all samples have.
    """
    trace = Trace()
    names = [name for name in values if name not in known]
    symbols = {name: trace.symbol(values[name]) for name in names}
    certain = CertainErrors(trace)
    numbered = {f"s{i}": name for i, name in enumerate(names)}

    def named(text: str) -> str:
        return _SYMBOLIC.sub(lambda match: numbered.get(match[2], "?"), text)

    return [
        each._replace(message=named(each.message), hint=named(each.hint))
        for each in errors(sample, {**values, **symbols}, certain)
        if certain.has(each) and (each.rule, _SYMBOLIC.sub(r"\1", each.message)) in plain
    ]
