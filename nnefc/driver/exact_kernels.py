"""Kernels of graphs with codes round multiply-adds once on every machine.

Functions of reals between products of codes then have the same bits everywhere.  Where no
instruction multiplies and adds, such kernels compute in float64
(`nnefc.kernels.codegen.exact_multiply_add`).  Graphs of reals keep the faster kernels, and so do
products of reals, whose sums have an order that depends on the machine anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nnefc.passes.quantize.products_of_reals import computes_on_codes

if TYPE_CHECKING:
    from nnefc.ir import Graph
    from nnefc.kernels.family import Kernel
    from nnefc.program.program import Program

_PRODUCTS: Final = (
    "convolution.depthwise.convolution",
    "convolution.direct.",
    "convolution.row_major.",
    "convolution.winograd.",
    "product.matmul.",
)
"""Families of products of reals, or the beginnings of their names."""


def needs_exact_kernels(prepared: Graph) -> bool:
    """Whether this machine has no fused multiply-adds, and a prepared graph computes on codes."""
    from nnefc.kernels.target.isa import host

    return not host().fma and computes_on_codes(prepared)


def use_exact_kernels(program: Program) -> None:
    """Replace the kernels of a program, in place."""
    from nnefc.kernels.family import Kernel

    for launch in program.launches:
        launch.kernel = _exact(launch.kernel)
        launch.words = [_exact(w) if isinstance(w, Kernel) else w for w in launch.words]


def _exact(kernel: Kernel) -> Kernel:
    is_kept = kernel.moves or kernel.family.startswith(_PRODUCTS)
    return kernel if is_kept else kernel._replace(exact=True)
