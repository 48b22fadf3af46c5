"""Reads models for known shapes, and their graphs, from artifacts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nnefc.runtime.artifact.artifact_file import ArtifactFile
from nnefc.runtime.artifact.read_common import ArtifactReader, Facts, tensor_of
from nnefc.runtime.compile.compiled_program import CompiledProgram
from nnefc.support.fork_safe import Lazy
from nnefc.support.item_types import numpy_type

if TYPE_CHECKING:
    from nnefc.ir import Graph, Variable

Array = np.ndarray[Any, Any]


class Artifact(ArtifactReader):
    """A model for known shapes in a file."""

    is_dynamic: Literal[False] = False

    def __init__(self, file: ArtifactFile, *, verified: bool = False) -> None:
        """`verified`: the checksum of the weights is known to be right.

        Raises NnefError `artifact/damaged` for an invalid manifest.
        """
        super().__init__(file, verified=verified)
        self._whole_graph: Lazy[Graph] = Lazy()
        with self.reading():
            content = file.content
            self.inputs = tuple(map(tensor_of, content["inputs"]))
            self.outputs = tuple(map(tensor_of, content["outputs"]))
            self.states: list[Facts] = content["states"]

    # -- the model

    def compiled(self, number: int) -> CompiledProgram:
        """The compiled program of a target, in executable memory."""
        with self.reading():
            target = self.targets[number]
            return CompiledProgram(
                name=self.name,
                inputs=self.inputs,
                outputs=self.outputs,
                variables=self.variables(),
                states=tuple(target["states"]),
                code=self.code(target),
                plan=self.plan(target),
                work=target["work"],
                launches=partial(self.launches, target),
                constants=partial(self.constants, target),
                constant_bytes=target["constant_bytes"],
            )

    # -- variables, graph

    def variables(self) -> dict[str, Variable]:
        """The variables that the graph updates, by label in lower case, with initial values."""
        if not self.states:
            return {}
        from nnefc.ir import DType, TensorType, Variable

        with self.reading():
            return {
                str(facts["label"]).lower(): Variable(
                    str(facts["label"]),
                    TensorType(DType(facts["dtype"]), tuple(facts["shape"])),
                    self._value(facts, "initial"),
                )
                for facts in self.states
            }

    def current_values(self) -> dict[str, Array]:
        """The saved current values of the variables that the graph updates, by label."""
        with self.reading():
            return {str(facts["label"]): self._value(facts, "now") for facts in self.states}

    def with_states(self, values: Mapping[str, Array]) -> Iterator[bytes | memoryview]:
        """The bytes of a file with new current values, by label; of its options, those of
        lowering and the description of layers stay.
        """
        from nnefc.runtime.artifact.artifact_file_writer import with_changes

        with self.reading():
            pieces = {
                tuple(facts["now"]): np.ascontiguousarray(values[facts["label"]]).tobytes()
                for facts in self.states
            }
            content = {**self.file.content, "options": {**self.lowering_options, **self.notes}}
            yield from with_changes(self.file, pieces, content)

    def _value(self, facts: Facts, which: str) -> Array:
        items = self.head(facts[which])
        return items.view(numpy_type(str(facts["dtype"]))).reshape(tuple(facts["shape"]))

    @property
    def graph(self) -> Graph:
        """The graph before it was lowered for a processor."""
        return self._whole_graph.get(partial(self._graph, self.array))

    @property
    def structure(self) -> Graph:
        """The graph with zeros in place of the weights, which are not read."""
        return self._graph(self._zeros)

    def _graph(self, array: Callable[[int], Array]) -> Graph:
        """The graph; `array` returns an array by number."""
        from nnefc.ir import parse_graph

        with self.reading():
            text = self.head(self.file.content["ir"]).tobytes().decode()
            arrays = {str(facts["name"]): i for i, facts in enumerate(self._arrays)}
            large = _ArraysByDigest(
                array, {n[1:]: i for n, i in arrays.items() if n.startswith("@")}
            )
            graph = parse_graph(text, f"{self.file.name}: graph", data=large)
            for key, variable in self.variables().items():
                graph.variables[key].data = variable.data
            for name, number in arrays.items():
                if not name.startswith("@"):
                    graph.variables[name[1:].lower()].data = array(number)
            return graph

    def _zeros(self, number: int) -> Array:
        """Zeros of the type and shape of an array, broadcast from one item."""
        facts = self._arrays[number]
        return np.broadcast_to(np.zeros((), numpy_type(str(facts["dtype"]))), tuple(facts["shape"]))


class _ArraysByDigest(Mapping[str, Array]):
    """Arrays by digest, read on access."""

    def __init__(self, array: Callable[[int], Array], numbers: dict[str, int]) -> None:
        self._array = array
        self._numbers = numbers

    def __getitem__(self, digest: str) -> Array:
        return self._array(self._numbers[digest])

    def __iter__(self) -> Any:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)
