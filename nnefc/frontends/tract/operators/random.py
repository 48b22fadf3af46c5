"""Random numbers: words of 64 bits that a position in a sequence is hashed to.

A generator is its position, one word that the model keeps from call to call.  Item i of a call is
splitmix64(position + i gamma): it depends on no other item, so threads and machines change nothing,
and a call goes on where the one before has ended.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nnefc.frontends.common.binary_search import count_before
from nnefc.frontends.common.op_builder import OpBuilder, converted
from nnefc.frontends.common.operand_checks import check_shape, of_rank
from nnefc.frontends.common.values import (
    Array,
    KnownTensor,
    Operand,
    OperatorError,
    integer_array,
    named_type,
    scalar,
)
from nnefc.frontends.tract.operators.movement import slice_in_dim
from nnefc.frontends.tract.operators.sums import running_sum
from nnefc.frontends.tract.registry import operator
from nnefc.ir import DType
from nnefc.ops.core.common import sequence
from nnefc.ops.tools.build import build

if TYPE_CHECKING:
    from nnefc.frontends.tract.model import ModelContext, PriorState

_GAMMA: Final = 0x9E3779B97F4A7C15
"""What neighbours in the sequence are apart: 2^64 over the golden ratio, odd."""
_MIX: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
"""Shifts and factors of splitmix64, before a last shift."""
_LAST: Final = 31
_MASK: Final = (1 << 64) - 1
_BITS: Final = 53
"""Bits of a word that become a number: as many as a float64 has."""
_MULTINOMIAL_TYPES: Final = {6: DType.INT32, 7: DType.INT64}
"""Item types by ONNX's numbers."""


@operator("tract_onnx")
def tract_onnx_random(
    make: OpBuilder,
    datum_type: str,
    shape: tuple[int, ...],
    dist: str,
    parameters: Any,
    seed: Any = None,
) -> Any:
    """Random numbers, others in every call: `uniform` of [low, high), `normal` of mean, deviation.

    A model that begins anew gives the same ones, with a `seed` in every process.
    """
    dtype = named_type(datum_type).dtype
    if not dtype.is_float:
        raise OperatorError("argument/random", f"random numbers are reals, not {datum_type!r}")
    if dist not in _DISTRIBUTIONS:
        known = " or ".join(_DISTRIBUTIONS)
        raise OperatorError("argument/random", f"dist = {dist!r}; {known} is expected")
    given = sequence(parameters)
    if isinstance(parameters, KnownTensor):
        given = parameters.array.reshape(-1).tolist()
    if given is None or len(given) != 2:
        raise OperatorError("argument/random", f"parameters: two numbers are expected of {dist}")
    check_shape(make, "shape", shape, DType.FLOAT64)
    first, second = (scalar(x) for x in given)
    if not (math.isfinite(first) and math.isfinite(second)):
        raise OperatorError(
            "argument/random", f"parameters = {[first, second]} are no finite numbers"
        )
    generator = _Generator.of(make, seed)
    made = _DISTRIBUTIONS[dist](generator, math.prod(shape), dtype, first, second)
    generator.store()
    return make.reshape(make.cast(made, dtype), shape)


@operator("tract_onnx")
def tract_onnx_multinomial(
    make: OpBuilder, input: Operand, dtype: int = 6, sample_size: int = 1, seed: Any = None
) -> Any:
    """Classes [batch, sample_size] drawn by the logarithms [batch, classes] of their weights.

    Other ones in every call, as of `tract_onnx_random`; tract repeats those of a seed.
    """
    batch, classes = of_rank("multinomial", "input", input, 2)
    if not input.type.dtype.is_float:
        message = f"input has items of type {input.type.dtype}; reals are expected"
        raise OperatorError("argument/multinomial", message)
    if dtype not in _MULTINOMIAL_TYPES:
        message = f"dtype = {dtype}; 6 (int32) or 7 (int64) is expected"
        raise OperatorError("argument/multinomial", message)
    if classes == 0:
        message = f"input has shape {list(input.type.dims)}: there is no class to draw"
        raise OperatorError("argument/multinomial", message)
    check_shape(make, "[batch, sample_size]", (batch, sample_size), DType.FLOAT64)
    generator = _Generator.of(make, seed)
    share = make.reshape(generator.fractions(batch * sample_size), (batch, sample_size))
    generator.store()
    ends = _cumulative_weights(make, input)
    total = slice_in_dim(make, ends, 1, classes - 1, classes)
    point = make("floor", make("mul", share, total))
    return make.cast(_search_sorted(make, ends, point), _MULTINOMIAL_TYPES[dtype])


