"""Rules of fully connected layers (`vxFullyConnectedLayer`)."""

from __future__ import annotations

import math

from nnefc.frontends.openvx.rules.check import LayerCheck
from nnefc.frontends.openvx.tensors import MAX_RANK, Dims

CORE_RANKS = (1, 3)
"""Dims of one sample: [IFM], or [width, height, IFM]."""


def core_rank(inputs: Dims, weights: Dims, outputs: Dims | None) -> int:
    """How many dims of the input one sample has; the others are batches."""
    if outputs is not None:
        return len(inputs) - len(outputs) + 1
    is_volume = len(weights) == 4 or (len(inputs) >= 3 and weights[0] == math.prod(inputs[:3]))
    return 3 if is_volume else 1


def fully_connected(check: LayerCheck) -> Dims | None:
    """Outputs [OFM, batches]; weights [IFM, OFM] or [width, height, IFM, OFM]."""
    inputs, weights = (
        check.dims("inputs", range(1, MAX_RANK + 1)),
        check.dims("weights", range(2, 5)),
    )
    format = check.format("inputs")
    check.policies()
    if format is not None:
        for name in ("weights", "biases"):
            check.same_format(name, format)
    if inputs is None or weights is None:
        return None
    outputs = check.given("outputs")
    core = core_rank(inputs, weights, outputs)
    message = (
        f"inputs {list(inputs)} and outputs {list(outputs or ())} leave {core} dims for one "
        "sample: expected 1 or 3"
    )
    if not check.require(core in CORE_RANKS, "openvx/rank", "outputs", message):
        return None
    sample, batches = inputs[:core], inputs[core:]
    expected = [[math.prod(sample)], list(sample)]
    message = (
        f"weights {list(weights)} have inputs {list(weights[:-1])}: expected {_either(expected)}"
    )
    check.require(list(weights[:-1]) in expected, "openvx/size", "weights", message)
    if outputs is None:
        outputs = (weights[-1], *batches)
    check.extent("outputs", outputs, 0, weights[-1], "the outputs of the weights")
    check.batches("outputs", outputs, batches, 1)
    biases = check.dims("biases", range(1, 2)) if "biases" in check.layer.tensors else None
    if biases is not None:
        check.extent("biases", biases, 0, weights[-1], "the outputs of the weights")
    return outputs


def _either(dims: list[list[int]]) -> str:
    return " or ".join(str(each) for each in (dims if dims[0] != dims[1] else dims[:1]))
