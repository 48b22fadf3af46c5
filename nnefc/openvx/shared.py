"""What the graphs and tensors of a context share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from nnefc.frontends.openvx.tensors import TensorInfo
from nnefc.support.limits import Limits

ARITHMETIC_NAMES: Final = ("specification", "conformance")
"""The names of `nnefc.frontends.openvx.arithmetic`, which is imported by `verify` alone."""


@dataclass(slots=True)
class Shared:
    """Options of a context, and how often its tensors were written."""

    arithmetic: str
    threads: int | None
    limits: Limits
    _versions: dict[TensorInfo, int] = field(default_factory=dict[TensorInfo, int])
    _names: int = 0

    def new_name(self) -> str:
        """A name for a tensor."""
        self._names += 1
        return f"tensor_{self._names}"

    def version(self, root: TensorInfo) -> int:
        """How often `copy_from` wrote a tensor."""
        return self._versions.get(root, 0)

    def changed(self, root: TensorInfo) -> None:
        """Count one more `copy_from` into a tensor."""
        self._versions[root] = self.version(root) + 1
