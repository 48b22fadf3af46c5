"""The results of a model as PyTorch has them: tensors, and numbers that depend on extents."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.torch.program import OutputKind, Program


class Results:
    """Makes the list of a program's results from those of its model."""

    def __init__(self, program: Program) -> None:
        self._outputs = [each for each in program.outputs if each.kind is not OutputKind.STATE]

    def of(self, found: Any) -> list[Any]:
        """The results of a call, in the order of the program's outputs."""
        import torch

        tensor: Any = getattr(torch, "from_numpy")  # noqa: B009 - PyTorch's has no types
        arrays = iter(found if isinstance(found, tuple) else (found,))  # pyright: ignore[reportUnknownArgumentType]
        listed: list[Any] = []
        for each in self._outputs:
            if each.kind is OutputKind.CONSTANT:
                listed.append(each.value)
                continue
            array: Any = next(arrays)
            listed.append(int(array) if each.kind is OutputKind.NUMBER else tensor(array))
        return listed
