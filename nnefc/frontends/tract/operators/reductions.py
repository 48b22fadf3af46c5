"""Reductions, softmax and normalization."""

from __future__ import annotations

from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_shape
from nnefc.frontends.common.operators import boolean_arithmetic
from nnefc.frontends.common.operators.axes import normalize_axes, normalize_axis
from nnefc.frontends.common.values import Operand, OperatorError, datum_type, has_no_items
from nnefc.frontends.tract.registry import NO_TYPE, TypeName, operator
from nnefc.ir import DType, Value


@operator("tract_nnef")
def sum_reduce(
    make: OpBuilder, input: Operand, axes: tuple[int, ...], normalize: bool = False
) -> Any:
    where = normalize_axes(axes, input.type.rank)
    if boolean_arithmetic.are_booleans(input):
        input = make.cast(input, DType.INT64)
    return make("sum_reduce", input, axes=where, normalize=normalize)


def _register_reduction(
    registry: str, name: str, prefix: str = "", of: DType | None = None
) -> None:
    """Register the reduction `prefix` + `name`; items are cast to `of` first, if given."""

    def function(make: OpBuilder, input: Operand, axes: tuple[int, ...]) -> Any:
        x = input if of is None else make.cast(input, of)
        where = normalize_axes(axes, x.type.rank)
        if of is None and boolean_arithmetic.are_booleans(x):
            return boolean_arithmetic.reduction(make, name, x, where)
        return make(name, x, axes=where)

    function.__name__ = prefix + name
    operator(registry)(function)


for _name in ("mean_reduce", "max_reduce", "min_reduce", "moments"):
    _register_reduction("tract_nnef", _name)
for _name in ("all_reduce", "any_reduce"):
    _register_reduction("tract_nnef", _name, of=DType.BOOL)
for _name in ("product_reduce", "argmax_reduce_last", "argmin_reduce_last"):
    _register_reduction("tract_core", _name, "tract_core_")


def _register_arg_reduction(name: str) -> None:
    """Register an operator for the index of the first extreme, as int64."""

    def function(make: OpBuilder, input: Operand, axes: tuple[int, ...]) -> Any:
        where = normalize_axes(axes, input.type.rank)
        if boolean_arithmetic.are_booleans(input):
            return make.cast(boolean_arithmetic.reduction(make, name, input, where), DType.INT64)
        y = make(name, input, axes=where)
        if isinstance(y, Value) and y.op is not None:
            y.type = y.type.with_dtype(DType.INT64)
            return y
        return make.cast(y, DType.INT64)

    function.__name__ = name
    operator("tract_nnef")(function)


for _name in ("argmax_reduce", "argmin_reduce"):
    _register_arg_reduction(_name)


# -- softmax


@operator("tract_nnef")
def softmax(make: OpBuilder, x: Operand, axes: tuple[int, ...] = (1,)) -> Any:
    """Dimensions beyond the last one have extent 1, as everywhere in NNEF."""
    dims = x.type.dims
    rank = max(len(dims), *(axis + 1 for axis in axes), 1)
    if rank > make.budget.limits.rank:
        raise OperatorError("operator/axis", f"axes = {list(axes)} are outside any tensor")
    full = make.reshape(x, dims + (1,) * (rank - len(dims)))
    return make.reshape(make("softmax", full, axes=normalize_axes(axes, rank)), dims)


@operator("tract_core")
def tract_core_softmax(make: OpBuilder, x: Operand, axes: tuple[int, ...], exp: Any = "") -> Any:
    del exp  # tract's choice of an exact or a fast exponential
    return softmax(make, x, axes)


@operator("tract_core")
def tract_core_log_softmax(make: OpBuilder, x: Operand, axes: tuple[int, ...]) -> Any:
    """x - max - log(sum(exp(x - max)))."""
    where = normalize_axes(axes, x.type.rank)
    if has_no_items(x):
        return x
    shifted = make("sub", x, make("max_reduce", x, axes=where))
    total = make("sum_reduce", make("exp", shifted), axes=where)
    return make("sub", shifted, make("log", total))


# -- normalization


