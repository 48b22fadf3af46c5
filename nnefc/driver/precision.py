"""The precision of products on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnefc.support.errors import Diagnostic, warn

if TYPE_CHECKING:
    from nnefc.kernels.target.isa import Isa
    from nnefc.options.compile_config import CompileConfig, Precision
    from nnefc.passes.analysis.half_support import HalfKernels


def half_kernels(config: CompileConfig) -> HalfKernels | None:
    """The kernels that multiply halves of the precision; None if products stay float32."""
    from nnefc.ir.types import DType
    from nnefc.kernels.target.isa import host
    from nnefc.kernels.tile.matrix_tile import WORDS
    from nnefc.kernels.vector.dot_halves import WORD_HALVES
    from nnefc.passes.analysis.half_support import HalfKernels

    if not _multiplies(host(), config.precision):
        return None
    dtype = DType(config.precision)
    if dtype is DType.BFLOAT16 and host().matrix_dot:
        step = WORDS * WORD_HALVES
        return HalfKernels(dtype, step, attend=True, block=step)
    return HalfKernels(dtype, attend=True)


def _multiplies(isa: Isa, precision: Precision) -> bool:
    """Whether products of halves have instructions that are faster than those of float32."""
    if precision == "float16":
        return bool(isa.float16_fma)
    return precision == "bfloat16" and bool(isa.bfloat16_dot or isa.matrix_dot)


def warn_of_precision(config: CompileConfig) -> None:
    """Warn if the model is float32 although `config` wants less precision."""
    if config.precision == "float32" or half_kernels(config) is not None:
        return
    from nnefc.kernels.target.isa import host

    message = f"products of {config.precision} are not faster here: the model is float32"
    other = "bfloat16" if config.precision == "float16" else "float16"
    hint = f"products of {other} are faster here" if _multiplies(host(), other) else ""
    warn(Diagnostic("input/precision", message, severity="warning", hint=hint))


def warn_of_stored_precision(precision: str) -> None:
    """Warn if a model in an artifact of this precision is float32 on this machine."""
    if precision != "float32":
        from nnefc.options.compile_config import CompileConfig

        warn_of_precision(CompileConfig.of(precision=precision))


def warn_of_targets(config: CompileConfig, targets: Sequence[str]) -> None:
    """Warn if code for other processors is float32 although `config` wants less precision."""
    from nnefc.kernels.target.isa import NATIVE
    from nnefc.kernels.target.target_name import target_row

    if config.precision == "float32":
        return
    rows = {name: target_row(name) for name in targets if name != NATIVE}
    wide = [name for name, row in rows.items() if not _multiplies(row, config.precision)]
    if wide:
        names = ", ".join(wide)
        message = f"no instructions for {config.precision} in {names}: that code is float32"
        warn(Diagnostic("input/precision", message, severity="warning"))
