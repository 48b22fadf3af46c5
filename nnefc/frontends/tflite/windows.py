"""Windows of convolutions and pooling: padding, strides and dilations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nnefc.frontends.common.values import OperatorError
from nnefc.symbolic.integers import hint

SAME: Final = 0
"""The number of this `Padding`; the other one is 1."""
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Window:
    """Size, stride and dilation by dimension; raises OperatorError for impossible ones."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...] = (1, 1)

    def __post_init__(self) -> None:
        for name in ("size", "stride", "dilation"):
            steps: tuple[int, ...] = getattr(self, name)
            if min(steps) < 1:
                message = f"the {name} of the window is {list(steps)}"
                raise OperatorError("argument/window", message)

    @property
    def reach(self) -> tuple[int, ...]:
        """The extents that a window covers."""
        return tuple((n - 1) * d + 1 for n, d in zip(self.size, self.dilation, strict=True))

    def padding(self, extents: Sequence[int], padding: int) -> Pairs:
        """Items added before and after; SAME has the odd one after.

        They are integers where extents are symbolic, too: the remainder of the extent and the
        stride decides, which becomes a guard.  So layouts with borders are known.
        """
        if padding not in (SAME, 1):
            raise OperatorError("argument/window", f"there is no padding {padding}")
        if padding != SAME:
            return ((0, 0),) * len(self.size)
        pairs: list[tuple[int, int]] = []
        for extent, reach, stride in zip(extents, self.reach, self.stride, strict=True):
            rest = extent % stride if stride > 1 else 0
            known = hint(rest)
            rest = known if rest == known else rest
            total = max(reach - (rest or stride), 0)
            pairs.append((total // 2, total - total // 2))
        return tuple(pairs)

    def transposed_padding(
        self, inputs: Sequence[int], outputs: Sequence[int], padding: int
    ) -> Pairs:
        """What is cut from the result of a transposed window on both sides.

        It is negative where the result is extended.
        """
        before = self.padding(outputs, padding)
        rows = zip(inputs, outputs, self.stride, self.reach, before, strict=True)
        return tuple(
            (first, (n - 1) * stride + reach - m - first)
            for n, m, stride, reach, (first, _) in rows
        )
