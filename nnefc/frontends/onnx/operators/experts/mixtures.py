"""`MoE` and `QMoE` of onnxruntime: feed-forward layers with experts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank, of_shape
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.expert_mixture import expert_mixture
from nnefc.frontends.common.operators.precision import accumulation_type
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.onnx.operators.elementwise.activations import tanh_gelu
from nnefc.frontends.onnx.operators.experts.layers import (
    Layer,
    QuantizedWeights,
    quantized_layer,
    real_layer,
)
from nnefc.frontends.onnx.registry import MICROSOFT, AttributeRecord, operator

_ACTIVATIONS: Final[dict[str, Callable[[OpBuilder, Operand], Operand]]] = {
    "relu": lambda make, x: make("relu", x),
    "relu2": lambda make, x: make("sqr", make("relu", x)),
    "gelu": tanh_gelu,
    "silu": lambda make, x: make("silu", x),
    "identity": lambda make, x: x,
}
_GATED: Final = ("swiglu", "geglu")
"""Activations whose first product is a gate, and the second one is multiplied with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertAttributes(AttributeRecord):
    """The attributes of routers and activations."""

    k: int = 1
    activation_type: str = "relu"
    activation_alpha: float = 1.0
    activation_beta: float = 0.0
    normalize_routing_weights: bool = False
    use_sparse_mixer: bool = False
    swiglu_fusion: int = 0
    """1: rows of gate and factor alternate in fc1; 2: those of the factor follow the others."""
    swiglu_limit: float = math.inf
    swiglu_limit_after_activation: bool = False

    @property
    def is_fused(self) -> bool:
        """Whether fc1 has the rows of the gate and those of the factor."""
        return self.activation_type in _GATED and self.swiglu_fusion != 0

    def check(self, experts: int, *, has_third: bool) -> None:
        """Raise OperatorError for what is not supported."""
        kinds = (*_ACTIVATIONS, *_GATED)
        wrong = ""
        if self.activation_type not in kinds:
            wrong = f"activation_type = {self.activation_type!r} is none of {', '.join(kinds)}"
        elif not 0 < self.k <= experts:
            wrong = f"k = {self.k} of {experts} experts"
        elif self.swiglu_fusion not in (0, 1, 2):
            wrong = f"swiglu_fusion = {self.swiglu_fusion}; 0, 1 or 2 is expected"
        elif self.activation_type in _GATED and self.is_fused == has_third:
            wrong = f"swiglu_fusion = {self.swiglu_fusion} with{'' if has_third else 'out'} fc3"
        if wrong:
            raise OperatorError("argument/moe", wrong)
        if self.use_sparse_mixer:
            raise OperatorError("onnx/unsupported", "use_sparse_mixer = 1")


@dataclass(frozen=True, slots=True)
class _Experts:
    """Experts w2 act(w1 x), or w2 (act(w1 x) * w3 x), with biases."""

    make: OpBuilder
    attributes: ExpertAttributes
    first: Layer
    second: Layer
    third: Layer | None

    @property
    def count(self) -> int:
        return self.first.matrices.type.dims[0]

    def __call__(self, x: Operand) -> Operand:
        return self.second.product(self.make, self._hidden(x))

    def gathered(self, numbers: Operand) -> _Experts:
        make, third = self.make, self.third
        return replace(
            self,
            first=self.first.gathered(make, numbers),
            second=self.second.gathered(make, numbers),
            third=None if third is None else third.gathered(make, numbers),
        )

    def _hidden(self, x: Operand) -> Operand:
        make, kind = self.make, self.attributes.activation_type
        gate = self.first.product(make, x)
        factor = None if self.third is None else self.third.product(make, x)
        if self.attributes.is_fused:
            gate, factor = self._halves(gate)
        if kind == "swiglu":
            assert factor is not None
            return self._swiglu(gate, factor)
        active = tanh_gelu(make, gate) if kind == "geglu" else _ACTIVATIONS[kind](make, gate)
        return active if factor is None else make("mul", active, factor)

    def _halves(self, both: Operand) -> tuple[Operand, Operand]:
        """Gate and factor [e, n, i] of their common product [e, n, 2 i]."""
        make, (experts, rows, columns) = self.make, both.type.dims
        half = columns // 2
        if self.attributes.swiglu_fusion == 2:
            ranges = ((0, half), (half, columns))
            gate, factor = (slice_in_dim(make, both, 2, *each) for each in ranges)
            return gate, factor
        pairs = make.reshape(both, (experts, rows, half, 2))
        columns_of = (slice_in_dim(make, pairs, 3, i, i + 1) for i in range(2))
        gate, factor = (make.reshape(x, (experts, rows, half)) for x in columns_of)
        return gate, factor

    def _swiglu(self, gate: Operand, factor: Operand) -> Operand:
        """g sigmoid(alpha g) (l + beta), in which g and l are clamped to the limit."""
        make, given = self.make, self.attributes
        limit, is_late = given.swiglu_limit, given.swiglu_limit_after_activation
        is_limited = math.isfinite(limit)
        if is_limited:
            factor = make("clamp", factor, -limit, limit)
            gate = gate if is_late else make("min", gate, limit)
        share = make("sigmoid", make("mul", gate, given.activation_alpha))
        active = make("mul", gate, share)
        if is_limited and is_late:
            active = make("min", active, limit)
        return make("mul", active, make("add", factor, given.activation_beta))


