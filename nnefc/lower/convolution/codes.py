"""Lowering of convolutions of codes on blocked tensors, by their algorithm and groups."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nnefc.ir import Op
from nnefc.ir.convolution_algorithm import Winograd
from nnefc.lower.blocked.tensors import Tensor
from nnefc.lower.context import Lowering, blocked_lowering
from nnefc.lower.convolution.code_convolution import CodeConvolution, read_code_convolution
from nnefc.lower.convolution.depthwise_codes import lower_depthwise_codes
from nnefc.lower.convolution.depthwise_pairs import lower_depthwise_pairs
from nnefc.lower.convolution.direct_codes import lower_direct_codes
from nnefc.lower.convolution.winograd_codes import lower_winograd_codes
from nnefc.ops.core.blocked_rules import is_slice_of_block

Array = npt.NDArray[Any]


@blocked_lowering("fused_code_conv", "fused_code_deconv")
def fused_code_convolution(lower: Lowering, op: Op) -> None:
    conv = read_code_convolution(lower, op)
    algorithm = op.attributes.get("algorithm")
    if isinstance(algorithm, Winograd):
        lower_winograd_codes(lower, conv, algorithm.tile)
    elif _has_whole_blocks(conv):
        lower_direct_codes(lower, conv)
    elif _is_within_blocks(conv):
        is_pairs = conv.kind == "pairs"
        (lower_depthwise_pairs if is_pairs else lower_depthwise_codes)(lower, conv)
    else:
        for part in _merged(conv):
            lower_direct_codes(lower, part)


def _has_whole_blocks(conv: CodeConvolution) -> bool:
    """Whether a group has whole blocks, or is alone."""
    _, outputs, inputs = conv.filter.shape[:3]
    return conv.groups == 1 or outputs % conv.y.layout.block == inputs % conv.x.layout.block == 0


def _is_within_blocks(conv: CodeConvolution) -> bool:
    """Whether groups are slices of a block, which kernels shuffle in vectors."""
    _, outputs, inputs = conv.filter.shape[:3]
    return is_slice_of_block(conv.y.layout.block, inputs, outputs)


def _merged(conv: CodeConvolution) -> Iterator[CodeConvolution]:
    """Convolutions with fewest groups together whose channels are whole blocks.

    Products of different groups have weights of zero.  The last groups may be fewer.
    """
    groups, outputs, inputs = conv.filter.shape[:3]
    joined = math.lcm(
        conv.y.layout.block // math.gcd(conv.y.layout.block, outputs),
        conv.x.layout.block // math.gcd(conv.x.layout.block, inputs),
    )
    whole = groups - groups % joined
    if whole:
        yield _joined(_of_groups(conv, range(whole)), joined)
    if whole < groups:
        yield _joined(_of_groups(conv, range(whole, groups)), groups - whole)


def _of_groups(conv: CodeConvolution, groups: range) -> CodeConvolution:
    """The convolution of some groups, whose first channels are those of blocks."""
    _, outputs, inputs = conv.filter.shape[:3]
    of_group = slice(groups.start, groups.stop)
    channels = slice(groups.start * outputs, groups.stop * outputs)

    def results(tensor: Tensor) -> Tensor:
        return tensor.channel_slice(groups.start * outputs, len(groups) * outputs)

    return replace(
        conv,
        x=conv.x.channel_slice(groups.start * inputs, len(groups) * inputs),
        y=results(conv.y),
        groups=len(groups),
        digits=tuple(digit[of_group] for digit in conv.digits),
        bias=conv.bias[channels],
        terms=[term[channels] for term in conv.terms],
        residual=None if conv.residual is None else results(conv.residual),
    )


def _joined(conv: CodeConvolution, joined: int) -> CodeConvolution:
    """The convolution with `joined` groups as one."""
    groups, outputs, inputs = conv.filter.shape[:3]

    def diagonal(digit: Array) -> Array:
        count, taps = groups // joined, digit.shape[3:]
        wide = np.zeros((count, joined, outputs, joined, inputs, *taps), digit.dtype)
        for i in range(joined):
            wide[:, i, :, i] = digit[i::joined]
        return wide.reshape(count, joined * outputs, joined * inputs, *taps)

    digits = tuple(map(diagonal, conv.digits))
    return replace(conv, groups=groups // joined, digits=digits)
