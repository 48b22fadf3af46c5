"""The precision of products on this machine."""

from __future__ import annotations

from collections.abc import Sequence
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
    wide = [name for name, row in rows.items() if not (row.bfloat16_dot or row.matrix_dot)]
    if wide:
        names = ", ".join(wide)
        message = f"no instructions for {config.precision} in {names}: that code is float32"
        warn(Diagnostic("input/precision", message, severity="warning"))
