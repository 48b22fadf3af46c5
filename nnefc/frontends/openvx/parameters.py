"""The structures of parameters, with the fields of the standard (section 2.1.1)."""

from __future__ import annotations

from dataclasses import dataclass

from nnefc.frontends.openvx.enumerations import (
    ConvertPolicy,
    DownScaleSizeRounding,
    PoolingType,
    RoundPolicy,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionParams:
    """`vx_nn_convolution_params_t`.

    `overflow_policy` and `rounding_policy` must be given: the standard has no default.
    `padding_x`, `padding_y`: items added at each side.  `dilation_x`, `dilation_y`: zeros between
    two items of the kernel.
    """

    padding_x: int = 0
    padding_y: int = 0
    overflow_policy: ConvertPolicy | None = None
    rounding_policy: RoundPolicy | None = None
    down_scale_size_rounding: DownScaleSizeRounding = DownScaleSizeRounding.FLOOR
    dilation_x: int = 0
    dilation_y: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeconvolutionParams:
    """`vx_nn_deconvolution_params_t`.

    `overflow_policy` and `rounding_policy` must be given: the standard has no default.
    `padding_x`, `padding_y`: items removed from each side of the result.  `a_x`, `a_y`: items added
    to its end, fewer than the upscale.
    """

    padding_x: int = 0
    padding_y: int = 0
    overflow_policy: ConvertPolicy | None = None
    rounding_policy: RoundPolicy | None = None
    a_x: int = 0
    a_y: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RoiPoolParams:
    """`vx_nn_roi_pool_params_t`; only maxima are defined."""

    pool_type: PoolingType = PoolingType.MAX
