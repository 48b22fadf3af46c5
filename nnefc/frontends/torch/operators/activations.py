"""Activation functions, of one operand or with weights."""

from __future__ import annotations

import math
from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis, slice_in_dim
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.torch.item_types import tensor
from nnefc.frontends.torch.operators.elementwise import scaled
from nnefc.frontends.torch.registry import Number, operator


@operator("aten.gelu.default")
def gelu(make: OpBuilder, self: Operand, approximate: str = "none") -> Any:
    """x Phi(x), or its approximation by tanh."""
    if approximate == "none":
        distribution = make("add", make("erf", make("mul", self, math.sqrt(0.5))), 1.0)
        return make("mul", make("mul", self, 0.5), distribution)
    cube = make("mul", make("mul", self, self), self)
    inner = make("mul", make("add", self, make("mul", cube, 0.044715)), math.sqrt(2 / math.pi))
    return make("mul", make("mul", self, 0.5), make("add", make("tanh", inner), 1.0))


@operator("aten.silu.default")
def silu(make: OpBuilder, self: Operand) -> Any:
    return make("silu", self)


@operator("aten.relu6.default")
def relu6(make: OpBuilder, self: Operand) -> Any:
    return make("clamp", self, 0.0, 6.0)


@operator("aten.hardtanh.default")
def hardtanh(make: OpBuilder, self: Operand, min_val: Number = -1, max_val: Number = 1) -> Any:
    dtype = self.type.dtype
    return make("clamp", self, *(tensor(make, each, dtype) for each in (min_val, max_val)))


@operator("aten.hardsigmoid.default")
def hardsigmoid(make: OpBuilder, self: Operand) -> Any:
    return make("clamp", make("add", make("mul", self, 1 / 6), 0.5), 0.0, 1.0)


@operator("aten.hardswish.default")
def hardswish(make: OpBuilder, self: Operand) -> Any:
    return make("mul", self, hardsigmoid(make, self))


@operator("aten.leaky_relu.default")
def leaky_relu(make: OpBuilder, self: Operand, negative_slope: float = 0.01) -> Any:
    return make("leaky_relu", self, alpha=negative_slope)


@operator("aten.rrelu_with_noise_functional.default")
def rrelu(
    make: OpBuilder,
    self: Operand,
    noise: Operand,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
) -> Any:
    """The mean slope, unless slopes are random; and the noise of slopes."""
    if training:
        raise OperatorError("torch/training", "slopes are random", "call module.eval() first")
    return make("leaky_relu", self, alpha=(lower + upper) / 2), noise


@operator("aten.elu.default")
def elu(
    make: OpBuilder,
    self: Operand,
    alpha: float = 1.0,
    scale: float = 1.0,
    input_scale: float = 1.0,
) -> Any:
    if scale == input_scale == 1.0:
        return make("elu", self, alpha=alpha)
    negative = make("mul", make("sub", make("exp", make("mul", self, input_scale)), 1.0), alpha)
    both = make("select", make("gt", self, 0.0), self, negative)
    return make("mul", both, scale)


@operator("aten.selu.default")
def selu(make: OpBuilder, self: Operand) -> Any:
    return make("mul", make("elu", self, alpha=_SELU_ALPHA), _SELU_SCALE)


_SELU_ALPHA: Final = 1.6732632423543772
_SELU_SCALE: Final = 1.0507009873554805
"""Source: aten/src/ATen/native/Activation.cpp."""


@operator("aten.log_sigmoid.default")
def log_sigmoid(make: OpBuilder, self: Operand) -> Any:
    return make("neg", make("softplus", make("neg", self)))


@operator("aten.softplus.default")
def softplus(make: OpBuilder, self: Operand, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta x)) / beta, and x above `threshold` / beta."""
    steep = scaled(make, self, beta)
    soft = make("div", make("softplus", steep), beta) if beta != 1 else make("softplus", steep)
    return make("select", make("gt", steep, threshold), self, soft)


@operator("aten.glu.default")
def glu(make: OpBuilder, self: Operand, dim: int = -1) -> Any:
    """The first half along an axis, times the sigmoid of the second."""
    at = normalize_axis(dim, self.type.rank)
    extent = self.type.dims[at]
    first = slice_in_dim(make, self, at, 0, extent // 2)
    return make("mul", first, make("sigmoid", slice_in_dim(make, self, at, extent // 2, extent)))


@operator("aten.mish.default")
def mish(make: OpBuilder, self: Operand) -> Any:
    return make("mul", self, make("tanh", make("softplus", self)))


@operator("aten.prelu.default", "aten._prelu_kernel.default")
def prelu(make: OpBuilder, self: Operand, weight: Operand) -> Any:
    if weight.type.rank != self.type.rank:
        rest = (1,) * max(self.type.rank - 2, 0)
        shape = (1, weight.type.volume, *rest) if self.type.rank > 1 else (1,)
        weight = make.reshape(weight, shape[: self.type.rank] if self.type.rank else ())
    return make("prelu", self, weight)
