"""Launches whose numbers of tiles and of repetitions differ between shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from nnefc.kernels.abi import LAUNCH, LAUNCH_KERNEL, LAUNCH_MARK, LAUNCH_PARAMS, LAUNCH_TILES

if TYPE_CHECKING:
    from nnefc.runtime.plan.plan import Int64Array

WORD = 8
"""Bytes of a word."""


class Repetition(NamedTuple):
    """A run of steps of a plan that cycles through its first `period` steps."""

    start: int
    period: int
    steps: int
    """The number of steps for the hints of symbols."""


class LaunchTable(NamedTuple):
    """The launches of a plan, without the numbers that differ between shapes."""

    kernels: Sequence[int]
    """[distinct launches]: byte offset of the kernel in the code."""
    params: Sequence[int]
    """[distinct launches]: byte offset of the parameters."""
    marks: Sequence[int]
    """[distinct launches]: number as the target of jumps, or 0."""
    launch_of: Int64Array
    """[steps]: index of the distinct launch, for the hints of symbols."""
    repeated: Sequence[Repetition]
    """In the order of their steps."""

    def encoded(self, tiles: Sequence[int], launch_of: Int64Array | None = None) -> Int64Array:
        """[steps, 4] encoded launches; `tiles` is the number of tiles of each distinct launch."""
        import numpy as np

        launches = np.zeros((len(tiles), len(LAUNCH.offsets)), np.int64)
        for offset, column in (
            (LAUNCH_KERNEL, self.kernels),
            (LAUNCH_PARAMS, self.params),
            (LAUNCH_TILES, tiles),
            (LAUNCH_MARK, self.marks),
        ):
            launches[:, offset // WORD] = column
        return launches[self.launch_of if launch_of is None else launch_of]

    def steps(self, counts: Sequence[int]) -> Int64Array:
        """`launch_of` if the repeated runs have `counts` steps."""
        import numpy as np

        pieces: list[Int64Array] = []
        end = 0
        for each, count in zip(self.repeated, counts, strict=True):
            pieces.append(self.launch_of[end : each.start])
            period = self.launch_of[each.start : each.start + each.period]
            pieces.append(np.resize(period, count))
            end = each.start + each.steps
        return np.concatenate([*pieces, self.launch_of[end:]])
