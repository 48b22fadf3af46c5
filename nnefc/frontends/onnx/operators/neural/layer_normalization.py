"""Normalisation of the last dimensions, alone and with the sums and lookups before it."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank, of_shape
from nnefc.frontends.common.operators.axes import normalize_axis
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.onnx.operators.neural.normalization_steps import (
    Normalized,
    check_broadcasts,
    normalized,
    scaled,
)
from nnefc.frontends.onnx.operators.neural.normalization_steps import (
    stash_type as type_of_statistics,
)
from nnefc.frontends.onnx.registry import MICROSOFT, operator
from nnefc.ir import DType


def _of_last(
    make: OpBuilder, x: Operand, axis: int, epsilon: float, *, centred: bool = True
) -> Normalized:
    """A tensor normalised from `axis` on; raises OperatorError."""
    rank = x.type.rank
    first = normalize_axis(axis, rank)
    return normalized(make, x, range(first, rank), epsilon, centred=centred)


@operator("LayerNormalization")
def layer_normalization(
    make: OpBuilder,
    X: Operand,
    Scale: Operand,
    B: Operand | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Any:
    """The result, the means, and the reciprocals of the deviations."""
    y = _of_last(make, X, axis, epsilon)
    assert y.mean is not None
    dtype = type_of_statistics(stash_type)
    statistics = (make.cast(x, dtype) for x in (y.mean, make("rcp", y.deviation)))
    return scaled(make, y.items, Scale, B, X.type.dtype), *statistics


@operator("RMSNormalization", since=23)
def rms_normalization(
    make: OpBuilder,
    X: Operand,
    scale: Operand,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Any:
    """x / sqrt(mean(x^2) + epsilon), times `scale`."""
    del stash_type  # sums are computed in float32 at least
    y = _of_last(make, X, axis, epsilon, centred=False)
    return scaled(make, y.items, scale, None, scale.type.dtype)


@operator("SimplifiedLayerNormalization")
@operator("SimplifiedLayerNormalization", domain=MICROSOFT)
def simplified_layer_normalization(
    make: OpBuilder,
    X: Operand,
    scale: Operand,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Any:
    """The result as `RMSNormalization`, and the reciprocals of the deviations."""
    y = _of_last(make, X, axis, epsilon, centred=False)
    inverse = make.cast(make("rcp", y.deviation), type_of_statistics(stash_type))
    return scaled(make, y.items, scale, None, scale.type.dtype), inverse


@operator("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(
    make: OpBuilder,
    input: Operand,
    skip: Operand,
    gamma: Operand,
    beta: Operand | None = None,
    bias: Operand | None = None,
    *,
    epsilon: float = 1e-12,
) -> Any:
    """The normalised sum of input, skip and bias, its statistics, and the sum."""
    total = _sum(make, input, skip, bias)
    y = _of_last(make, total, -1, epsilon)
    assert y.mean is not None
    statistics = (make.cast(x, DType.FLOAT32) for x in (y.mean, make("rcp", y.deviation)))
    return scaled(make, y.items, gamma, beta, input.type.dtype), *statistics, total


@operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(
    make: OpBuilder,
    input: Operand,
    skip: Operand,
    gamma: Operand,
    bias: Operand | None = None,
    *,
    epsilon: float = 1e-12,
) -> Any:
    """As `SkipLayerNormalization`, without the mean, whose result is missing."""
    total = _sum(make, input, skip, bias)
    y = _of_last(make, total, -1, epsilon, centred=False)
    inverse = make.cast(make("rcp", y.deviation), DType.FLOAT32)
    return scaled(make, y.items, gamma, None, input.type.dtype), None, inverse, total


def _sum(make: OpBuilder, x: Operand, skip: Operand, bias: Operand | None) -> Operand:
    """x + skip + bias, aligned at the last dimension; raises OperatorError."""
    for term in (skip, bias):
        if term is not None:
            check_broadcasts(x, term)
            x = make("add", x, make.aligned_right(term, x.type.rank))
    return x


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(
    make: OpBuilder,
    input_ids: Operand,
    segment_ids: Operand | None,
    word_embedding: Operand,
    position_embedding: Operand,
    segment_embedding: Operand | None,
    gamma: Operand,
    beta: Operand,
    mask: Operand | None = None,
    position_ids: Operand | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> Any:
    """The normalised sum of embeddings, the number of words of each sample, and the sum.

    Words have mask 1; without a mask the numbers are 0.
    """
    del mask_index_type
    batch, length = of_rank("embed_layer_normalization", "input_ids", input_ids, 2)
    total = make("gather", word_embedding, make.cast(input_ids, DType.INT64), axis=0)
    if position_ids is None:
        position_ids = make.reshape(make.iota(length), (1, length))
    places = make.cast(position_ids, DType.INT64)
    total = make("add", total, make("gather", position_embedding, places, axis=0))
    if (segment_ids is None) != (segment_embedding is None):
        message = "segment_ids and segment_embedding belong together"
        raise OperatorError("argument/embed_layer_normalization", message)
    if segment_ids is not None and segment_embedding is not None:
        segments = make.cast(segment_ids, DType.INT64)
        total = make("add", total, make("gather", segment_embedding, segments, axis=0))
    y = scaled(make, _of_last(make, total, -1, epsilon).items, gamma, beta, total.type.dtype)
    if mask is None:
        zero = KnownTensor(np.zeros(1, np.int32), DType.INT32)
        return y, make.repeated(zero, (batch,)), total
    of_shape("embed_layer_normalization", "mask", mask, (batch, length))
    words = make("sum_reduce", make.cast(mask, DType.INT32), axes=(1,))
    return y, make.reshape(words, (batch,)), total
