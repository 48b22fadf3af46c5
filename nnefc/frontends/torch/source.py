"""Programs of PyTorch as graph sources: one program, graphs for any input shapes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from nnefc.formats.source_files import SourceFiles
from nnefc.formats.tensor_file import StoredTensor
from nnefc.frontends.common.graph_names import output_names
from nnefc.frontends.common.graph_source import DeclaredOutput
from nnefc.frontends.common.graph_states import GraphStates
from nnefc.frontends.common.graph_variables import VariableNames
from nnefc.frontends.common.symbolic_source import SymbolicSource
from nnefc.frontends.common.values import Array
from nnefc.frontends.torch.build_graph import build_graph
from nnefc.frontends.torch.check_operators import check_operators
from nnefc.frontends.torch.program import InputKind, Program
from nnefc.frontends.torch.program_error import raise_errors
from nnefc.frontends.torch.program_text import read, written
from nnefc.frontends.torch.signature import signature_of, user_inputs
from nnefc.ir import Graph
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError, Place
from nnefc.support.limits import Limits
from nnefc.support.wording import wording

PROGRAM: Final = "program.json"
"""The path of the program among the texts of `SourceFiles`."""
SHAPES: Final = "shapes.json"
"""The path of the shapes of inputs that replace those of the program."""


def read_stored_torch(files: SourceFiles) -> TorchSource:
    """The source of a program that `TorchSource.files` returned; raises NnefError."""
    program = read(files.texts[PROGRAM], files.file)
    arrays = {label: each.array for label, each in files.tensors.items()}
    shapes = json.loads(files.texts[SHAPES])
    return TorchSource(program, arrays, files.limits, shapes, files.symbols)


class TorchSource(SymbolicSource):
    """A program and its arrays; implements `GraphSource`."""

    def __init__(
        self,
        program: Program,
        arrays: Mapping[str, Array],
        limits: Limits,
        shapes: Mapping[str, Sequence[int]] | None = None,
        given: Mapping[str, int] | None = None,
    ) -> None:
        """`arrays`: parameters, buffers and constants by label; `given`: values of symbols."""
        self.program = program
        self.limits = limits
        self._arrays = arrays
        self._shapes = {name: tuple(shape) for name, shape in (shapes or {}).items()}
        self._names = VariableNames()
        self._is_checked = False
        inputs = [each.label for each in user_inputs(program)]
        super().__init__(signature_of(program, self._shapes), inputs, given)
        self.name = program.name
        self.outputs = output_names(each.label for each in program.results)

    def with_symbols(self, values: Mapping[str, int]) -> TorchSource:
        """A source of the same program, in which exactly these symbols are `given`."""
        source = TorchSource(self.program, self._arrays, self.limits, self._shapes, values)
        source._is_checked = self._is_checked
        return source

    @property
    def growing_axes(self) -> Mapping[str, int]:
        """Empty: states have fixed shapes."""
        return {}

    @property
    def first_states(self) -> Mapping[str, Array]:
        """The values of the buffers that the program changes."""
        changed = [each for each in self.program.inputs if each.kind is InputKind.STATE]
        return {each.label: self._arrays[each.label] for each in changed}

    def read_weights(self) -> None:
        """Nothing: arrays are known."""

    def arrays(self) -> Iterable[Array]:
        """The parameters, buffers and constants, which all graphs share."""
        return self._arrays.values()

    def files(self) -> SourceFiles:
        """The program as text, the shapes that replace its own, and the arrays by label."""
        texts = {PROGRAM: written(self.program), SHAPES: json.dumps(self._shapes).encode()}
        tensors = {label: StoredTensor(array.shape, array) for label, array in self._arrays.items()}
        given, file = dict(self.given), self.program.file
        return SourceFiles(file, texts, tensors, None, given, self.limits, "torch")

    def declared_outputs(self) -> list[DeclaredOutput]:
        """Empty: the operators tell the types of results."""
        return []

    def check_nodes(self, shapes: Mapping[str, Sequence[int]], diagnostics: Diagnostics) -> None:
        """Raise NnefError with all operators that nnefc does not have; once is enough."""
        del shapes
        if not self._is_checked:
            raise_errors(diagnostics, check_operators(self.program, diagnostics))
            self._is_checked = True

    def description(self) -> dict[str, Any]:
        """The operators and the symbols."""
        return {
            "dialect": "torch",
            "operators": sorted({each.target for each in self.program.nodes()}),
            "symbols": self.signature.all_symbols,
        }

    def graph(
        self,
        shapes: Mapping[str, Sequence[int]],
        diagnostics: Diagnostics | None = None,
        *,
        states: Mapping[str, Sequence[int]] | None = None,
        lifted: Mapping[str, int] | None = None,
        in_place: bool = True,
        capacity: int | None = None,
    ) -> Graph:
        """The graph for input `shapes` by name; raises NnefError with all errors.

        `lifted`: values of the symbols, which may be symbolic (`nnefc.symbolic.integers`).
        """
        diagnostics = diagnostics or Diagnostics(limit=self.limits.errors)
        self.require_inputs(shapes)
        self.check_nodes(shapes, diagnostics)
        chosen, values = self.bound(shapes, lifted)
        self._require_shapes(chosen)
        return build_graph(
            self.program,
            self._arrays,
            chosen,
            values,
            self.outputs,
            self.limits,
            self._names,
            GraphStates(states or {}, capacity),
            diagnostics,
        )

    def _require_shapes(self, chosen: Mapping[str, Sequence[int]]) -> None:
        """Raise NnefError `input/symbol` for inputs whose shapes have symbols without values."""
        open_inputs = [each for each in user_inputs(self.program) if each.label not in chosen]
        if open_inputs:
            raise NnefError(
                Diagnostic(
                    "input/symbol",
                    f"the shape of input '{each.label}' is [{','.join(each.extents)}]: "
                    "some symbols have no values",
                    Place(self.program.file),
                    hint="give the shape or values of its symbols: "
                    + wording(
                        f"shapes={{'{each.label}': (...)}} or symbols={{...}}",
                        f"--shape {each.label}=EXTENTS or --symbol NAME=VALUE",
                    ),
                )
                for each in open_inputs
            )
