"""The activation functions that attributes of operators name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.ops.tools.suggest import suggestion

Activation = Callable[[OpBuilder, Operand], Operand]


RECURRENT: Final = (
    "Affine",
    "Elu",
    "HardSigmoid",
    "LeakyRelu",
    "Relu",
    "ScaledTanh",
    "Sigmoid",
    "Softplus",
    "Softsign",
    "Tanh",
    "ThresholdedRelu",
)
"""The functions of recurrent layers, by the standard."""


def recurrent_activation(make: OpBuilder, name: str, parameters: Sequence[float]) -> Activation:
    """The function of a recurrent layer, of a name in any case; raises OperatorError.

    `parameters`: alpha, then beta; defaults of the standard replace those that are missing.
    """
    if name.lower() not in map(str.lower, RECURRENT):
        hint = suggestion(name, RECURRENT)
        message = f"recurrent layers have no activation '{name}'; they have {', '.join(RECURRENT)}"
        raise OperatorError("argument/activation", message, hint)
    return activation(make, name, parameters)


def activation(make: OpBuilder, name: str, parameters: Sequence[float] = ()) -> Activation:
    """The function of a name, in any case; raises OperatorError.

    `parameters`: alpha, then beta; defaults of the standard replace those that are missing.
    """
    del make
    known = _FUNCTIONS.get(name.lower())
    if known is None:
        hint = suggestion(name, [each.title() for each in _FUNCTIONS])
        raise OperatorError("argument/activation", f"no activation has the name '{name}'", hint)
    function, defaults = known
    filled = (*parameters[: len(defaults)], *defaults[len(parameters) :])
    return lambda make, x: function(make, x, *filled)


def number_of_parameters(name: str) -> int:
    """How many of alpha and beta an activation has; 0 for an unknown one."""
    return len(_FUNCTIONS[name.lower()][1]) if name.lower() in _FUNCTIONS else 0


def _plain(name: str) -> Callable[[OpBuilder, Operand], Any]:
    def function(make: OpBuilder, x: Operand) -> Any:
        return make(name, x)

    return function


def _affine(make: OpBuilder, x: Operand, alpha: float, beta: float) -> Any:
    return make("add", make("mul", x, alpha), beta)


def _leaky_relu(make: OpBuilder, x: Operand, alpha: float) -> Any:
    return make("leaky_relu", x, alpha=alpha)


def _thresholded_relu(make: OpBuilder, x: Operand, alpha: float) -> Any:
    return make("select", make("gt", x, alpha), x, 0.0)


def _scaled_tanh(make: OpBuilder, x: Operand, alpha: float, beta: float) -> Any:
    return make("mul", make("tanh", make("mul", x, beta)), alpha)


def _hard_sigmoid(make: OpBuilder, x: Operand, alpha: float, beta: float) -> Any:
    return make("clamp", _affine(make, x, alpha, beta), 0.0, 1.0)


def _elu(make: OpBuilder, x: Operand, alpha: float) -> Any:
    return make("elu", x, alpha=alpha)


def _softsign(make: OpBuilder, x: Operand) -> Any:
    return make("div", x, make("add", make("abs", x), 1.0))


def _clip(make: OpBuilder, x: Operand, low: float, high: float) -> Any:
    return make("clamp", x, low, high)


def _gelu(make: OpBuilder, x: Operand) -> Any:
    return make("gelu", x)


_FUNCTIONS: Final[Mapping[str, tuple[Callable[..., Any], tuple[float, ...]]]] = {
    "affine": (_affine, (1.0, 0.0)),
    "clip": (_clip, (float("-inf"), float("inf"))),
    "elu": (_elu, (1.0,)),
    "gelu": (_gelu, ()),
    "hardsigmoid": (_hard_sigmoid, (0.2, 0.5)),
    "leakyrelu": (_leaky_relu, (0.01,)),
    "relu": (_plain("relu"), ()),
    "scaledtanh": (_scaled_tanh, (1.0, 1.0)),
    "sigmoid": (_plain("sigmoid"), ()),
    "silu": (_plain("silu"), ()),
    "softplus": (_plain("softplus"), ()),
    "softsign": (_softsign, ()),
    "tanh": (_plain("tanh"), ()),
    "thresholdedrelu": (_thresholded_relu, (1.0,)),
}
"""Functions by name in lower case, with the defaults of alpha and beta."""
