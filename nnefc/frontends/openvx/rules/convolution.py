"""Rules of convolution and deconvolution layers (`vxConvolutionLayer`, `vxDeconvolutionLayer`)."""

from __future__ import annotations

from typing import Final

from nnefc.frontends.openvx.enumerations import DownScaleSizeRounding
from nnefc.frontends.openvx.rules.check import LayerCheck
from nnefc.frontends.openvx.tensors import MAX_RANK, Dims
from nnefc.frontends.openvx.windows import room, upscale

_XY: Final = "xy"


def _operands(check: LayerCheck, ranks: range) -> tuple[Dims, Dims] | None:
    """The dims of inputs and weights, whose formats and maps agree."""
    inputs, weights = check.dims("inputs", ranks), check.dims("weights", range(4, 5))
    format = check.format("inputs")
    if format is not None:
        for name in ("weights", "biases"):
            check.same_format(name, format)
    if inputs is None or weights is None:
        return None
    check.extent("weights", weights, 2, inputs[2], "the input maps")
    return inputs, weights


def _biases(check: LayerCheck, outputs: Dims) -> None:
    """Check biases [OFM] or [width, height, OFM]."""
    layout = check.layout("biases")
    if layout is None:
        return
    expected = [list(outputs[2:3]), list(outputs[:3])]
    message = f"biases have dims {list(layout.dims)}: expected {expected[0]} or {expected[1]}"
    check.require(list(layout.dims) in expected, "openvx/size", "biases", message)


def _finished(check: LayerCheck, outputs: Dims, inputs: Dims, weights: Dims) -> Dims:
    """The dims of the outputs, whose maps and batches are checked, and those of biases."""
    check.extent("outputs", outputs, 2, weights[3], "the output maps of the weights")
    check.batches("outputs", outputs, inputs[3:], 3)
    _biases(check, outputs)
    return outputs


def convolution(check: LayerCheck) -> Dims | None:
    """out = round(room / skip) + 1 along x and y; the smallest skip counts."""
    operands = _operands(check, range(3, MAX_RANK + 1))
    paddings = check.wholes("padding_x", "padding_y")
    dilations = check.wholes("dilation_x", "dilation_y")
    check.policies()
    rounding = check.enumerator("down_scale_size_rounding", DownScaleSizeRounding)
    if operands is None or paddings is None or dilations is None or rounding is None:
        return None
    inputs, weights = operands
    rooms = [room(inputs[i], paddings[i], weights[i], dilations[i]) for i in range(2)]
    outputs = check.given("outputs")
    if not check.given_rank("outputs", len(inputs)):
        return None
    for i, name in enumerate(_XY):
        message = (
            f"the kernel spans {inputs[i] + 2 * paddings[i] - rooms[i]} items along {name}, more "
            f"than the {inputs[i] + 2 * paddings[i]} of the padded input"
        )
        if not check.require(rooms[i] >= 0, "openvx/size", "weights", message) or outputs is None:
            continue
        check.skip(i, rooms[i], outputs[i], rounding)
    if outputs is None:
        outputs = (rooms[0] + 1, rooms[1] + 1, weights[3], *inputs[3:])
    return _finished(check, outputs, inputs, weights)


def deconvolution(check: LayerCheck) -> Dims | None:
    """out = (in - 1) upscale - 2 padding + kernel + a along x and y."""
    operands = _operands(check, range(3, 5))
    paddings, extras = check.wholes("padding_x", "padding_y"), check.wholes("a_x", "a_y")
    check.policies()
    if operands is None or paddings is None or extras is None:
        return None
    inputs, weights = operands
    outputs = check.given("outputs")
    if not check.given_rank("outputs", len(inputs)):
        return None
    for i, name in enumerate(_XY):
        message = f"padding_{name} = {paddings[i]}: must be less than the kernel, {weights[i]}"
        check.require(paddings[i] < weights[i], "openvx/parameter", f"padding_{name}", message)
        if outputs is None:
            message = (
                f"a_{name} = {extras[i]}: outputs without dims have an upscale of 1, so it is 0"
            )
            check.require(extras[i] == 0, "openvx/parameter", f"a_{name}", message)
            continue
        message = (
            f"no upscale along {name} gives {outputs[i]} items from {inputs[i]}: "
            f"(in - 1) upscale = out + 2 padding - kernel - a = {outputs[i]} + {2 * paddings[i]} "
            f"- {weights[i]} - {extras[i]}, with a below the upscale"
        )
        factor = upscale(inputs[i], paddings[i], weights[i], extras[i], outputs[i])
        check.require(factor is not None, "openvx/size", "outputs", message)
    if outputs is None:
        sides = [inputs[i] - 1 - 2 * paddings[i] + weights[i] for i in range(2)]
        message = f"the outputs would have dims {sides}"
        if not check.require(min(sides) > 0, "openvx/size", "outputs", message):
            return None
        outputs = (*sides, weights[3], *inputs[3:])
    return _finished(check, outputs, inputs, weights)
