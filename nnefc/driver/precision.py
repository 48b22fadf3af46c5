"""The precision of products on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnefc.support.errors import Diagnostic, warn

if TYPE_CHECKING:
    from nnefc.options.compile_config import CompileConfig
    from nnefc.passes.analysis.half_support import HalfKernels


def half_kernels(config: CompileConfig) -> HalfKernels | None:
    """The kernels that multiply bfloat16; None if products stay float32."""
    from nnefc.kernels.target.isa import host
    from nnefc.kernels.tile.matrix_tile import WORDS
    from nnefc.kernels.vector.dot_halves import WORD_HALVES
    from nnefc.passes.analysis.half_support import HalfKernels

    if config.precision == "float32":
        return None
    if host().matrix_dot:
        step = WORDS * WORD_HALVES
        return HalfKernels(step, attend=True, block=step)
    return HalfKernels(attend=True) if host().bfloat16_dot else None


def warn_of_precision(config: CompileConfig) -> None:
    """Warn if the model is float32 although `config` wants less precision."""
    if config.precision == "float32" or half_kernels(config) is not None:
        return
    message = f"products of {config.precision} are not faster here: the model is float32"
    warn(Diagnostic("input/precision", message, severity="warning"))
