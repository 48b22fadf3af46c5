"""The precision of products on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnefc.support.errors import Diagnostic, warn

if TYPE_CHECKING:
    from nnefc.ir import DType
    from nnefc.options.compile_config import CompileConfig


def rounded_type(config: CompileConfig) -> DType | None:
    """The type to which operands of products are rounded; None if they stay float32."""
    from nnefc.ir.types import DType
    from nnefc.kernels.target.isa import host

    multiplies = config.precision == "bfloat16" and host().bfloat16_dot
    return DType.BFLOAT16 if multiplies else None


def warn_of_precision(config: CompileConfig) -> None:
    """Warn if the model is float32 although `config` wants less precision."""
    if config.precision == "float32" or rounded_type(config) is not None:
        return
    message = f"products of {config.precision} are not faster here: the model is float32"
    warn(Diagnostic("input/precision", message, severity="warning"))
