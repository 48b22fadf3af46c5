"""`GraphSource`, the interface of front ends to documents whose shapes are known at the call.

A front end returns a `GraphSource` for a document with symbolic input shapes or with states.
`nnefc.dynamic` asks it for a graph per combination of shapes and knows nothing else of the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from nnefc.ir import DType, Graph, TensorType
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError, Place
from nnefc.support.wording import wording

if TYPE_CHECKING:
    import numpy as np

    from nnefc.formats.source_files import SourceFiles
    from nnefc.support.value_inputs import ValueInput
    from nnefc.symbolic.linear_shapes import LinearShapes

TURNS_RULE: Final = "onnx/turns"
"""The rule of a loop whose number of turns must be known, and is not."""

Shapes = Mapping[str, Sequence[int]]
"""Shapes of inputs by name; keys of inputs whose values decide shapes (`ValueInput`)."""

DECLARED_RULE: Final = "onnx/declared"
"""The rule of a result whose declared type or shape is not the computed one."""


class SymbolicShape(NamedTuple):
    """The shape of an input as the document writes it: `1`, `S`, `S/2+1`."""

    name: str
    extents: tuple[str, ...]
    items: tuple[str, ...] | None = None
    """The items of an input whose values decide shapes: numbers or symbols."""

    def __str__(self) -> str:
        items = "" if self.items is None else f" = {', '.join(self.items)}"
        return f"{self.name}: [{','.join(self.extents)}]{items}"


class DeclaredOutput(NamedTuple):
    """A result as the document declares it."""

    name: str
    dtype: DType
    extents: tuple[str, ...]
    """Numbers, or `?`."""
    by: str = ""
    """The node that computes it."""

    def __str__(self) -> str:
        return f"output '{self.name}'" + (f" of {self.by}" if self.by else "")

    def mismatch(self, computed: Sequence[str | None], place: Place) -> Diagnostic | None:
        """A warning if ranks, or declared and computed numbers differ; None if they agree.

        `computed`: numbers, expressions of symbols, or None for extents that only a run knows; only
        numbers are compared, because the others may have any value.
        """
        pairs = zip(self.extents, computed)
        is_possible = all(a in (b, "?") or not (b or "").isdecimal() for a, b in pairs)
        if is_possible and len(self.extents) == len(computed):
            return None
        shape = ",".join(each or "?" for each in computed)
        declared = f"{self.dtype}[{','.join(self.extents)}]"
        message = f"{self} is declared as {declared}, but is {self.dtype}[{shape}]"
        hint = "correct the output of the model"
        return Diagnostic(DECLARED_RULE, message, place, "warning", hint=hint)


class GraphSource(Protocol):
    """A document that becomes a graph once the shapes of its inputs are known.

    All methods that take shapes raise NnefError for shapes that contradict the document.
    """

    name: str
    inputs: list[str]
    """Names of the inputs, in order."""
    outputs: list[str]
    """Names of the results, in order."""
    free: list[str]
    """Symbols in the shapes of inputs that have no value before a call."""
    given: Mapping[str, int]
    """Values of symbols that all graphs have, whatever their shapes."""

    @property
    def value_inputs(self) -> Mapping[str, ValueInput]:
        """The inputs whose values decide shapes, by name."""
        ...

    @property
    def growing_axes(self) -> Mapping[str, int]:
        """The axis along which a state grows, by name, for states of graphs built so far."""
        ...

    @property
    def first_states(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """The values before the first call, by name, of the states that begin with one."""
        ...

    def read_weights(self) -> None:
        """Read the weights that graphs will need; raises NnefError."""
        ...

    def arrays(self) -> Iterable[np.ndarray[Any, Any]]:
        """The weights, which all graphs share."""
        ...

    def shapes(self, values: Mapping[str, int] | None = None) -> list[SymbolicShape]:
        """The shapes of the inputs as written, with the given `values` of symbols."""
        ...

    def types(self, values: Mapping[str, int] | None = None) -> dict[str, TensorType]:
        """The types of the inputs by name; -1 stands for extents without a value."""
        ...

    def determined(self, values: Mapping[str, int] | None = None) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs that `values` of symbols determine, by name."""
        ...

    def declared_outputs(self) -> list[DeclaredOutput]:
        """The results as the document declares them, in order; empty if it does not."""
        ...

    def symbol_values(self, shapes: Shapes) -> dict[str, int]:
        """The values of symbols that these shapes of inputs determine, without the `given` ones."""
        ...

    def linear_shapes(self) -> LinearShapes | None:
        """The shapes of the inputs and the assertions as data; None if some are not linear."""
        ...

    def unbound(self, shapes: Shapes) -> list[str]:
        """The symbols that have no value with these shapes of inputs."""
        ...

    def with_symbols(self, values: Mapping[str, int]) -> GraphSource:
        """A source of the same document and weights, in which exactly these symbols are `given`."""
        ...

    def with_states(self, pairs: Mapping[str, str]) -> GraphSource:
        """A source in which inputs are states: the results of the call before.

        `pairs`: names of outputs by those of inputs.  Raises NnefError if the format has none.
        """
        ...

    def check(self, shapes: Shapes) -> None:
        """Raise NnefError with all errors of `shapes` and of the `given` symbols.

        These are names that the document does not have, and contradictions.
        """
        ...

    def check_nodes(self, shapes: Shapes, diagnostics: Diagnostics) -> None:
        """Raise NnefError with errors of operators that all inputs have.

        Some inputs have `shapes`.  Graphs report all other errors.  Warns of results that are
        declared with other extents.
        """
        ...

    def require_inputs(self, names: Iterable[str]) -> None:
        """Raise NnefError for a name that no input has."""
        ...

    def sample_shapes(
        self, shapes: Shapes
    ) -> Iterator[tuple[dict[str, tuple[int, ...]], dict[str, int]]]:
        """Possible shapes of all inputs, where some have `shapes`, with the values of the symbols.

        Yields at least one pair, or raises NnefError.
        """
        ...

    def graph(
        self,
        shapes: Shapes,
        diagnostics: Diagnostics | None = None,
        *,
        states: Shapes | None = None,
        lifted: Mapping[str, int] | None = None,
        in_place: bool = True,
        capacity: int | None = None,
    ) -> Graph:
        """The graph for these shapes of inputs; raises NnefError with all errors.

        Args:
            shapes: Shapes of inputs by name.
            diagnostics: Receives the warnings.
            states: Shapes of states after the previous call, by name; missing ones do not exist
                yet.  States are inputs after those of the document, and their new values are
                outputs after its results, in the order of the operators.
            lifted: Symbolic integers (`nnefc.symbolic`) to compute with instead of symbol values.
            in_place: Growing states have spare capacity, and the graph appends items in place.
            capacity: The extent of the memory of growing states along their axes; None: as many
                items as the call needs, rounded up.
        """
        ...

    def files(self) -> SourceFiles:
        """The texts and tensors of the document that graphs have read so far."""
        ...

    def description(self) -> dict[str, Any]:
        """Facts of the document for people, as plain data; `dialect` names the format."""
        ...


