"""Tensors of PyTorch as arrays, and the results of a model as PyTorch has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nnefc.frontends.torch.program import OutputKind, Program
from nnefc.ir import DType

if TYPE_CHECKING:
    import torch

_BFLOAT16 = DType.BFLOAT16.numpy


def argument_of(x: Any) -> Any:
    """An argument of a call for the model: a view of a tensor's memory, a number, or an array."""
    import torch

    if not isinstance(x, torch.Tensor):
        return np.asarray(x, np.int64) if isinstance(x, int) else x
    x = x.detach()
    if x.dtype is torch.bfloat16:
        return x.contiguous().view(torch.uint16).numpy().view(_BFLOAT16)
    return x.numpy()


def tensor_of(array: Any) -> torch.Tensor:
    """A tensor that owns the memory of an array."""
    import torch

    make: Any = getattr(torch, "from_numpy")  # noqa: B009 - PyTorch's has no types
    if array.dtype == _BFLOAT16:
        return make(array.view(np.uint16)).view(torch.bfloat16)
    return make(array)


class Results:
    """Makes the list of a program's results from those of its model."""

    def __init__(self, program: Program) -> None:
        self._outputs = [each for each in program.outputs if each.kind is not OutputKind.STATE]
        self._are_tensors = all(each.kind is OutputKind.TENSOR for each in self._outputs)

    def of(self, found: Any) -> list[Any]:
        """The results of a call, in the order of the program's outputs."""
        several: tuple[Any, ...] = found if isinstance(found, tuple) else (found,)  # pyright: ignore[reportUnknownVariableType]
        if self._are_tensors:
            return list(map(tensor_of, several))
        arrays = iter(several)
        listed: list[Any] = []
        for each in self._outputs:
            if each.kind is OutputKind.CONSTANT:
                listed.append(each.value)
                continue
            array: Any = next(arrays)
            listed.append(int(array) if each.kind is OutputKind.NUMBER else tensor_of(array))
        return listed
