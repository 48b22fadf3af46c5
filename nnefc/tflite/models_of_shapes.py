"""The models that compute a subgraph for the shapes that its inputs have at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nnefc.formats.tflite.model import Tensor
from nnefc.tflite.compile_subgraph import ModelContent, Shapes

if TYPE_CHECKING:
    from nnefc.dynamic.dynamic_model import DynamicModel
    from nnefc.runtime.memory.caller_arrays import TensorSpec
    from nnefc.runtime.run.model_interface import Model

Axes = Mapping[int, frozenset[int]]
"""Dimensions by the position of an input."""
_MAX_MODELS: Final = 16
"""Models for known shapes that are kept."""


@dataclass(frozen=True, slots=True)
class ModelOfShapes:
    """A model, and its inputs and outputs for some shapes of inputs."""

    model: Model
    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]
    """Extents that only a call tells are -1."""


class ModelsOfShapes:
    """The models of a subgraph.

    Shapes of the file, and the first others, have a model of their own, which is fast and kept in
    the model cache.  Further shapes share a model with symbols: each only needs a plan.  If the
    file says which extents vary, the first others share it, too.
    """

    def __init__(self, content: ModelContent, subgraph: int, threads: int | None) -> None:
        self._content = content
        self._subgraph = subgraph
        self._threads = threads
        main = content.file.subgraphs[subgraph]
        self._inputs: list[Tensor] = [main.tensors[i] for i in main.inputs]
        self._own = tuple(tensor.shape for tensor in self._inputs)
        self._models: dict[tuple[tuple[int, ...], ...], Model] = {}
        self._axes: Axes = {}
        """The dimensions that are symbols of `_symbolic`."""
        self._symbolic: DynamicModel | None = None

    def find(self, shapes: Shapes) -> ModelOfShapes:
        """The model for shapes of the inputs, with its first states; raises NnefError."""
        key = tuple(shapes)
        model = self._models.get(key)
        if model is not None:
            model.reset()
            return ModelOfShapes(model, model.inputs, model.outputs)
        axes = self._changed(key)
        is_later = any(other != self._own for other in self._models)
        if axes is not None and (is_later or _contains(self._declared(), axes)):
            return self._with_symbols(key, axes)
        model = self._content.compiled(self._subgraph, key, self._threads)
        if len(self._models) == _MAX_MODELS:
            del self._models[next(iter(self._models))]
        self._models[key] = model
        return ModelOfShapes(model, model.inputs, model.outputs)

    def _changed(self, shapes: Shapes) -> Axes | None:
        """The dimensions whose extents are not those of the file; None without any, or if an input
        has another rank or no items.
        """
        pairs = [(tensor.shape, shape) for tensor, shape in zip(self._inputs, shapes, strict=True)]
        if any(len(own) != len(shape) or 0 in shape for own, shape in pairs):
            return None
        changed = {
            i: frozenset(axis for axis, (a, b) in enumerate(zip(*pair, strict=True)) if a != b)
            for i, pair in enumerate(pairs)
        }
        return {i: axes for i, axes in changed.items() if axes} or None

    def _declared(self) -> Axes:
        """The dimensions that vary by the shape signatures of the file."""
        return {
            i: frozenset(axis for axis, n in enumerate(tensor.signature) if n == -1)
            for i, tensor in enumerate(self._inputs)
            if len(tensor.signature) == len(tensor.shape)
        }

    def _with_symbols(self, shapes: Shapes, axes: Axes) -> ModelOfShapes:
        """The model with symbols for at least these dimensions."""
        if self._symbolic is None or not _contains(self._axes, axes):
            self._axes = _union(_union(self._declared(), self._axes), axes)
            signatures = [
                tuple(-1 if k in self._axes.get(i, ()) else n for k, n in enumerate(tensor.shape))
                for i, tensor in enumerate(self._inputs)
            ]
            self._symbolic = self._content.symbolic(self._subgraph, signatures, self._threads)
        self._symbolic.reset()
        return _for_shapes(self._symbolic, shapes)


def _contains(every: Axes, axes: Axes) -> bool:
    return all(each <= every.get(i, frozenset()) for i, each in axes.items())


def _union(a: Axes, b: Axes) -> Axes:
    return {i: a.get(i, frozenset()) | b.get(i, frozenset()) for i in {**a, **b}}


def _for_shapes(model: DynamicModel, shapes: Shapes) -> ModelOfShapes:
    """A model with symbols, and its inputs and outputs for some shapes; raises NnefError."""
    from nnefc.runtime.run.executable import session_layout

    plan = model.plan_for(shapes, {})
    layout = session_layout(plan)
    hidden = {each.output for each in (*layout.states, *layout.counts)}
    counted = {count.of: count.axis for count in layout.counts}
    outputs: list[TensorSpec] = []
    for i, spec in enumerate(plan.outputs):
        if i in hidden:
            continue
        shape = tuple(-1 if axis == counted.get(i) else n for axis, n in enumerate(spec.shape))
        outputs.append(spec._replace(shape=shape))
    return ModelOfShapes(model, plan.inputs[: len(shapes)], outputs)
