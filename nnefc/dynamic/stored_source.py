"""`StoredSource`: the document of a model from an artifact, which is parsed only where needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnefc.runtime.memory.caller_arrays import TensorSpec
from nnefc.support import value_inputs
from nnefc.support.fork_safe import Lazy
from nnefc.support.item_types import numpy_type
from nnefc.symbolic import linear_shapes

if TYPE_CHECKING:
    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.runtime.artifact.read_dynamic import DynamicArtifact

Shapes = Mapping[str, Sequence[int]]


class StoredSource:
    """The `Source` of a plan cache in an artifact.

    Calls with shapes that fit need the stored facts alone; everything else comes from the parsed
    document, `full`.
    """

    def __init__(
        self, artifact: DynamicArtifact, read: Callable[[], GraphSource] | None = None
    ) -> None:
        """`read`: reads the document, if the artifact does not have it.

        Raises NnefError `artifact/damaged` for wrong facts.
        """
        self._artifact = artifact
        self._read = read
        self._full: Lazy[GraphSource] = Lazy()
        with artifact.reading():
            facts: Any = artifact.facts["source"]
            self.name = artifact.name
            self.specs = tuple(map(_spec, facts["inputs"]))
            """The inputs; -1 for symbolic extents."""
            self.inputs = [spec.name for spec in self.specs]
            results = facts["results"]
            self.results = None if results is None else tuple(map(_spec, results))
            """The results; -1 for extents that vary.  None if they are not stored."""
            names = facts["outputs"] if self.results is None else [x.name for x in self.results]
            self.outputs = list(map(str, names))
            self.free = list(map(str, facts["free"]))
            self.fixed = {str(name): tuple(shape) for name, shape in facts["fixed"]}
            """The shapes of inputs that the model was compiled with."""
            linear = facts["linear"]
            self._linear = None if linear is None else linear_shapes.from_data(linear)
            self.value_inputs = value_inputs.from_data(facts.get("values", ()))
            """The inputs whose values decide shapes, by name."""
            self._growing = {str(name): int(axis) for name, axis in facts["growing"]}

    @property
    def growing_axes(self) -> Mapping[str, int]:
        return self._growing

    @property
    def full(self) -> GraphSource:
        """The source of the parsed document; raises NnefError."""
        return self._full.get(self._parse)

    def _parse(self) -> GraphSource:
        if self._read is not None:
            return self._read()
        from nnefc.dynamic.artifact_content import source_in

        return source_in(self._artifact)

    def symbol_values(self, shapes: Shapes) -> dict[str, int]:
        """The values of symbols that these shapes of inputs determine; raises NnefError."""
        values = None if self._linear is None else self._linear.solve(shapes)
        return self.full.symbol_values(shapes) if values is None else values


def _spec(facts: Any) -> TensorSpec:
    name, dtype, shape = facts
    return TensorSpec(str(name), tuple(map(int, shape)), numpy_type(str(dtype)))