# -- the sequence


@dataclass(slots=True)
class _Generator:
    """A generator: where in the sequence it is, and under which name that is kept."""

    make: OpBuilder
    name: str
    before: PriorState | None
    position: Operand

    @classmethod
    def of(cls, make: OpBuilder, seed: Any) -> _Generator:
        """The generator of the operator at hand; raises OperatorError within a loop."""
        model: ModelContext = make.evaluator.context.model
        if make.graph is not model.graph:
            raise OperatorError("tract/unsupported", "there are no random numbers within a loop")
        name = model.state_name("random")
        before = model.prior_state(name, DType.UINT64, 0)
        if before is not None:
            return cls(make, name, before, before.value)
        is_given = seed is not None and seed is not False
        first = (
            _seed_of(seed) if is_given else model.source_state.entropy + zlib.crc32(name.encode())
        )
        return cls(make, name, before, _uint64(_splitmix64(first & _MASK)))

    def words(self, count: int) -> Operand:
        """The next words [count]."""
        make = self.make
        gamma, position = _uint64(_GAMMA), self.position
        extent = KnownTensor(integer_array(count), DType.INT64)
        distance = make("mul", make.cast(extent, DType.UINT64), gamma)
        self.position = make("add", position, distance)
        if count == 0:
            return KnownTensor(np.zeros(0, np.uint64), DType.UINT64)
        # counted by the model: of numbers that are known now constants would be made, and results
        # of these, by functions that are not those of kernels
        attributes = {"count": count, "start": 0, "step": 1}
        make.budget.take_operation(1)
        iota = build(make.graph, "iota", [], attributes, location=make.location).output
        z = make("add", make("mul", make.cast(iota, DType.UINT64), gamma), position)
        for shift, factor in _MIX:
            z = make("mul", _xor_shift(make, z, shift), _uint64(factor))
        return _xor_shift(make, z, _LAST)

    def fractions(self, count: int, *, above: bool = False) -> Operand:
        """The next numbers [count] in float64, of [0, 1), or of (0, 1] if they are `above` 0."""
        make = self.make
        whole = make("shift_right", self.words(count), _uint64(64 - _BITS))
        if above:
            whole = make("add", whole, _uint64(1))
        # less than 2^63: conversions from signed integers are what processors have
        real = make.cast(make.cast(whole, DType.INT64), DType.FLOAT64)
        return make("mul", real, _float64(0.5**_BITS))

    def store(self) -> None:
        """Let the next call begin where this one has ended."""
        model: ModelContext = self.make.evaluator.context.model
        model.store_state(self.name, self.before, self.position)


def _uint64(bits: int) -> KnownTensor:
    return KnownTensor(np.array(bits, np.uint64), DType.UINT64)


def _float64(number: float) -> KnownTensor:
    return KnownTensor(np.array(number, np.float64), DType.FLOAT64)


def _xor_shift(make: OpBuilder, z: Operand, shift: int) -> Operand:
    return make("bitxor", z, make("shift_right", z, _uint64(shift)))


def _splitmix64(z: int) -> int:
    """splitmix64 of a word: what seeds that are alike have in common is gone."""
    for shift, factor in _MIX:
        z = (z ^ z >> shift) * factor & _MASK
    return z ^ z >> _LAST


