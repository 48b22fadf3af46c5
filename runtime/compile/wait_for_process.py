"""Waits for kernels that another process compiles, instead of compiling them twice.

A process claims the cache entries of kernels before it compiles them (`nnefc.runtime.cache.claim`).
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from nnefc.runtime.cache import kernel_cache
from nnefc.runtime.compile.compile_unit import CompileUnit

if TYPE_CHECKING:
    from nnefc.runtime.cache.claim import Claim
    from nnefc.runtime.cache.key import Key

_MAX_CLAIMS: Final = 256
"""Claims of a call, each of which is an open file; further units are compiled without a claim."""
_PATIENCE: Final = 3
"""A call waits for other processes this many times as long as it would compile itself."""
_START_SECONDS: Final = 0.5
"""Seconds to import the compiler."""
POLL_SECONDS: Final = 0.02
"""Seconds between two looks at the cache."""


@contextmanager
def claim_entries(
    units: Iterable[CompileUnit], keys: Mapping[CompileUnit, Key | None]
) -> Generator[list[CompileUnit]]:
    """Claim the cache entries of `units`, until the end of the block.

    Yields the units that no other process has claimed.  At most `_MAX_CLAIMS` are claimed.
    """
    claims: dict[CompileUnit, Claim | None] = {}
    try:
        for unit in units:
            key = keys[unit] if len(claims) < _MAX_CLAIMS else None
            claim = kernel_cache.claim_kernel(key) if key else None
            if claim or not key:
                claims[unit] = claim
        yield list(claims)
    finally:
        for claim in claims.values():
            if claim:
                claim.release()


class WaitForProcess:
    """The wait of a call for kernels that other processes compile.

    It is bounded, because a process of the lowest priority may get no time, and any may hang.
    """

    def __init__(self) -> None:
        self._end: float | None = None

    def goes_on(self, units: Iterable[CompileUnit]) -> bool:
        """Whether to wait on for `units`: up to a multiple of the time to compile them here."""
        if self._end is None:
            from nnefc.runtime.compile.worker_pool import estimated_seconds

            seconds = _START_SECONDS + sum(map(estimated_seconds, units))
            self._end = time.monotonic() + _PATIENCE * seconds
        return time.monotonic() < self._end
