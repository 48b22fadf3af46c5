"""Some items of each weight: they tell of changes that PyTorch does not count as versions.

`p.data.add_(x)`, the fused steps of optimizers and writes through NumPy change all or most items of
a weight, and leave its version as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch

_COUNT: Final = 4
"""Items of a sample, in the middle of a weight."""


class WeightSamples:
    """Views of items of weights; they keep the memory of these."""

    def __init__(self, weights: Iterable[torch.Tensor]) -> None:
        self._views = [_view(x) for x in weights]

    def read(self) -> tuple[bytes, ...]:
        """The bytes of each sample now; none for weights whose items are not in order."""
        return tuple(map(bytes, self._views))


def _view(x: torch.Tensor) -> memoryview:
    import torch

    if x.layout is not torch.strided or not x.numel() or hasattr(x, "__tensor_flatten__"):
        return memoryview(b"")
    if not x.is_contiguous() or x.is_quantized or x.is_conj() or x.is_neg():
        return memoryview(b"")
    middle = x.numel() // 2
    return x.detach().view(-1)[middle : middle + _COUNT].view(torch.uint8).numpy().data