def _seed_of(seed: Any) -> int:
    """A word of a number; whole ones are themselves, of whatever type they are written."""
    if isinstance(seed, int):
        return seed
    number = scalar(seed)
    if not math.isfinite(number):
        raise OperatorError("argument/random", f"seed = {number} is no finite number")
    if number.is_integer():
        return int(number)
    return int.from_bytes(struct.pack("<d", number), "little")


# -- distributions


def _uniform(generator: _Generator, count: int, dtype: DType, low: float, high: float) -> Operand:
    """low + u (high - low), which rounding must not make `high`."""
    bounds = converted(np.array([low, high]), dtype).astype(np.float64)
    low, high = bounds.tolist()
    given = f"parameters = {[low, high]}"
    if not (math.isfinite(low) and math.isfinite(high)):
        raise OperatorError("argument/random", f"{given} are no finite numbers in {dtype}")
    if not low < high:
        raise OperatorError("argument/random", f"{given}: low must be less than high, in {dtype}")
    if not math.isfinite(high - low):
        raise OperatorError(
            "argument/random", f"{given}: high - low is beyond the numbers of float64"
        )
    make = generator.make
    scaled = make("mul", generator.fractions(count), _float64(high - low))
    return make("min", make("add", scaled, _float64(low)), _float64(_below(high, dtype)))


def _below(number: float, dtype: DType) -> float:
    """The next number below one of a type."""
    items: Array = np.nextafter(np.array(number, dtype.numpy), np.array(-np.inf, dtype.numpy))
    return float(items)


def _normal(
    generator: _Generator, count: int, dtype: DType, mean: float, deviation: float
) -> Operand:
    """mean + deviation sqrt(-2 ln u) cos(2 pi v), with u of (0, 1] and v of [0, 1).

    Box and Muller's method; in the type of the result, or float32 at least.
    """
    if deviation < 0:
        raise OperatorError("argument/random", f"the deviation must not be below 0: {deviation}")
    make = generator.make
    wide = DType.FLOAT64 if dtype is DType.FLOAT64 else DType.FLOAT32
    # float32 is as exact for a u close to 0 as for others: tails are as long as those of float64
    u = make.cast(generator.fractions(count, above=True), wide)
    v = make.cast(generator.fractions(count), wide)
    radius = make("sqrt", make("mul", make("log", u), -2.0))
    z = make("mul", radius, make("cos", make("mul", v, 2 * math.pi)))
    return make("add", make("mul", z, deviation), mean)


_Distribution = Callable[[_Generator, int, DType, float, float], Operand]
_DISTRIBUTIONS: Final[dict[str, _Distribution]] = {"uniform": _uniform, "normal": _normal}


# -- classes


def _cumulative_weights(make: OpBuilder, logits: Operand) -> Operand:
    """Where the classes [batch, classes] end on a line that is as long as all weights together.

    Weights are whole numbers in float64, whose sums are exact: a class without weight has no part
    of the line, whatever the order of the sums.
    """
    batch, classes = logits.type.dims
    largest_weight = _float64(2.0 ** (_BITS - 1 - classes.bit_length()))
    x = make.cast(logits, DType.FLOAT64)
    most = make("max_reduce", x, axes=(1,))
    weights = make("floor", make("mul", make("exp", make("sub", x, most)), largest_weight))
    # infinite and undefined ones have no difference to the largest
    weights = make("select", make("gt", weights, _float64(0)), weights, _float64(0))
    ends = make("select", make("eq", x, most), largest_weight, weights)
    return running_sum(make, make.repeated(ends, (batch, classes)), 1)


def _search_sorted(make: OpBuilder, ends: Operand, points: Operand) -> Operand:
    """Index of the first of `ends` [batch, classes], in order, that is greater than a point
    [batch, n]; of the last one if none is.
    """

    def is_before(index: Operand) -> Operand:
        return make("le", make("gather_elements", ends, index, axis=1), points)

    none = make.cast(make("mul", points, _float64(0)), DType.INT64)
    return count_before(make, none, ends.type.dims[1], is_before)
