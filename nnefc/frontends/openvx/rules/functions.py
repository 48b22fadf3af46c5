"""Rules of activation, softmax and normalization layers, whose outputs are as their inputs."""

from __future__ import annotations

from typing import Final

from nnefc.frontends.openvx.enumerations import ActivationFunction, NormalizationType
from nnefc.frontends.openvx.rules.check import LayerCheck
from nnefc.frontends.openvx.tensors import MAX_RANK, Dims

PARAMETERS: Final = {
    ActivationFunction.HYPERBOLIC_TAN: ("a", "b"),
    ActivationFunction.BRELU: ("a",),
    ActivationFunction.LINEAR: ("a", "b"),
}
"""The parameters that functions have."""


def _like_inputs(check: LayerCheck, ranks: range) -> Dims | None:
    inputs = check.dims("inputs", ranks)
    check.format("inputs")
    outputs = check.given("outputs")
    if inputs is not None and outputs is not None:
        message = f"outputs have dims {list(outputs)}: expected {list(inputs)}, as the inputs have"
        check.require(outputs == inputs, "openvx/size", "outputs", message)
    return inputs


def activation(check: LayerCheck) -> Dims | None:
    """Any number of dims."""
    function = check.enumerator("function", ActivationFunction)
    for parameter in PARAMETERS.get(function, ()):
        check.real(parameter, may_be_zero=True)
    return _like_inputs(check, range(1, MAX_RANK + 1))


def softmax(check: LayerCheck) -> Dims | None:
    """Along the first of one or two dims, or the third of three or four."""
    return _like_inputs(check, range(1, 5))


def normalization(check: LayerCheck) -> Dims | None:
    """An odd size from 3 to 7."""
    check.enumerator("type", NormalizationType)
    size = check.whole("normalization_size", 3, 7)
    message = f"normalization_size = {size}: expected an odd number"
    check.require(size is None or size % 2 == 1, "openvx/parameter", "normalization_size", message)
    check.real("alpha", may_be_zero=False)
    check.real("beta", may_be_zero=False)
    return _like_inputs(check, range(3, 5))
