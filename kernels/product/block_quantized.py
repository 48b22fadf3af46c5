"""Block-quantized items to float32, as vector IR; `nnefc.support.block_formats` has the formats."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (llvmlite is untyped)

from __future__ import annotations

from typing import Any, Final

from nnefc.kernels.parameters import Layout
from nnefc.kernels.template import KernelFunction, family

ITEMS: Final = 32
"""Of a block."""

DEQUANTIZE = Layout("x:ref y:ref blocks tile_blocks")
"""Parameters of `block_quantized.dequantize`: `blocks` of `nnefc.support.block_formats` one behind
the other at x, their items at y; a tile is `tile_blocks` of them."""


@family()
def dequantize(format: str) -> KernelFunction:
    """`format`: q4_0, q4_0_legacy or q8_1."""
    from nnefc.kernels.product.block_decode import emit_dequantize
    from nnefc.kernels.vector.vector_kernel import VectorKernel

    def emit(builder: Any, bases: Any, params: Any, first: Any, last: Any) -> None:
        emit_dequantize(builder, format, bases, params, first, last)

    return VectorKernel(emit)
