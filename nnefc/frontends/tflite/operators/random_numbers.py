"""Random numbers by Philox 4x32-10, as LiteRT draws them.

Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011.  A block of four words of 32 bits
is a hash of its position.  Each operator has a generator of its own, whose position is a state.
Two seeds repeat the numbers in each process.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import check_shape, of_rank
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.random_numbers import search_sorted
from nnefc.frontends.common.operators.sums import running_sum
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.tflite.memory import generator_name
from nnefc.frontends.tflite.registry import REALS, Integers, Node, operator
from nnefc.frontends.tflite.tensors import dtype_of
from nnefc.ir import DType
from nnefc.ops.tools.build import build

if TYPE_CHECKING:
    from nnefc.frontends.tflite.evaluate import SubgraphEvaluator

_WORD: Final = 32
_MASK: Final = (1 << _WORD) - 1
_FACTORS: Final = (0xD2511F53, 0xCD9E8D57)
_WEYL: Final = (0x9E3779B9, 0xBB67AE85)
"""What is added to the key in each round."""
_ROUNDS: Final = 10
_BLOCK: Final = 4
_LEAST: Final = np.float32(1e-7)
"""The smallest number whose logarithm normal numbers take."""
_RESERVED: Final = 2 * 256
"""Blocks that a call of `MULTINOMIAL` leaves out per sample, as TensorFlow's operator does."""


@dataclass(slots=True)
class _Generator:
    """The generator of an operator."""

    make: OpBuilder
    name: str
    key: tuple[int, int]
    high: tuple[int, int]
    """The upper words of positions."""
    position: Operand

    @classmethod
    def of(cls, make: OpBuilder, node: Node, seed: int, seed2: int) -> _Generator:
        evaluator: SubgraphEvaluator = make.evaluator
        name = generator_name(evaluator.subgraph, node.operator)
        first, second = _int32(seed), _int32(seed2)
        if first == 0 == second:
            first = evaluator.build.entropy
            second = zlib.crc32(name.encode())
        return cls(make, name, _words(first), _words(second), evaluator.memory.position(name))

    def blocks(self, count: int) -> list[Operand]:
        """The four words [count] of the next blocks, as uint64; the position stays."""
        make = self.make
        attributes = {"count": count, "start": 0, "step": 1}
        make.budget.take_operation(1)
        # always an operation: folding would compute with NumPy, whose logarithms differ
        iota = build(make.graph, "iota", [], attributes, location=make.location).output
        place = make("add", make.cast(iota, DType.UINT64), self.position)
        a, b = make("bitand", place, _uint64(_MASK)), make("shift_right", place, _uint64(_WORD))
        c: Operand = _uint64(self.high[0])
        d: Operand = _uint64(self.high[1])
        keys = self.key
        for _ in range(_ROUNDS):
            left, right = (make("mul", x, _uint64(y)) for x, y in zip((a, c), _FACTORS))
            a = _mixed(make, right, b, keys[0])
            c = _mixed(make, left, d, keys[1])
            b, d = (make("bitand", each, _uint64(_MASK)) for each in (right, left))
            keys = (keys[0] + _WEYL[0]) & _MASK, (keys[1] + _WEYL[1]) & _MASK
        return [a, b, c, d]

    def advance(self, count: int) -> None:
        """Begin the next call so many blocks further."""
        evaluator: SubgraphEvaluator = self.make.evaluator
        self.position = self.make("add", self.position, _uint64(count))
        evaluator.memory.assign(self.name, self.position)


def _int32(seed: int) -> int:
    """The lower 32 bits of a seed with their sign, of which LiteRT makes 64 bits."""
    return (seed + (1 << 31) & _MASK) - (1 << 31)


def _words(seed: int) -> tuple[int, int]:
    return seed & _MASK, seed >> _WORD & _MASK


def _uint64(bits: int) -> KnownTensor:
    return KnownTensor(np.array(bits, np.uint64), DType.UINT64)


def _float(number: float) -> KnownTensor:
    return KnownTensor(np.array(number, np.float64), DType.FLOAT64)


def _mixed(make: OpBuilder, product: Operand, word: Operand, key: int) -> Operand:
    """The upper word of a product, with a word and a key."""
    upper = make("shift_right", product, _uint64(_WORD))
    return make("bitxor", make("bitxor", upper, word), _uint64(key))


def _as_reals(make: OpBuilder, words: Operand, bits: int, dtype: DType) -> Operand:
    """Numbers in [0, 1) of the lower bits of words."""
    low = make("bitand", words, _uint64((1 << bits) - 1))
    real = make.cast(make.cast(low, DType.INT64), dtype)
    return make("mul", real, KnownTensor(np.array(0.5**bits, dtype.numpy), dtype))


def _in_order(make: OpBuilder, parts: list[Operand], count: int) -> Operand:
    """The items of several tensors [n] by turns, and of these the first."""
    columns = [make.reshape(each, (*each.type.dims, 1)) for each in parts]
    joined = make("concat", columns, axis=1)
    flat = make.reshape(joined, (joined.type.volume,))
    return slice_in_dim(make, flat, 0, 0, count)


