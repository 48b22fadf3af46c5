"""Random numbers by splitmix64 (Steele, Lea and Flood 2014), as operations of the graph.

The state of a generator is its position, a uint64 that the model stores between calls.  Item i of
a call is splitmix64(position + i gamma), and the next call continues behind the last item.  Items
are independent of each other, so the number of threads does not matter.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.graph_states import GraphStates, PriorState
from nnefc.frontends.common.op_builder import OpBuilder, converted
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.binary_search import count_before
from nnefc.frontends.common.operators.sums import running_sum
from nnefc.frontends.common.values import (
    Array,
    KnownTensor,
    Operand,
    OperatorError,
    integer_array,
    scalar,
)
from nnefc.ir import DType, Graph
from nnefc.ops.tools.build import build

_GAMMA: Final = 0x9E3779B97F4A7C15
"""The distance between consecutive positions: 2^64 over the golden ratio, odd."""
_MIX: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
"""Shifts and factors of splitmix64, before the last shift."""
_LAST: Final = 31
"""The last shift of splitmix64."""
_MASK: Final = (1 << 64) - 1
_BITS: Final = 53
"""Bits of a word that are used: the precision of float64."""


@dataclass(slots=True)
class RandomGenerator:
    """A generator at a position of its sequence, stored as the state `name`."""

    make: OpBuilder
    states: GraphStates
    name: str
    before: PriorState | None
    position: Operand

    @classmethod
    def of(
        cls, make: OpBuilder, graph: Graph, states: GraphStates, entropy: int, seed: Any
    ) -> RandomGenerator:
        """The generator of the current operator; raises OperatorError within a loop.

        Args:
            make: The builder of the operator.
            graph: The graph of the model.
            states: Of that graph.
            entropy: The seed of generators without one.
            seed: A number; None or False if there is none.
        """
        if make.graph is not graph:
            raise OperatorError(
                "operator/unsupported", "random numbers within a loop are not supported"
            )
        name = states.free_name("random")
        before = states.prior(name, DType.UINT64, 0)
        if before is not None:
            return cls(make, states, name, before, before.value)
        is_given = seed is not None and seed is not False
        first = _seed_of(seed) if is_given else entropy + zlib.crc32(name.encode())
        return cls(make, states, name, before, _uint64(_splitmix64(first & _MASK)))

    def words(self, count: int) -> Operand:
        """The next words [count]."""
        make = self.make
        gamma, position = _uint64(_GAMMA), self.position
        extent = KnownTensor(integer_array(count), DType.INT64)
        distance = make("mul", make.cast(extent, DType.UINT64), gamma)
        self.position = make("add", position, distance)
        if count == 0:
            return KnownTensor(np.zeros(0, np.uint64), DType.UINT64)
        # always an operation: folding would compute with NumPy, whose log and cos differ from those
        # of the kernels in the last bits
        attributes = {"count": count, "start": 0, "step": 1}
        make.budget.take_operation(1)
        iota = build(make.graph, "iota", [], attributes, location=make.location).output
        z = make("add", make("mul", make.cast(iota, DType.UINT64), gamma), position)
        for shift, factor in _MIX:
            z = make("mul", _xor_shift(make, z, shift), _uint64(factor))
        return _xor_shift(make, z, _LAST)

    def fractions(self, count: int, *, above: bool = False) -> Operand:
        """The next numbers [count] in float64, in [0, 1), or in (0, 1] if `above`."""
        make = self.make
        whole = make("shift_right", self.words(count), _uint64(64 - _BITS))
        if above:
            whole = make("add", whole, _uint64(1))
        # below 2^63: processors convert signed integers, not unsigned ones
        real = make.cast(make.cast(whole, DType.INT64), DType.FLOAT64)
        return make("mul", real, _float64(0.5**_BITS))

    def store(self) -> None:
        """Store the position for the next call."""
        self.states.store(self.name, self.before, self.position)


def _uint64(bits: int) -> KnownTensor:
    return KnownTensor(np.array(bits, np.uint64), DType.UINT64)


def _float64(number: float) -> KnownTensor:
    return KnownTensor(np.array(number, np.float64), DType.FLOAT64)


def _xor_shift(make: OpBuilder, z: Operand, shift: int) -> Operand:
    """z ^ (z >> shift)."""
    return make("bitxor", z, make("shift_right", z, _uint64(shift)))


def _splitmix64(z: int) -> int:
    """The hash of a word by splitmix64, which makes the positions of similar seeds unrelated."""
    for shift, factor in _MIX:
        z = (z ^ z >> shift) * factor & _MASK
    return z ^ z >> _LAST


def _seed_of(seed: Any) -> int:
    """The seed as an integer: whole numbers by value, others by the bits of their float64."""
    if isinstance(seed, int):
        return seed
    number = scalar(seed)
    if not math.isfinite(number):
        raise OperatorError("argument/random", f"seed = {number} must be finite")
    if number.is_integer():
        return int(number)
    return int.from_bytes(struct.pack("<d", number), "little")


# -- distributions


def _uniform(
    generator: RandomGenerator, count: int, dtype: DType, low: float, high: float
) -> Operand:
    """low + u (high - low), limited so that rounding does not give `high`."""
    bounds = converted(np.array([low, high]), dtype).astype(np.float64)
    low, high = bounds.tolist()
    given = f"parameters = {[low, high]}"
    if not (math.isfinite(low) and math.isfinite(high)):
        raise OperatorError("argument/random", f"{given} must be finite in {dtype}")
    if not low < high:
        raise OperatorError("argument/random", f"{given}: low must be less than high, in {dtype}")
    if not math.isfinite(high - low):
        raise OperatorError("argument/random", f"{given}: high - low is infinite in float64")
    make = generator.make
    scaled = make("mul", generator.fractions(count), _float64(high - low))
    return make("min", make("add", scaled, _float64(low)), _float64(_below(high, dtype)))


def _below(number: float, dtype: DType) -> float:
    """The largest number of a type below `number`."""
    items: Array = np.nextafter(np.array(number, dtype.numpy), np.array(-np.inf, dtype.numpy))
    return float(items)


def _normal(
    generator: RandomGenerator, count: int, dtype: DType, mean: float, deviation: float
) -> Operand:
    """mean + deviation sqrt(-2 ln u) cos(2 pi v), with u in (0, 1] and v in [0, 1).

    The method of Box and Muller (1958), in the type of the result, but at least float32.
    """
    if deviation < 0:
        raise OperatorError("argument/random", f"the deviation must not be below 0: {deviation}")
    make = generator.make
    wide = DType.FLOAT64 if dtype is DType.FLOAT64 else DType.FLOAT32
    # the relative precision of float32 also holds for u near 0, so tails are as long as in float64
    u = make.cast(generator.fractions(count, above=True), wide)
    v = make.cast(generator.fractions(count), wide)
    radius = make("sqrt", make("mul", make("log", u), -2.0))
    z = make("mul", radius, make("cos", make("mul", v, 2 * math.pi)))
    return make("add", make("mul", z, deviation), mean)


_Distribution = Callable[[RandomGenerator, int, DType, float, float], Operand]
DISTRIBUTIONS: Final[Mapping[str, _Distribution]] = {"uniform": _uniform, "normal": _normal}
"""Functions of a generator, the number of items, their type, and the two parameters:

