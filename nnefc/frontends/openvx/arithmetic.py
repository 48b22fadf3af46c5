"""The two arithmetics: how each layer is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from nnefc.frontends.common.values import Operand
from nnefc.frontends.openvx.conformance import functions as conformance_functions
from nnefc.frontends.openvx.conformance import pooling as conformance_pooling
from nnefc.frontends.openvx.conformance import sums as conformance_sums
from nnefc.frontends.openvx.regions_of_interest import roi_pooling, roi_pooling_inside
from nnefc.frontends.openvx.specification import functions, pooling, sums
from nnefc.frontends.openvx.values import Call

Arithmetic = Mapping[str, Callable[[Call], Operand]]
"""Functions that build the result of a layer, by kind."""

SPECIFICATION: Final[Arithmetic] = {
    "convolution_layer": sums.convolution,
    "deconvolution_layer": sums.deconvolution,
    "fully_connected_layer": sums.fully_connected,
    "pooling_layer": pooling.pooling,
    "softmax_layer": functions.softmax,
    "normalization_layer": functions.normalization,
    "activation_layer": functions.activation,
    "roi_pooling_layer": roi_pooling,
}

CONFORMANCE: Final[Arithmetic] = {
    **SPECIFICATION,
    "convolution_layer": conformance_sums.convolution,
    "deconvolution_layer": conformance_sums.deconvolution,
    "fully_connected_layer": conformance_sums.fully_connected,
    "pooling_layer": conformance_pooling.pooling,
    "softmax_layer": conformance_functions.softmax,
    "activation_layer": conformance_functions.activation,
    "roi_pooling_layer": roi_pooling_inside,
}

ARITHMETICS: Final[Mapping[str, Arithmetic]] = {
    "specification": SPECIFICATION,
    "conformance": CONFORMANCE,
}
"""By the names that users give."""