@dataclass(frozen=True, slots=True)
class SampleGraph:
    """A graph of a source with sample values for the symbols without a value."""

    graph: Graph
    shapes: Shapes
    """Shapes of the inputs by name."""
    values: Mapping[str, int]
    """The sample values by symbol."""

    def __str__(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.values.items())


MAX_SAMPLES = 17
"""Sample shapes to try at most."""


def sample_graph(source: GraphSource, shapes: Shapes, diagnostics: Diagnostics) -> SampleGraph:
    """The graph of a source, with sample values of the symbols that `shapes` does not determine.

    A document may be valid for few values only, such as those of its trace, so samples are tried
    until two fail with the same errors.  Where values of inputs decide shapes, most samples are
    impossible, so all are tried.  Raises the NnefError of the first sample.
    """
    free = source.unbound(shapes)
    if not free:
        return SampleGraph(source.graph(shapes, diagnostics), shapes, {})
    errors: list[NnefError] = []
    for number, (tried, values) in enumerate(source.sample_shapes(shapes)):
        if number == MAX_SAMPLES:
            break
        warnings = Diagnostics(strict=diagnostics.strict, limit=diagnostics.limit)
        try:
            graph = source.graph(tried, warnings)
        except NnefError as error:
            errors.append(error)
            is_hopeless = len(errors) == 2 and errors[0].errors == errors[1].errors
            if is_hopeless and not source.value_inputs:
                break
            continue
        for warning in warnings.warnings:
            diagnostics.add(warning)
        return SampleGraph(graph, tried, {name: values[name] for name in free})
    raise _with_hint(errors[0], source, shapes)


def _with_hint(error: NnefError, source: GraphSource, shapes: Shapes) -> NnefError:
    """The error of a sample, with a hint to give values that decide shapes."""
    missing = [name for name in source.value_inputs if name not in shapes]
    if not missing:
        return error
    hint = "give possible values of inputs: " + wording(
        f"shapes={{{', '.join(f'{name!r}: (1, 2)' for name in missing)}}}",
        " ".join(f"--shape {name}=1,2" for name in missing),
    )
    return NnefError([each._replace(hint=hint) for each in error.errors])
