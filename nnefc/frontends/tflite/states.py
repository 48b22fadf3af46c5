"""Variable tensors as states of a graph: they start at zero, and a session keeps them."""

from __future__ import annotations

import numpy as np

from nnefc.formats.tflite.model import Tensor
from nnefc.frontends.common.graph_states import GraphStates, PriorState
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.tflite.fixed_point import zero_of
from nnefc.frontends.tflite.tensors import dtype_of


def prior_value(
    states: GraphStates, name: str, tensor: Tensor
) -> tuple[PriorState | None, Operand]:
    """The state of a variable tensor before the call, and its value: zeros before a first call.

    Zeros of codes are their zero point.
    """
    dtype = dtype_of(tensor)
    before = states.prior(name, dtype, len(tensor.shape))
    if before is not None:
        if before.dims != tensor.shape:
            message = f"the state '{name}' has shape {list(before.dims)}, not {list(tensor.shape)}"
            raise OperatorError("input/state", message)
        return before, before.value
    codes = tensor.quantization
    start = 0 if codes is None or not codes.scale or not dtype.is_integer else zero_of(tensor)
    return None, KnownTensor(np.full(tensor.shape, start, dtype.numpy), dtype)
