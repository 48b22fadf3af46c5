"""Pooling: maxima leave padding out."""

from __future__ import annotations

from nnefc.frontends.common.values import Operand
from nnefc.frontends.openvx.enumerations import PoolingType
from nnefc.frontends.openvx.specification import pooling as specification
from nnefc.frontends.openvx.values import Call, batched, shaped


def pooling(call: Call) -> Operand:
    """A window without items has the lowest number."""
    if call.value("pooling_type") != PoolingType.MAX:
        return specification.pooling(call)
    x = batched(call, call.operands["inputs"], 4)
    window = specification.pooled_windows(call)
    return shaped(call, call.make("max_pool", x, border="ignore", **window))
