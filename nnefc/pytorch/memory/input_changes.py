"""The changes of inputs at the end of a graph: `copy_(input, new value)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from nnefc.pytorch.pieces import Piece

if TYPE_CHECKING:
    import torch

_ALONE: Final = 32768
"""Items up to which PyTorch copies a tensor with one thread."""


class InputChanges:
    """Copies new values to inputs with one thread.

    PyTorch's other threads would wait for further work, on the processors that nnefc's need.
    """

    def __init__(self, piece: Piece) -> None:
        at = piece.inputs.index
        nodes = (node for node in piece.module.graph.nodes if node.op == "call_function")
        self._pairs = [(at(node.args[0].name), at(node.args[1].name)) for node in nodes]

    @staticmethod
    def are_all_of(piece: Piece) -> bool:
        """Whether a piece consists of changes of whole inputs."""
        nodes = [node for node in piece.module.graph.nodes if node.op == "call_function"]
        return not piece.outputs and all(
            str(node.target) == "aten.copy_.default"
            and len(node.args) == 2
            and all(getattr(each, "op", "") == "placeholder" for each in node.args)
            for node in nodes
        )

    def __call__(self, *args: Any) -> Sequence[Any]:
        for target, source in self._pairs:
            _copy(args[target], args[source])
        return []


def _copy(target: torch.Tensor, source: torch.Tensor) -> None:
    from torch.autograd.graph import increment_version

    is_plain = target.dtype is source.dtype and target.shape == source.shape
    if target.numel() <= _ALONE or not is_plain or not _has_array(target):
        target.copy_(source)
        return
    target.detach().numpy()[...] = source.detach().numpy()
    if not target.is_inference():
        increment_version(target)


def _has_array(x: torch.Tensor) -> bool:
    """Whether NumPy has the item type of a tensor, as it has not bfloat16."""
    import torch

    return x.dtype not in (torch.bfloat16, torch.complex32) and not (x.is_conj() or x.is_neg())
