"""Random numbers (`nnefc.frontends.common.operators.random_numbers`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import check_shape, of_rank
from nnefc.frontends.common.operators.random_numbers import (
    DISTRIBUTIONS,
    RandomGenerator,
    draw_classes,
)
from nnefc.frontends.common.values import (
    KnownTensor,
    Operand,
    OperatorError,
    named_type,
    scalar,
)
from nnefc.frontends.tract.registry import operator
from nnefc.ir import DType
from nnefc.ops.core.interface import sequence

if TYPE_CHECKING:
    from nnefc.frontends.tract.model_context import ModelContext

_MULTINOMIAL_TYPES: Final = {6: DType.INT32, 7: DType.INT64}
"""Item types by the numbers of ONNX's TensorProto.DataType."""


@operator("tract_onnx")
def tract_onnx_random(
    make: OpBuilder,
    datum_type: str,
    shape: tuple[int, ...],
    dist: str,
    parameters: Any,
    seed: Any = None,
) -> Any:
    """Random numbers that differ from call to call: `uniform` in [low, high), or `normal` with mean
    and deviation.

    A reset model repeats them; with a `seed` every process gives the same ones.
    """
    dtype = named_type(datum_type).dtype
    if not dtype.is_float:
        raise OperatorError("argument/random", f"datum_type = {datum_type!r} is not a real type")
    if dist not in DISTRIBUTIONS:
        known = " or ".join(DISTRIBUTIONS)
        raise OperatorError("argument/random", f"dist = {dist!r}; {known} is expected")
    given = sequence(parameters)
    if isinstance(parameters, KnownTensor):
        given = parameters.array.reshape(-1).tolist()
    if given is None or len(given) != 2:
        raise OperatorError("argument/random", f"parameters: two numbers are expected of {dist}")
    check_shape(make, "shape", shape, DType.FLOAT64)
    first, second = (scalar(x) for x in given)
    if not (math.isfinite(first) and math.isfinite(second)):
        raise OperatorError("argument/random", f"parameters = {[first, second]} must be finite")
    generator = _generator(make, seed)
    items = DISTRIBUTIONS[dist](generator, math.prod(shape), dtype, first, second)
    generator.store()
    return make.reshape(make.cast(items, dtype), shape)


@operator("tract_onnx")
def tract_onnx_multinomial(
    make: OpBuilder, input: Operand, dtype: int = 6, sample_size: int = 1, seed: Any = None
) -> Any:
    """Samples [batch, sample_size] of classes, with the logarithms of their weights as input
    [batch, classes].

    Samples differ from call to call as in `tract_onnx_random`; tract repeats those of a seed.
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
    generator = _generator(make, seed)
    drawn = draw_classes(generator, input, sample_size)
    generator.store()
    return make.cast(drawn, _MULTINOMIAL_TYPES[dtype])


def _generator(make: OpBuilder, seed: Any) -> RandomGenerator:
    model: ModelContext = make.evaluator.context.model
    entropy = model.source_state.entropy
    return RandomGenerator.of(make, model.graph, model.states, entropy, seed)
