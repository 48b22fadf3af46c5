"""The weights of a compiled module, which it shares with the module: they must stay as they are."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

from nnefc.frontends.torch.program import InputKind, Program
from nnefc.pytorch.memory.weight_samples import WeightSamples
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_VERSION: Final = operator.attrgetter("_version")


class ModuleWeights:
    """Notices changes of parameters and buffers.

    Some are packed when the module is compiled and others are read in each call, so a call after a
    change would mix both.
    """

    def __init__(self, program: ExportedProgram, read: Program) -> None:
        tensors: dict[str, Any] = {**program.constants, **program.state_dict}
        labels = [each.label for each in read.inputs if each.kind is InputKind.ARRAY]
        self._tensors = {
            label: tensors[label]
            for label in labels
            if label in tensors and not tensors[label].is_inference()
        }
        self._samples = WeightSamples(self._tensors.values())
        self._marks = self._present()

    def _present(self) -> list[tuple[int, bytes]]:
        """The version and some items of each tensor."""
        versions = map(_VERSION, self._tensors.values())
        return list(zip(versions, self._samples.read(), strict=True))

    def require_same(self) -> None:
        """Raise NnefError `torch/weights` if some have been changed."""
        now = self._present()
        if now != self._marks:
            pairs = zip(self._tensors, now, self._marks, strict=True)
            name = next(name for name, mark, before in pairs if mark != before)
            message = f"'{name}' of the module has been changed since the module was compiled"
            hint = 'compile it again; torch.compile(module, backend="nnefc") follows changes'
            raise NnefError.of("torch/weights", message, hint=hint)