def _drawn(
    make: OpBuilder, node: Node, shape: Integers, seed: int, seed2: int, *, normal: bool
) -> Operand:
    if node.output.type != "FLOAT32":
        raise OperatorError("tflite/unsupported", f"random numbers of {node.output.type}")
    check_shape(make, "shape", shape, DType.FLOAT64)
    count = math.prod(shape)
    if count == 0:
        return KnownTensor(np.zeros(shape, np.float32), DType.FLOAT32)
    generator = _Generator.of(make, node, seed, seed2)
    blocks = -(-count // _BLOCK)
    reals = [_as_reals(make, each, 23, DType.FLOAT32) for each in generator.blocks(blocks)]
    generator.advance(blocks)
    if normal:
        reals = [z for u, v in (reals[:2], reals[2:]) for z in _normal(make, u, v)]
    return make.reshape(_in_order(make, reals, count), shape)


def _normal(make: OpBuilder, u: Operand, v: Operand) -> tuple[Operand, Operand]:
    """Two normal numbers of two uniform ones, by the method of Box and Muller (1958).

    Functions are rounded from float64, which LiteRT's agree with up to the last place.
    """
    limit = KnownTensor(np.array(_LEAST), DType.FLOAT32)
    logarithm = make.cast(
        make("log", make.cast(make("max", u, limit), DType.FLOAT64)), DType.FLOAT32
    )
    radius = make("sqrt", make("mul", logarithm, -2.0))
    angle = make("mul", make.cast(v, DType.FLOAT64), _float(2 * math.pi))
    angle = make.cast(make.cast(angle, DType.FLOAT32), DType.FLOAT64)
    sine, cosine = (
        make("mul", make.cast(make(name, angle), DType.FLOAT32), radius) for name in ("sin", "cos")
    )
    return sine, cosine


@operator("RANDOM_UNIFORM", options="RandomOptions", types=("INT32",))
def random_uniform(make: OpBuilder, shape: Integers, *, seed: int, seed2: int, node: Node) -> Any:
    """Numbers in [0, 1)."""
    return _drawn(make, node, shape, seed, seed2, normal=False)


@operator("RANDOM_STANDARD_NORMAL", options="RandomOptions", types=("INT32",))
def random_standard_normal(
    make: OpBuilder, shape: Integers, *, seed: int, seed2: int, node: Node
) -> Any:
    return _drawn(make, node, shape, seed, seed2, normal=True)


@operator("MULTINOMIAL", options="RandomOptions", types=REALS)
def multinomial(
    make: OpBuilder, logits: Operand, num_samples: Integers, *, seed: int, seed2: int, node: Node
) -> Any:
    """Samples [batch, num_samples] of classes with the logarithms [batch, classes] of weights."""
    batch, classes = of_rank("multinomial", "logits", logits, 2)
    dtype = dtype_of(node.output)
    if dtype not in (DType.INT32, DType.INT64):
        raise OperatorError("tflite/unsupported", f"samples of {node.output.type}")
    if len(num_samples) != 1 or num_samples[0] < 0 or classes == 0:
        message = f"num_samples = {list(num_samples)} of {classes} classes"
        raise OperatorError("tflite/arguments", message)
    (samples,) = num_samples
    check_shape(make, "[batch, num_samples]", (batch, samples), DType.FLOAT64)
    if batch * samples == 0:
        return KnownTensor(np.zeros((batch, samples), dtype.numpy), dtype)
    generator = _Generator.of(make, node, seed, seed2)
    a, b, c, d = generator.blocks(-(-batch * samples // 2))
    generator.advance(batch * -(-samples // _BLOCK) * _BLOCK * _RESERVED)
    shares = [_as_reals(make, _pair(make, *each), 52, DType.FLOAT64) for each in ((a, b), (c, d))]
    share = make.reshape(_in_order(make, shares, batch * samples), (batch, samples))
    ends = running_sum(make, _weights(make, logits), 1)
    points = make("mul", share, slice_in_dim(make, ends, 1, classes - 1, classes))
    return make.cast(search_sorted(make, ends, points), dtype)


def _pair(make: OpBuilder, upper: Operand, lower: Operand) -> Operand:
    return make("bitor", make("shift_left", upper, _uint64(_WORD)), lower)


def _weights(make: OpBuilder, logits: Operand) -> Operand:
    """The exponentials of logits that are finite, less the largest one; 0 for the others."""
    x = make.cast(logits, DType.FLOAT64)
    limit = _float(float(np.finfo(np.float32).max))
    is_finite = make("le", make("abs", x), limit)
    finite = make("select", is_finite, x, make("neg", limit))
    weights = make("exp", make("sub", finite, make("max_reduce", finite, axes=(1,))))
    return make("select", is_finite, weights, _float(0.0))
