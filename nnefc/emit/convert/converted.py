"""What a conversion returns: the facts of the written model that users see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from nnefc.emit.convert.extents import Extents, NoText
from nnefc.ir import Graph, TensorType, Value
from nnefc.symbolic.integers import is_symbolic

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


class Codes(NamedTuple):
    """Reals (code - zero_point) scale that stand for codes."""

    scale: float
    zero_point: int

    def reals(self, codes: Array) -> Array:
        """The reals of codes, in float32."""
        import numpy as np

        return (codes.astype(np.float32) - np.float32(self.zero_point)) * np.float32(self.scale)


class End(NamedTuple):
    """An input or a result of the model, and its name in the written file."""

    name: str
    written: str
    type: TensorType
    extents: Sequence[str] = ()
    """The extents as the document writes them, if some depend on symbols."""
    codes: Codes | None = None
    """How reals in the file stand for the codes that the model has; None if both have the same."""


@dataclass(frozen=True, slots=True)
class Converted:
    """A model in another format, before it is written."""

    dialect: str
    """The format: `NNEF 1.0.2`, `NNEF`, `tract` or `ONNX`."""
    operations: Mapping[str, int]
    """The number of operations by name in the written model, without inputs and data."""
    inputs: Sequence[End]
    results: Sequence[End]
    weight_bytes: int
    beyond: Mapping[str, int] = field(default_factory=dict[str, int])
    """Operations and attributes that NNEF 1.0.2 lacks, with their number."""
    because: Sequence[str] = ()
    """The reasons why the document is in tract's dialect."""

    @property
    def renamed(self) -> dict[str, str]:
        """The names in the file by the names in the model, where they differ."""
        ends = (*self.inputs, *self.results)
        return {end.name: end.written for end in ends if end.name != end.written}


def ends_of(
    graph: Graph,
    inputs: Sequence[str],
    results: Sequence[str],
    extents: Extents | None = None,
) -> tuple[list[End], list[End]]:
    """The inputs and the results of a graph, with these names in the file.

    Results that count the items of others are left out.
    """
    counts = {count.output for count in graph.counts}
    outputs = [
        (name, value)
        for i, (name, value) in enumerate(zip(graph.output_names, graph.outputs, strict=True))
        if i not in counts
    ]
    given = [(value.name, value) for value in graph.inputs]
    return _ends(given, inputs, extents), _ends(outputs, results, extents)


def _ends(
    values: Sequence[tuple[str, Value]], written: Sequence[str], extents: Extents | None
) -> list[End]:
    ends: list[End] = []
    for (name, value), other in zip(values, written, strict=True):
        dims = value.type.dims
        texts: list[str] = []
        if extents is not None and is_symbolic(dims):
            texts = [_text(extents, extent) for extent in dims]
        ends.append(End(name, other, value.type, texts))
    return ends


def _text(extents: Extents, extent: int) -> str:
    try:
        return extents.text(extent)
    except NoText:
        return "?"
