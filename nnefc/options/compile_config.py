"""`CompileConfig`: how a graph is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from nnefc.options.arguments import check_accuracy, check_flags, check_threads

Accuracy = Literal["fast", "strict"]


class CompileConfig(NamedTuple):
    """How a graph is compiled; `of` checks values from callers."""

    threads: int | None = None
    """Threads that a call may use, the calling one included; None: all usable CPUs."""
    accuracy: Accuracy = "fast"
    """"strict" computes convolutions as sums of products; "fast" may use Winograd's algorithm."""
    algorithms: Mapping[str, str] | None = None
    """Algorithms of convolutions by key, see `ChooseConvolutionAlgorithms.tuned`; None: the
    measured ones that `nnefc.tune` has stored for this machine."""
    check_indices: bool = True
    """A call with an index out of range fails; False: the nearest item is used."""

    @classmethod
    def of(
        cls,
        threads: object = None,
        accuracy: object = "fast",
        algorithms: Mapping[str, str] | None = None,
        *,
        check_indices: object = True,
    ) -> CompileConfig:
        """A checked configuration; raises NnefError `input/threads` or `input/argument`."""
        count, checked = check_threads(threads), check_accuracy(accuracy)
        check_flags(check_indices=check_indices)
        return cls(count, checked, algorithms, bool(check_indices))

    @property
    def is_strict(self) -> bool:
        return self.accuracy == "strict"
