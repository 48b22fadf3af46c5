"""`SymbolicSource`: the methods of a graph source that follow from its signature."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnefc.frontends.common.bind_symbols import (
    bind,
    evaluated_shapes,
    impossible_extents,
    linear_shapes,
)
from nnefc.frontends.common.extents import NoValue, extent_of
from nnefc.frontends.common.graph_source import DeclaredOutput, GraphSource, SymbolicShape
from nnefc.frontends.common.sample_shapes import sample_shapes, samples_of_values
from nnefc.frontends.common.signature import Signature, SymbolicInput
from nnefc.ir import TensorType
from nnefc.ops.tools.suggest import suggestion
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError
from nnefc.support.wording import wording
from nnefc.syntax import ast

if TYPE_CHECKING:
    import numpy as np

    from nnefc.support.value_inputs import ValueInput
    from nnefc.symbolic.linear_shapes import LinearShapes


class SymbolicSource:
    """The part of `GraphSource` that concerns shapes of inputs and values of symbols."""

    def __init__(
        self, signature: Signature, inputs: Sequence[str], given: Mapping[str, int] | None
    ) -> None:
        """`inputs`: all names in order; those of the signature are the ones with known ranks."""
        self.signature = signature
        self.inputs = list(inputs)
        self.given: Mapping[str, int] = dict(given or {})
        self.free = [name for name in signature.free_symbols if name not in self.given]
        self._bound: tuple[Mapping[str, Sequence[int]], dict[str, int]] | None = None
        """Input shapes of the last call, and the symbols bound by them."""

    def shapes(self, values: Mapping[str, int] | None = None) -> list[SymbolicShape]:
        """The declared input shapes, in which extents that `values` determine are numbers."""
        values = {**self.given, **(values or {})}
        declared: list[SymbolicShape] = []
        for each in self.signature.inputs:
            known = [_extent(extent, values) for extent in each.extents]
            pairs = zip(each.written, known, strict=True)
            extents = tuple(text if extent is None else str(extent) for text, extent in pairs)
            if each.values is not None:
                items = (
                    extents
                    if each.values.length is not None or not each.values.rank
                    else (f"{each.values.symbol}_0", "...")
                )
                declared.append(SymbolicShape(each.name, each.values.extents, items))
                continue
            declared.append(SymbolicShape(each.name, extents))
        return declared

    def types(self, values: Mapping[str, int] | None = None) -> dict[str, TensorType]:
        """Types of the inputs by name; extents that `values` do not determine are -1."""
        values = {**self.given, **(values or {})}
        types = {
            each.name: TensorType(
                each.dtype,
                tuple(-1 if n is None else n for n in self._array_shape(each, values)),
            )
            for each in self.signature.inputs
        }
        return {name: types[name] for name in self.inputs if name in types}

    def _array_shape(
        self, each: SymbolicInput, values: Mapping[str, int]
    ) -> tuple[int | None, ...]:
        """The shape of the array of an input; None for extents that `values` do not determine."""
        if each.values is not None:
            return (each.values.length,) * each.values.rank
        return tuple(_extent(extent, values) for extent in each.extents)

    @property
    def value_inputs(self) -> Mapping[str, ValueInput]:
        """The inputs whose values decide shapes, by name."""
        return self.signature.value_inputs

    def determined(self, values: Mapping[str, int] | None = None) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs that `values` of symbols determine, by name."""
        values = {**self.given, **(values or {})}
        found: dict[str, tuple[int, ...]] = {}
        for each in self.signature.inputs:
            if each.values is not None and each.values.rank and each.values.length is None:
                continue
            known = [_extent(extent, values) for extent in each.extents]
            shape = tuple(extent for extent in known if extent is not None)
            if len(shape) == len(known):
                found[each.name] = shape
        return found

    @property
    def first_states(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """Empty: a first call stores the states."""
        return {}

    def declared_outputs(self) -> list[DeclaredOutput]:
        """Empty: the document declares no results."""
        return []

    def check_nodes(self, shapes: Mapping[str, Sequence[int]], diagnostics: Diagnostics) -> None:
        """Nothing: graphs report the errors of a document."""

    def bound(
        self, shapes: Mapping[str, Sequence[int]], lifted: Mapping[str, int] | None
    ) -> tuple[dict[str, Sequence[int]], dict[str, int]]:
        """The shapes of all inputs, and the values of the symbols, for a graph.

        `shapes`: of some inputs; `lifted`: values that replace those that the shapes determine,
        which may be symbolic.  Raises NnefError for shapes that contradict the document.
        """
        values = bind(self.signature, shapes, self.given)
        if lifted is not None:
            values = {**self.given, **lifted}
            shapes = evaluated_shapes(self.signature, shapes, values)
        return {**self.determined(values), **shapes}, values

    def linear_shapes(self) -> LinearShapes | None:
        """The shapes of the inputs and the assertions as data; None if some are not linear."""
        return linear_shapes(self.signature, self.given)

    def unbound(self, shapes: Mapping[str, Sequence[int]]) -> list[str]:
        """Free symbols that these input shapes do not determine; raises NnefError."""
        values = bind(self.signature, shapes, self.given)
        lists = [each.symbol for name, each in self._open_lists() if name not in shapes]
        return [*(name for name in self.free if name not in values), *(f"{n}_0" for n in lists)]

    def _open_lists(self) -> Iterator[tuple[str, ValueInput]]:
        """The inputs whose values decide shapes, and that have any number of items."""
        for name, each in self.value_inputs.items():
            if each.rank and each.length is None:
                yield name, each

    def with_states(self, pairs: Mapping[str, str]) -> GraphSource:
        """Raise NnefError: documents of this format have operators that keep states."""
        raise NnefError.of("input/state", "states: only ONNX models have inputs that sessions keep")

    def check(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Raise NnefError with all errors of `shapes` and of the `given` symbols."""
        problems = [*self._unknown_inputs(shapes), *self._unknown_symbols()]
        if any(value < 0 for value in self._extent_symbols().values()):
            raise NnefError(problems)
        known = {name: shape for name, shape in shapes.items() if name in self.inputs}
        try:
            values = bind(self.signature, known, self.given)
        except NnefError as error:
            problems += error.errors
        else:
            problems += impossible_extents(self.signature, known, values)
        if problems:
            raise NnefError(problems)

    def _extent_symbols(self) -> dict[str, int]:
        """The given symbols that stand for extents."""
        return {n: x for n, x in self.given.items() if n not in self.signature.value_symbols}

    def require_inputs(self, names: Iterable[str]) -> None:
        """Raise NnefError for names that are not inputs."""
        if problems := list(self._unknown_inputs(names)):
            raise NnefError(problems)

    def _unknown_inputs(self, names: Iterable[str]) -> Iterator[Diagnostic]:
        for name in names:
            if name not in self.inputs:
                listed = ", ".join(self.inputs)
                message = f"the graph has no input '{name}'; it has {listed}"
                hint = suggestion(name, self.inputs)
                if name in self.signature.all_symbols:
                    declared = self.signature.inputs
                    written = (f"{each.name}: [{','.join(each.written)}]" for each in declared)
                    option = wording(f"symbols={{'{name}': VALUE}}", f"--symbol {name}=VALUE")
                    hint = f"'{name}' is a symbol: {', '.join(written)}; {option} gives its value"
                yield Diagnostic("input/shape", message, hint=hint)

    def _unknown_symbols(self) -> Iterator[Diagnostic]:
        known = self.signature.all_symbols
        for name, value in self.given.items():
            if self._extent_symbols().get(name, 0) < 0:
                message = f"symbol {name} = {value}: extents are at least 0"
                yield Diagnostic("input/symbol", message)
            if name not in known:
                listed = f"; it has {', '.join(known)}" if known else ": no extent is a symbol"
                message = f"symbol {name} = {value}: the document has no symbol '{name}'{listed}"
                hint = suggestion(name, known)
                if name in self.inputs:
                    option = wording("shapes=", "--shape")
                    hint = f"'{name}' is an input: {option} gives its shape"
                yield Diagnostic("input/symbol", message, hint=hint)

    def sample_shapes(
        self, shapes: Mapping[str, Sequence[int]]
    ) -> Iterator[tuple[dict[str, tuple[int, ...]], dict[str, int]]]:
        """Sample shapes of all inputs, given the `shapes` of some, with the values of the symbols.

        Yields at least one pair, or raises NnefError.
        """
        values = bind(self.signature, shapes, self.given)
        known = {name: tuple(shape) for name, shape in shapes.items()}
        first_error: NnefError | None = None
        is_possible = False
        samples = sample_shapes(self.signature.shaped, values)
        with_items = samples_of_values(self.value_inputs, samples, values)
        for sample, sample_values in with_items:
            chosen = {**sample, **known}
            try:  # the given extent of P + S determines P, once S has a sample value
                bound = bind(self.signature, chosen, self.given)
            except NnefError as error:
                first_error = first_error or error
                continue
            is_possible = True
            yield chosen, {**sample_values, **bound}
        if first_error is not None and not is_possible:
            raise first_error

    def symbol_values(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """Values of the symbols for input shapes, without the given ones; raises NnefError."""
        # consecutive calls of a decoding loop have equal shapes
        if self._bound is None or self._bound[0] != shapes:
            values = bind(self.signature, shapes, self.given)
            free = {name: value for name, value in values.items() if name not in self.given}
            self._bound = dict(shapes), free
        return dict(self._bound[1])


def _extent(expression: ast.Expression, values: Mapping[str, int]) -> int | None:
    """The value of an extent; None if `values` do not determine it."""
    try:
        return extent_of(expression, values)
    except NoValue:
        return None
