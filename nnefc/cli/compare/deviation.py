"""The differences between a tensor and its reference; NaN and infinities are counted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Deviation:
    """The differences between two arrays of equal shape."""

    absolute: float
    """The largest difference of items that are finite in both; infinite if the shapes differ."""
    error: float
    """`absolute` over the largest finite magnitude of the reference (over 1 if subnormal)."""
    nan_in_both: int = 0
    nan_in_one: int = 0
    inf_equal: int = 0
    """Items that are the same infinity in both."""
    inf_different: int = 0
    """Items that are infinite in one of the two only, or of different sign, and NaN in neither."""

    @classmethod
    def of(cls, actual: Array, expected: Array) -> Self:
        """The deviation of `actual` from `expected`."""
        import numpy as np

        if actual.shape != expected.shape:
            return cls(float("inf"), float("inf"))
        if actual.dtype.kind in "iu" and expected.dtype.kind in "iu":
            return cls._of_integers(actual, expected)
        a, e = actual.astype(np.float64), expected.astype(np.float64)
        nan_a, nan_e = np.isnan(a), np.isnan(e)
        inf_e = np.isinf(e)
        infinite = (np.isinf(a) | inf_e) & ~(nan_a | nan_e)
        equal_infinities = infinite & (a == e)
        finite = np.isfinite(a) & np.isfinite(e)
        with np.errstate(over="ignore"):
            absolute = float(
                np.abs(np.subtract(a, e, where=finite, out=np.zeros_like(e))).max(initial=0)
            )
        scale = float(np.abs(e).max(initial=0, where=~(nan_e | inf_e)))
        return cls(
            absolute,
            absolute / (scale if scale > np.finfo(np.float64).tiny else 1.0),
            nan_in_both=int(np.count_nonzero(nan_a & nan_e)),
            nan_in_one=int(np.count_nonzero(nan_a ^ nan_e)),
            inf_equal=int(np.count_nonzero(equal_infinities)),
            inf_different=int(np.count_nonzero(infinite & ~equal_infinities)),
        )

    @classmethod
    def _of_integers(cls, actual: Array, expected: Array) -> Self:
        """The deviation of integers, which float64 would round beyond 2^53."""
        differ = actual != expected
        pairs = zip(actual[differ].tolist(), expected[differ].tolist(), strict=True)
        absolute = float(max((abs(a - e) for a, e in pairs), default=0))
        extremes = (int(expected.min()), int(expected.max())) if expected.size else ()
        scale = float(max(map(abs, extremes), default=0))
        return cls(absolute, absolute / (scale or 1.0))

    def agrees(self, tolerance: float) -> bool:
        """Whether the error is within the tolerance, and no NaN or infinity is in one only."""
        return self.error <= tolerance and not self.nan_in_one and not self.inf_different

    def facts(self) -> dict[str, float | int]:
        """All fields by name."""
        return asdict(self)
