"""Mixtures of experts (`tract_moe_ffn`; Shazeer et al. 2017): a router selects k per token."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank, of_shape
from nnefc.frontends.common.operators.expert_mixture import expert_mixture
from nnefc.frontends.common.values import Operand, OperatorError, scalar
from nnefc.frontends.tract.operators.arithmetic import tract_core_gelu_approx
from nnefc.frontends.tract.operators.gathering import tract_core_gather
from nnefc.frontends.tract.operators.products import matmul
from nnefc.frontends.tract.registry import operator
from nnefc.ir import DType

_ACTIVATIONS: Final = ("swiglu", "silu", "gelu", "relu")
_GATES: Final = ("softmax_topk", "softmax_all", "sigmoid", "raw")
_LAYOUTS: Final = ("canonical", "linear")


@operator("tract_transformers")
def tract_moe_ffn(
    make: OpBuilder,
    x: Operand,
    wg: Operand,
    w1: Operand,
    w2: Operand,
    w3: Operand | None = None,
    wg_bias: Operand | None = None,
    w1_bias: Operand | None = None,
    w3_bias: Operand | None = None,
    w2_bias: Operand | None = None,
    k: int = 1,
    activation: str = "swiglu",
    gate: str = "softmax_topk",
    act_alpha: Any = False,
    act_limit: Any = False,
    expert_layout: str = "canonical",
) -> Any:
    """Feed-forward layer with experts: the weighted sum of the k experts selected for each token.

    x [.., d], wg [e, d], biases [e, ..]; w1 and w3 [e, d, h], w2 [e, h, d], or transposed if the
    layout is `linear`.  An expert is w2 (act(w1 x) * w3 x).
    """
    for name, value, known in (
        ("activation", activation, _ACTIVATIONS),
        ("gate", gate, _GATES),
        ("expert_layout", expert_layout, _LAYOUTS),
    ):
        if value not in known:
            raise OperatorError(
                "argument/moe_ffn", f"{name} = {value!r} is none of {', '.join(known)}"
            )
    shape = of_rank("moe_ffn", "x", x, 2, 3)
    width = shape[-1]
    experts = of_rank("moe_ffn", "wg", wg, 2)[0]
    if not 0 < k <= experts:
        raise OperatorError("argument/moe_ffn", f"k = {k} of {experts} experts")
    dtype = x.type.dtype
    wide = DType.FLOAT64 if dtype is DType.FLOAT64 else DType.FLOAT32
    tokens = make.cast(make.reshape(x, (math.prod(shape[:-1]), width)), wide)
    weights, chosen = _route(make, tokens, wg, wg_bias, k, gate)
    matrices = tuple(None if w is None else _floats(make, w, wide) for w in (w1, w2, w3))
    biases = tuple(
        None if b is None else make.reshape(make.cast(b, wide), (experts, 1, b.type.dims[-1]))
        for b in (w1_bias, w2_bias, w3_bias)
    )
    is_linear = expert_layout == "linear"
    ffn = _Experts(make, activation, act_alpha, act_limit, is_linear, matrices, biases)
    y = expert_mixture(make, ffn, tokens, weights, chosen)
    return make.cast(make.reshape(y, shape), dtype)


def _route(
    make: OpBuilder, tokens: Operand, wg: Operand, bias: Operand | None, k: int, gate: str
) -> tuple[Operand, Operand]:
    """Weights and indices of the selected experts of each token, both [n, k]."""
    logits = matmul(make, tokens, make.cast(wg, tokens.type.dtype), False, True)
    if bias is not None:
        flat = make.reshape(make.cast(bias, tokens.type.dtype), (1, bias.type.volume))
        logits = make("add", logits, flat)
    if gate == "softmax_all":
        logits = make("softmax", logits, axes=(1,))
    best, chosen = make("topk", logits, k=k, axis=1, largest=True)
    if gate == "softmax_topk":
        best = make("softmax", best, axes=(1,))
    elif gate == "sigmoid":
        best = make("sigmoid", best)
    return best, chosen


def _floats(make: OpBuilder, weight: Operand, dtype: DType) -> Operand:
    """A weight of reals cast to `dtype`; others unchanged."""
    return make.cast(weight, dtype) if weight.type.dtype.is_float else weight


def _clamped(make: OpBuilder, gate: Operand, up: Operand, alpha: Any, limit: Any) -> Operand:
    """OpenAI's clamped SwiGLU: (u + 1) g sigmoid(alpha g), g = min(gate, limit), u = clamp(up)."""
    gate = make("min", gate, limit)
    up = make("add", make("clamp", up, -limit, limit), 1.0)
    return make("mul", up, make("mul", gate, make("sigmoid", make("mul", gate, alpha))))


