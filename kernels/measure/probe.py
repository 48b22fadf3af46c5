"""A kernel that runs another kernel, and records when tiles start and end and on which stack.

A plan of probes runs like any plan, alone or in a team, so profiling needs no support by the
executor.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is untyped)

from __future__ import annotations

from nnefc.kernels.abi import BASE_CODE, BASE_PARAMS
from nnefc.kernels.executor.clock import TIMESPEC_BYTES, now
from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.tile.register_tile import local_bytes
from nnefc.kernels.vector.memory import LOAD, STORE, call_kernel, load_word

PROBE = Layout("kernel params clock clock_id records")
"""Parameters of `probe.stamp`: kernel and parameters of the profiled launch; the address of
`clock_gettime` and its clock; the address of the record of tile 0."""
KERNEL, PARAMS, CLOCK, CLOCK_ID, RECORDS = PROBE.offsets

RECORD = Layout("start end stack earlier count unused:3")
"""The record of a tile, or of tile 0 if one call runs all tiles: start and end in nanoseconds, an
address on the stack of the thread; the nanoseconds that the tile took before, if the run jumps back
to its launch; and how often it ran.  A record fills a cache line, because another thread may write
the next one."""
START, END, STACK, EARLIER, COUNT, _ = RECORD.offsets
RECORD_BYTES = RECORD.nbytes

_load, _store = LOAD["int64"], STORE["int64"]


@family()
def stamp() -> KernelFunction:
    """Run a kernel between two readings of the clock."""
    local = local_bytes(TIMESPEC_BYTES)

    def kernel(bases: int, params: int, first: int, last: int) -> None:
        clock, clock_id = load_word(params + CLOCK), load_word(params + CLOCK_ID)
        function = _load(bases + 8 * BASE_CODE) + load_word(params + KERNEL)
        words = _load(bases + 8 * BASE_PARAMS) + load_word(params + PARAMS)
        record = load_word(params + RECORDS) + RECORD_BYTES * first
        timespec = local()
        past = _load(record + END) - _load(record + START)
        _store(record + EARLIER, _load(record + EARLIER) + past)
        _store(record + COUNT, _load(record + COUNT) + 1)
        start = now(clock, clock_id, timespec)
        call_kernel(function, bases, words, first, last)
        end = now(clock, clock_id, timespec)
        _store(record + START, start)
        _store(record + END, end)
        _store(record + STACK, timespec)

    return kernel
