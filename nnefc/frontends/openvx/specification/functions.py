"""Activations, softmax and normalization: formulas of reals, rounded to nearest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand
from nnefc.frontends.openvx.enumerations import ActivationFunction, NormalizationType
from nnefc.frontends.openvx.rules.functions import PARAMETERS
from nnefc.frontends.openvx.tensors import FLOAT32
from nnefc.frontends.openvx.values import Call, nearest, reals, shaped, with_batches

Formula = Callable[[OpBuilder, Operand, float, float], Any]

FORMULAS: Final[Mapping[ActivationFunction, Formula]] = {
    ActivationFunction.LOGISTIC: lambda make, x, a, b: make("sigmoid", x),
    ActivationFunction.HYPERBOLIC_TAN: lambda make, x, a, b: make(
        "mul", make("tanh", make("mul", x, b)), a
    ),
    ActivationFunction.RELU: lambda make, x, a, b: make("relu", x),
    ActivationFunction.BRELU: lambda make, x, a, b: make("min", make("relu", x), a),
    ActivationFunction.SOFTRELU: lambda make, x, a, b: make("softplus", x),
    ActivationFunction.ABS: lambda make, x, a, b: make("abs", x),
    ActivationFunction.SQUARE: lambda make, x, a, b: make("sqr", x),
    ActivationFunction.SQRT: lambda make, x, a, b: make("sqrt", x),
    ActivationFunction.LINEAR: lambda make, x, a, b: make("add", make("mul", x, a), b),
}
"""Section 2.1.3 of the extension, `vx_nn_activation_function_e`."""


def activation(call: Call) -> Operand:
    """An element-wise function; the square root of a negative item is 0 as an integer."""
    formula, (a, b) = FORMULAS[call.value("function")], numbers_of(call)
    return by_reals(call, lambda x: formula(call.make, x, a, b))


def numbers_of(call: Call) -> tuple[float, float]:
    """The parameters a and b of an activation; 0 for one that its function ignores."""
    names = PARAMETERS.get(call.value("function"), ())
    a, b = (call.real(name) if name in names else 0.0 for name in ("a", "b"))
    return a, b


def softmax(call: Call) -> Operand:
    """Along the first of one or two dims, else the third."""
    return by_reals(call, lambda x: call.make("softmax", x, axes=(softmax_axis(x),)))


def softmax_axis(x: Operand) -> int:
    """The dimension of an array along which items sum to 1."""
    rank = x.type.rank
    return rank - 1 if rank <= 2 else rank - 3


def normalization(call: Call) -> Operand:
    """x / (1 + alpha / n sum(x^2))^beta, with zeros around; n is the number of items summed."""
    return by_reals(
        call,
        lambda x: call.make("local_response_normalization", x, **normalization_window(call, x)),
    )


def normalization_window(call: Call, x: Operand) -> dict[str, Any]:
    """The attributes of the formula."""
    size, rank = call.value("normalization_size"), x.type.rank
    is_same_map = call.value("type") == NormalizationType.SAME_MAP
    spans = {rank - 1: size, rank - 2: size} if is_same_map else {rank - 3: size}
    window = tuple(spans.get(i, 1) for i in range(rank))
    return {"size": window, "alpha": call.real("alpha"), "beta": call.real("beta"), "bias": 1.0}


def by_reals(call: Call, function: Callable[[Operand], Operand]) -> Operand:
    """A function of reals, applied to the items of the input."""
    x = with_batches(call)
    y = function(x) if call.format == FLOAT32 else nearest(call, function(reals(call, x)))
    return shaped(call, y)