def _mixture(
    make: OpBuilder,
    x: Operand,
    experts: _Experts,
    weights: Operand,
    chosen: Operand,
) -> Operand:
    """The mixture for tokens x [.., hidden size], with the type of x."""
    wide = accumulation_type(x.type.dtype)
    width = x.type.dims[-1]
    tokens = make.cast(make.reshape(x, (math.prod(x.type.dims[:-1]), width)), wide)
    y = expert_mixture(make, experts, tokens, weights, chosen)
    return make.cast(make.reshape(y, x.type.dims), x.type.dtype)


def _logits(make: OpBuilder, name: str, router: Operand, x: Operand, experts: int) -> Operand:
    """Numbers of a router [tokens, experts], in the type of sums; raises OperatorError."""
    tokens = math.prod(of_rank("moe", "input", x, 2, 3)[:-1])
    flat = make.reshape(router, (math.prod(router.type.dims[:-1]), router.type.dims[-1]))
    of_shape("moe", name, flat, (tokens, experts))
    return make.cast(flat, accumulation_type(x.type.dtype))


@operator("MoE", domain=MICROSOFT)
def moe(
    make: OpBuilder,
    input: Operand,
    router_probs: Operand,
    fc1_experts_weights: Operand,
    fc1_experts_bias: Operand | None,
    fc2_experts_weights: Operand,
    fc2_experts_bias: Operand | None = None,
    fc3_experts_weights: Operand | None = None,
    fc3_experts_bias: Operand | None = None,
    *,
    attributes: ExpertAttributes,
) -> Any:
    """The sum of the k experts of each token with the largest probabilities, times these.

    Probabilities are the softmax of router_probs, over all experts or, if
    `normalize_routing_weights`, over the chosen ones.
    """
    experts, rows, width = of_rank("moe", "fc1_experts_weights", fc1_experts_weights, 3)
    attributes.check(experts, has_third=fc3_experts_weights is not None)
    inner = rows // 2 if attributes.is_fused else rows
    first = real_layer(
        make, "fc1", fc1_experts_weights, fc1_experts_bias, (experts, rows, input.type.dims[-1])
    )
    second = real_layer(make, "fc2", fc2_experts_weights, fc2_experts_bias, (experts, width, inner))
    third = None
    if fc3_experts_weights is not None:
        shape = (experts, inner, width)
        third = real_layer(make, "fc3", fc3_experts_weights, fc3_experts_bias, shape)
    logits = _logits(make, "router_probs", router_probs, input, experts)
    best, chosen = make("topk", logits, k=attributes.k, axis=1, largest=True)
    if attributes.normalize_routing_weights:
        weights = make("softmax", best, axes=(1,))
    else:
        weights = make("gather_elements", make("softmax", logits, axes=(1,)), chosen, axis=1)
    batch = _Experts(make, attributes, first, second, third)
    return _mixture(make, input, batch, weights, chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationAttributes(AttributeRecord):
    """How the weights of experts are quantized."""

    quant_type: str = "int"
    expert_weight_bits: int = 4
    fc1_expert_weight_bits: int | None = None
    fc2_expert_weight_bits: int | None = None
    fc3_expert_weight_bits: int | None = None
    block_size: int = 0
    weights_prepacked: int = -1
    accuracy_level: int = 0

    @property
    def bits(self) -> tuple[int, int, int]:
        """Bits of the codes of each layer."""
        own = (self.fc1_expert_weight_bits, self.fc2_expert_weight_bits)
        given = (*own, self.fc3_expert_weight_bits)
        first, second, third = (self.expert_weight_bits if n is None else n for n in given)
        return first, second, third

    def check(self) -> None:
        """Raise OperatorError for what is not supported."""
        if self.quant_type != "int" or not {*self.bits} <= {2, 4, 8}:
            bits = " and ".join(str(n) for n in sorted({*self.bits}))
            message = f"quant_type = {self.quant_type!r} with {bits} bits"
            hint = "integers of 2, 4 or 8 bits are supported"
            raise OperatorError("onnx/unsupported", message, hint)
        if self.weights_prepacked == 1:
            message = "weights_prepacked = 1: weights in an order for other devices"
            raise OperatorError("onnx/unsupported", message)
        if self.block_size < 0 or 0 < self.block_size < 16:
            message = f"block_size = {self.block_size}; at least 16 is expected"
            raise OperatorError("argument/moe", message)

    def layer(
        self,
        make: OpBuilder,
        number: int,
        given: tuple[Operand | None, ...],
        shape: tuple[int, int, int],
    ) -> Layer:
        """Layer 1, 2 or 3 of a shape; `given`: weights, scales, zero points and bias."""
        codes, scales, zeros, bias = given
        if codes is None or scales is None:
            raise OperatorError("onnx/arguments", f"'fc{number}_scales' is missing")
        rounded, bits = self.accuracy_level >= 2, self.bits[number - 1]
        weights = QuantizedWeights(codes, scales, zeros, bits, self.block_size, rounded)
        return quantized_layer(make, f"fc{number}", weights, bias, shape)


@operator("QMoE", domain=MICROSOFT)
def qmoe(
    make: OpBuilder,
    input: Operand,
    router_probs: Operand,
    fc1_experts_weights: Operand,
    fc1_scales: Operand | None,
    fc1_experts_bias: Operand | None,
    fc2_experts_weights: Operand,
    fc2_scales: Operand | None = None,
    fc2_experts_bias: Operand | None = None,
    fc3_experts_weights: Operand | None = None,
    fc3_scales: Operand | None = None,
    fc3_experts_bias: Operand | None = None,
    fc1_zero_points: Operand | None = None,
    fc2_zero_points: Operand | None = None,
    fc3_zero_points: Operand | None = None,
    router_weights: Operand | None = None,
    *,
    attributes: ExpertAttributes,
    quantization: QuantizationAttributes,
) -> Any:
    """`MoE` with quantized weights.

    As in onnxruntime, the factors of the chosen experts are the softmax of their router_probs, or
    router_weights, divided by their sum if `normalize_routing_weights`.
    """
    experts, rows, _ = of_rank("moe", "fc1_experts_weights", fc1_experts_weights, 3)
    attributes.check(experts, has_third=fc3_experts_weights is not None)
    quantization.check()
    width = input.type.dims[-1]
    inner = rows // 2 if attributes.is_fused else rows
    firsts = (fc1_experts_weights, fc1_scales, fc1_zero_points, fc1_experts_bias)
    seconds = (fc2_experts_weights, fc2_scales, fc2_zero_points, fc2_experts_bias)
    thirds = (fc3_experts_weights, fc3_scales, fc3_zero_points, fc3_experts_bias)
    first = quantization.layer(make, 1, firsts, (experts, rows, width))
    second = quantization.layer(make, 2, seconds, (experts, width, inner))
    third = None
    if fc3_experts_weights is not None:
        third = quantization.layer(make, 3, thirds, (experts, inner, width))
    logits = _logits(make, "router_probs", router_probs, input, experts)
    best, chosen = make("topk", logits, k=attributes.k, axis=1, largest=True)
    if router_weights is None:
        weights = make("softmax", best, axes=(1,))
    else:
        all_weights = _logits(make, "router_weights", router_weights, input, experts)
        weights = make("gather_elements", all_weights, chosen, axis=1)
        if attributes.normalize_routing_weights:
            weights = make("div", weights, make("sum_reduce", weights, axes=(1,)))
    batch = _Experts(make, attributes, first, second, third)
    return _mixture(make, input, batch, weights, chosen)