@operator("tract_core", "tract_transformers_rms_norm")
def tract_core_rms_norm(make: OpBuilder, input: Operand, axis: int, eps: float = 1e-6) -> Any:
    """x / sqrt(mean(x^2) + eps) along an axis, computed in at least float32."""
    return make.cast(_normal(make, input, axis, eps), input.type.dtype)


@operator("tract_core")
def tract_core_scaled_rms_norm(
    make: OpBuilder,
    input: Operand,
    scale: Operand,
    axis: int,
    eps: float = 1e-6,
    out_dt: TypeName = NO_TYPE,
    scale_dt: TypeName = NO_TYPE,
) -> Any:
    """scale x / sqrt(mean(x^2) + eps), with `scale` along the axis.

    The quotient is rounded to `scale_dt` before it is scaled; the result has type `out_dt`, or that
    of the input.
    """
    at = normalize_axis(axis, input.type.rank)
    of_shape("scaled_rms_norm", "scale", scale, (input.type.dims[at],))
    normal = _normal(make, input, axis, eps)
    wide = normal.type.dtype
    if scale_dt:
        normal = make.cast(make.cast(normal, datum_type(scale_dt).dtype), wide)
    dims = tuple(extent if i == at else 1 for i, extent in enumerate(input.type.dims))
    y = make("mul", normal, make.reshape(make.cast(scale, wide), dims))
    return make.cast(y, datum_type(out_dt).dtype if out_dt else input.type.dtype)


def _normal(make: OpBuilder, input: Operand, axis: int, eps: float) -> Operand:
    """x / sqrt(mean(x^2) + eps) in float32, or in float64 for an input of float64."""
    at = normalize_axis(axis, input.type.rank)
    dtype = input.type.dtype
    wide = dtype if dtype in (DType.FLOAT32, DType.FLOAT64) else DType.FLOAT32
    x = make.cast(input, wide)
    mean = make("sum_reduce", make("sqr", x), axes=(at,), normalize=True)
    return make("mul", x, make("rsqrt", make("add", mean, eps)))


@operator("tract_nnef")
def batch_normalization(
    make: OpBuilder,
    input: Operand,
    mean: Operand,
    variance: Operand,
    offset: Operand,
    scale: Operand,
    epsilon: float,
) -> Any:
    dtype = input.type.dtype
    parameters = [_channels(make, make.cast(x, dtype)) for x in (mean, variance, offset, scale)]
    return make("batch_normalization", input, *parameters, epsilon=epsilon)


def _channels(make: OpBuilder, x: Operand) -> Operand:
    """A parameter of any shape as [1, channels]; a scalar is unchanged."""
    return x if x.type.volume == 1 and not x.type.rank else make.reshape(x, (1, x.type.volume))


@operator("tract_nnef")
def local_response_normalization(
    make: OpBuilder,
    input: Operand,
    size: tuple[int, ...],
    alpha: float = 1.0,
    beta: float = 0.5,
    bias: float = 1.0,
) -> Any:
    name = "local_response_normalization"
    return make(name, input, size=size, alpha=alpha, beta=beta, bias=bias)


@operator("tract_onnx")
def tract_onnx_lrn(
    make: OpBuilder,
    input: Operand,
    alpha: float = 1e-4,
    beta: float = 0.75,
    bias: float = 1.0,
    size: int = 1,
) -> Any:
    """Local response normalization over `size` channels; alpha is divided by their number."""
    window = (1, size) + (1,) * (input.type.rank - 2)
    return local_response_normalization(make, input, window, alpha, beta, bias)


@operator("tract_nnef")
def l1_normalization(
    make: OpBuilder, input: Operand, axes: tuple[int, ...], bias: float = 0.0, epsilon: float = 0.0
) -> Any:
    where = normalize_axes(axes, input.type.rank)
    return make("l1_normalization", input, axes=where, bias=bias, epsilon=epsilon)


@operator("tract_nnef")
def l2_normalization(
    make: OpBuilder, input: Operand, axes: tuple[int, ...], bias: float = 0.0, epsilon: float = 0.0
) -> Any:
    where = normalize_axes(axes, input.type.rank)
    return make("l2_normalization", input, axes=where, bias=bias, epsilon=epsilon)