`uniform` in [low, high), or `normal` with mean and deviation.  They raise OperatorError.
"""


# -- classes


def draw_classes(generator: RandomGenerator, logits: Operand, samples: int) -> Operand:
    """Samples [batch, samples] of classes, as int64, with the logarithms [batch, classes] of their
    weights.
    """
    make = generator.make
    batch, count = logits.type.dims
    share = make.reshape(generator.fractions(batch * samples), (batch, samples))
    ends = _cumulative_weights(make, logits)
    total = slice_in_dim(make, ends, 1, count - 1, count)
    point = make("floor", make("mul", share, total))
    return search_sorted(make, ends, point)


def _cumulative_weights(make: OpBuilder, logits: Operand) -> Operand:
    """Cumulative weights [batch, classes] of the classes.

    Weights are whole numbers in float64, so sums are exact in any order, and a class with weight 0
    is never drawn.
    """
    batch, classes = logits.type.dims
    largest_weight = _float64(2.0 ** (_BITS - 1 - classes.bit_length()))
    x = make.cast(logits, DType.FLOAT64)
    most = make("max_reduce", x, axes=(1,))
    weights = make("floor", make("mul", make("exp", make("sub", x, most)), largest_weight))
    # NaN becomes 0, and infinite maxima, whose difference is NaN, get the largest weight
    weights = make("select", make("gt", weights, _float64(0)), weights, _float64(0))
    ends = make("select", make("eq", x, most), largest_weight, weights)
    return running_sum(make, make.repeated(ends, (batch, classes)), 1)


def search_sorted(make: OpBuilder, ends: Operand, points: Operand) -> Operand:
    """For each point [batch, n] the index of the first of `ends` [batch, classes] above it.

    `ends` ascend; the index is that of the last one if none is above.  Compare
    `numpy.searchsorted(side="right")`.
    """

    def is_before(index: Operand) -> Operand:
        return make("le", make("gather_elements", ends, index, axis=1), points)

    none = make.cast(make("mul", points, _float64(0)), DType.INT64)
    return count_before(make, none, ends.type.dims[1], is_before)
