"""A piece of a graph as a model of nnefc: tensors and numbers in, a list of these out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnefc.frontends.torch.program import OutputKind
from nnefc.frontends.torch.signature import user_inputs
from nnefc.pytorch.compile_module import compile_program
from nnefc.pytorch.read_fx import read_graph
from nnefc.pytorch.results import Results, argument_of, tensor_of
from nnefc.runtime.run.executable import Executable, run_in_place, session_layout

if TYPE_CHECKING:
    import torch

    from nnefc.options.compile_config import CompileConfig
    from nnefc.pytorch.pieces import Piece


class NativePiece:
    """A piece as a model.

    Results that replace items of an input, which then has the new value, are written into its
    memory: a key-value cache is not copied.
    """

    def __init__(
        self,
        piece: Piece,
        weights: Mapping[str, torch.Tensor],
        config: CompileConfig,
        updates: Mapping[str, str],
    ) -> None:
        """`weights`: the tensors of inputs that are constants.

        `updates`: the inputs whose new values are results, by the names of these.
        """
        program, arrays = read_graph(piece.module, weights)
        labels = [each.label for each in user_inputs(program)]
        self._taken = [piece.inputs.index(label) for label in labels]
        self._results = Results(program)
        self._model: Any = compile_program(program, arrays, config)
        pairs = {i: updates[name] for i, name in enumerate(piece.outputs) if name in updates}
        are_tensors = all(each.kind is OutputKind.TENSOR for each in program.outputs)
        self._kept = {i: labels.index(x) for i, x in pairs.items() if are_tensors and x in labels}
        """The positions of the model's inputs by those of the results in their memory."""

    def __call__(self, *args: Any) -> Sequence[Any]:
        given = [args[i] for i in self._taken]
        arrays = list(map(argument_of, given))
        found = self._run_in_place(given, arrays) if self._kept else None
        return self._results.of(self._model(*arrays)) if found is None else found

    def _run_in_place(self, given: Sequence[Any], arrays: Sequence[Any]) -> list[Any] | None:
        """The results; None if some cannot be written into the memory of inputs."""
        from torch.autograd.graph import increment_version

        model = self._model
        if any(arrays[i].ctypes.data != given[i].data_ptr() for i in self._kept.values()):
            return None
        is_static = isinstance(model, Executable)
        plan = model if is_static else model.plan_for(model.shapes_of(arrays), {})
        if session_layout(plan).states or session_layout(plan).counts:
            return None
        found = run_in_place(plan, arrays, self._kept)
        if found is None:
            return None
        changed = [given[i] for i in self._kept.values() if not given[i].is_inference()]
        if changed:
            increment_version(changed)
        return [
            given[self._kept[i]] if i in self._kept else tensor_of(array)
            for i, array in enumerate(found)
        ]
