"""Random numbers.  They differ from call to call; a reset model repeats them.

With a `seed` every process gives the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onnx import TensorProto

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import check_shape, of_rank
from nnefc.frontends.common.operators.random_numbers import (
    DISTRIBUTIONS,
    RandomGenerator,
    draw_classes,
)
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.onnx.registry import Integers, operator
from nnefc.frontends.onnx.tensors import dtype_of, type_name
from nnefc.ir import DType

if TYPE_CHECKING:
    from nnefc.frontends.onnx.evaluate import GraphEvaluator


@operator("RandomNormal")
def random_normal(
    make: OpBuilder,
    *,
    shape: Integers,
    dtype: int = TensorProto.FLOAT,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Any:
    return _random(make, "normal", shape, _real_type(dtype), (mean, scale), seed)


@operator("RandomUniform")
def random_uniform(
    make: OpBuilder,
    *,
    shape: Integers,
    dtype: int = TensorProto.FLOAT,
    low: float = 0.0,
    high: float = 1.0,
    seed: float | None = None,
) -> Any:
    return _random(make, "uniform", shape, _real_type(dtype), (low, high), seed)


@operator("RandomNormalLike")
def random_normal_like(
    make: OpBuilder,
    input: Operand,
    *,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Any:
    return _random(make, "normal", input.type.dims, _type_like(input, dtype), (mean, scale), seed)


@operator("RandomUniformLike")
def random_uniform_like(
    make: OpBuilder,
    input: Operand,
    *,
    dtype: int | None = None,
    low: float = 0.0,
    high: float = 1.0,
    seed: float | None = None,
) -> Any:
    return _random(make, "uniform", input.type.dims, _type_like(input, dtype), (low, high), seed)


@operator("Bernoulli", since=15)
def bernoulli(
    make: OpBuilder, input: Operand, *, dtype: int | None = None, seed: float | None = None
) -> Any:
    """1 with the probability that the input gives, otherwise 0."""
    result = input.type.dtype if dtype is None else dtype_of(dtype)
    if result is None:
        raise OperatorError("onnx/unsupported", f"a tensor of {type_name(dtype or 0)}")
    drawn = _random(make, "uniform", input.type.dims, DType.FLOAT64, (0.0, 1.0), seed)
    return make.cast(make("lt", drawn, make.cast(input, DType.FLOAT64)), result)


@operator("Multinomial")
def multinomial(
    make: OpBuilder,
    input: Operand,
    *,
    dtype: int = TensorProto.INT32,
    sample_size: int = 1,
    seed: float | None = None,
) -> Any:
    """Samples [batch, sample_size] of classes, with the logarithms of their weights as input
    [batch, classes].
    """
    batch, classes = of_rank("multinomial", "input", input, 2)
    result = dtype_of(dtype)
    if result not in (DType.INT32, DType.INT64):
        raise OperatorError("onnx/type", f"dtype is {type_name(dtype)}; it is INT32 or INT64")
    if classes == 0:
        message = f"input has shape {list(input.type.dims)}: there is no class to draw"
        raise OperatorError("onnx/shape", message)
    check_shape(make, "[batch, sample_size]", (batch, sample_size), DType.FLOAT64)
    generator = _generator(make, seed)
    drawn = draw_classes(generator, input, sample_size)
    generator.store()
    return make.cast(drawn, result)


def _random(
    make: OpBuilder,
    kind: str,
    shape: Sequence[int],
    dtype: DType,
    parameters: tuple[float, float],
    seed: float | None,
) -> Operand:
    """Numbers of a distribution; raises OperatorError."""
    if not all(map(math.isfinite, parameters)):
        raise OperatorError("onnx/arguments", f"{list(parameters)} must be finite")
    check_shape(make, "shape", tuple(shape), DType.FLOAT64)
    generator = _generator(make, seed)
    items = DISTRIBUTIONS[kind](generator, math.prod(shape), dtype, *parameters)
    generator.store()
    return make.reshape(make.cast(items, dtype), shape)


def _generator(make: OpBuilder, seed: float | None) -> RandomGenerator:
    evaluator: GraphEvaluator = make.evaluator
    states, entropy = evaluator.states, evaluator.model.entropy
    return RandomGenerator.of(make, evaluator.root, states, entropy, seed)


def _type_like(input: Operand, dtype: int | None) -> DType:
    if dtype is not None:
        return _real_type(dtype)
    if not input.type.dtype.is_float:
        message = f"input is {input.type}; dtype must say which real type the numbers have"
        raise OperatorError("onnx/type", message)
    return input.type.dtype


def _real_type(dtype: int) -> DType:
    found = dtype_of(dtype)
    if found is None or not found.is_float:
        message = f"dtype is {type_name(dtype)}; random numbers are reals"
        raise OperatorError("onnx/type", message)
    return found
