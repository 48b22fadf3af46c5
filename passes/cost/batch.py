"""Cost model of computing few items of the batch at a time, over bytes and multiply-adds.

Few items keep activations in the caches and need no copies for concatenations; many items read
weights less often and need fewer launches.  The model leaves out time that is independent of the
number of items.  Costs are in nanoseconds of one core.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from nnefc.ir import Op, Value
from nnefc.ops.tools.convolution import is_blocked_convolution
from nnefc.ops.tools.cost import flops, macs
from nnefc.ops.tools.table import traits_of
from nnefc.passes.cost.convolution import products
from nnefc.support.machine_model import (
    COPY_NS,
    L3_CACHE_NS,
    LAUNCH_NS,
    PEAK_MACS_PER_NS,
    SHARED_LAUNCH_NS,
    WEIGHT_NS,
)
from nnefc.symbolic.integers import hint

MIN_CACHE_REACH_BYTES: Final = 4 << 20
CACHE_REACH_BYTES: Final = 20 << 20
"""With this many bytes of activations at a time, all of them miss the caches (not less than
MIN_CACHE_REACH_BYTES)."""

LEAST_GAIN: Final = 1e-3
"""Share of all arithmetic that a cut must save: the accuracy of the model."""


@dataclass(frozen=True, slots=True)
class BatchWork:
    """The cost factors of an operation for the whole batch of `batch` items."""

    batch: int
    activations: int
    """Bytes of operands and results that have items."""
    weights: int
    """Bytes of operands and results that all items share."""
    macs: int
    """Multiply-adds, or other arithmetic that takes as long."""
    is_joined: bool
    """Whether it only copies, and with one row along dimension 0 not even that."""
    rows: int
    """Rows of dimension 0 per item."""

    @property
    def is_nothing(self) -> bool:
        """Whether the operation costs nothing."""
        return not self.activations and not self.weights

    @property
    def is_repeated(self) -> bool:
        """Whether every turn computes all of it, because it has no items."""
        return not self.activations


def work_of(op: Op, rows: Mapping[Value, int], batch: int) -> BatchWork:
    """The cost factors of an operation.  `rows`: rows of dimension 0 per item, by value."""
    if traits_of(op).view:
        return BatchWork(batch, 0, 0, 0, is_joined=False, rows=0)
    values = dict.fromkeys((*op.inputs, *op.outputs))
    moved = sum(v.type.nbytes for v in values if rows.get(v))
    shared = sum(v.type.nbytes for v in values if not rows.get(v))
    multiplied = macs(op) or (0 if moved else flops(op) // 2)
    moved *= traits_of(op).reads
    if is_blocked_convolution(op):
        multiplied, weights = products(op)
        shared += (weights - op.inputs[1].type.volume) * op.inputs[1].type.dtype.itemsize
    most = max((hint(rows.get(v, 0)) for v in op.outputs), default=0)
    return BatchWork(
        batch,
        hint(moved),
        hint(shared),
        hint(multiplied),
        traits_of(op).slices is not None,
        hint(most),
    )


@dataclass(frozen=True)
class Costs:
    """The cost model of a machine."""

    reach: int = CACHE_REACH_BYTES
    threads: int = 1
    """Threads that share a launch."""

    @classmethod
    def of_machine(cls, cache: int, threads: int) -> Costs:
        """The model for `cache` bytes of the last cache (0 if unknown) and `threads` threads."""
        return cls(min(max(cache // 4, MIN_CACHE_REACH_BYTES), CACHE_REACH_BYTES), threads)

    @cached_property
    def launch(self) -> float:
        """Nanoseconds of a launch."""
        return LAUNCH_NS if self.threads == 1 else SHARED_LAUNCH_NS

    def work(self, work: BatchWork, items: int) -> float:
        """Nanoseconds of an operation with `items` items at a time."""
        if work.is_nothing or (work.is_joined and items * work.rows == 1):
            return 0.0
        turns = work.batch // items
        copied = COPY_NS * work.activations if work.is_joined else 0.0
        far = self._far(work.activations // turns) * work.activations
        return copied + far + turns * (self.launch + _turn(work, turns))

    def transfer(self, value: Value) -> float:
        """Nanoseconds for a value that one stage computes and another uses.

        It may miss the caches when written and when read; operands of a concatenation or split on
        the other side of the cut are also copied.
        """
        around = (value.op, *value.users)
        joined = any(op is not None and traits_of(op).slices is not None for op in around)
        nbytes = hint(value.type.nbytes)
        return 2 * nbytes * (self._far(nbytes) + joined * COPY_NS)

    def _far(self, held: int) -> float:
        """Nanoseconds per byte if `held` bytes are alive, part of them in the caches."""
        return min(held / self.reach, 1.0) ** 2 * L3_CACHE_NS


def _turn(work: BatchWork, turns: int) -> float:
    """Nanoseconds of reading weights in one turn, and of arithmetic that every turn repeats.

    The arithmetic of the turn hides part of the reading.
    """
    arithmetic, reading = work.macs / PEAK_MACS_PER_NS, work.weights * WEIGHT_NS
    if not work.is_repeated:
        arithmetic /= turns
    exposed = reading * reading / max(reading + arithmetic, 1.0)
    return exposed + (arithmetic if work.is_repeated else 0.0)


def cut_costs(costs: Costs, steps: Sequence[Op]) -> list[float]:
    """Nanoseconds of a cut before each of `steps`."""
    least = 2 * costs.launch + LEAST_GAIN * hint(sum(map(macs, steps))) / PEAK_MACS_PER_NS
    last: dict[Value, int] = {}
    for i, op in enumerate(steps):
        last.update(dict.fromkeys(op.inputs, i))
    ends: list[list[float]] = [[] for _ in steps]
    carried = 0.0
    cuts: list[float] = []
    for i, op in enumerate(steps):
        cuts.append(carried + least)
        for value in op.outputs:
            if last.get(value, -1) > i:
                one = costs.transfer(value)
                carried += one
                ends[last[value]].append(one)
        carried -= sum(ends[i])
    return cuts


def divisors(number: int) -> list[int]:
    """The divisors of a number in ascending order."""
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})