@operator("tract_core")
def tract_core_clamped_swiglu(
    make: OpBuilder, gate: Operand, up: Operand, alpha: float, limit: float
) -> Any:
    """(u + 1) g sigmoid(alpha g) in float32, g = min(gate, limit), u = clamp(up, -limit, limit)."""
    of_shape("clamped_swiglu", "up", up, gate.type.dims)
    if not (math.isfinite(alpha) and 0 < limit < math.inf):
        message = f"alpha = {alpha} and limit = {limit} must be finite, and limit positive"
        raise OperatorError("argument/clamped_swiglu", message)
    g, u = (make.cast(x, DType.FLOAT32) for x in (gate, up))
    return _clamped(make, g, u, alpha, limit)


_Tensors = tuple[Operand | None, ...]
"""Matrices w1, w2, w3 [e, .., ..], or biases of these [e, 1, ..]; None where absent."""


@dataclass(frozen=True, slots=True)
class _Experts:
    """A batch of experts; `alpha` and `limit` are those of the clamped SwiGLU, or False."""

    make: OpBuilder
    activation: str
    alpha: Any
    limit: Any
    transposed: bool
    matrices: _Tensors
    biases: _Tensors

    @property
    def count(self) -> int:
        """The number of experts."""
        assert self.matrices[0] is not None
        return self.matrices[0].type.dims[0]

    def __call__(self, x: Operand) -> Operand:
        """w2 (act(w1 x) * w3 x): [e, n, d] for x [1 or e, n, d]."""
        return self._product(self._hidden(x), 1)

    def gathered(self, numbers: Operand) -> _Experts:
        """The experts with the indices `numbers` [n]."""

        def of(many: _Tensors) -> _Tensors:
            make = self.make
            return tuple(
                None if x is None else tract_core_gather(make, x, numbers, 0) for x in many
            )

        return replace(self, matrices=of(self.matrices), biases=of(self.biases))

    def _hidden(self, x: Operand) -> Operand:
        """act(w1 x) * w3 x; act(w1 x) without w3."""
        gate = self._product(x, 0)
        up = None if self.matrices[2] is None else self._product(x, 2)
        if self.limit is not False and up is not None:
            limit, alpha = scalar(self.limit), 1.702 if self.alpha is False else scalar(self.alpha)
            return _clamped(self.make, gate, up, alpha, limit)
        active = self._activation(gate, is_gated=up is not None)
        return active if up is None else self.make("mul", active, up)

    def _product(self, x: Operand, which: int) -> Operand:
        """x times matrices `which`, plus their bias."""
        weight, bias = self.matrices[which], self.biases[which]
        assert weight is not None
        y = matmul(self.make, x, weight, False, self.transposed)
        return y if bias is None else self.make("add", y, bias)

    def _activation(self, x: Operand, *, is_gated: bool) -> Operand:
        """act(x); an ungated `gelu` is PyTorch's exact one, where tract uses the approximation."""
        make = self.make
        match self.activation:
            case "relu":
                return make("relu", x)
            case "gelu" if is_gated:
                return tract_core_gelu_approx(make, x)
            case "gelu":
                share = make("add", make("erf", make("mul", x, math.sqrt(0.5))), 1.0)
                return make("mul", make("mul", x, 0.5), share)
            case _:
                return make("silu", x)
