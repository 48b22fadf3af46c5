"""Which composite operators stay whole when PyTorch decomposes a program into Core ATen."""

from __future__ import annotations

import operator
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from nnefc.frontends.torch.registry import find

if TYPE_CHECKING:
    from torch.export import ExportedProgram

KEPT: Final = (
    *("linear", "matmul", "einsum", "conv1d", "conv2d", "conv3d", "conv_transpose1d"),
    *("conv_transpose2d.input", "conv_transpose3d.input", "batch_norm", "layer_norm"),
    *("group_norm", "instance_norm", "rms_norm", "scaled_dot_product_attention"),
    *("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input"),
    *("lstm.data", "gru.data", "rnn_tanh.data", "rnn_relu.data"),
    *("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec"),
    *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"),
    *("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"),
    *("_upsample_nearest_exact1d.vec", "_upsample_nearest_exact2d.vec"),
    *("_upsample_nearest_exact3d.vec", "upsample_linear1d.vec", "upsample_linear1d"),
    *("upsample_bilinear2d.vec", "upsample_bilinear2d", "_upsample_bilinear2d_aa.vec"),
    *("_upsample_bilinear2d_aa", "upsample_trilinear3d.vec", "upsample_trilinear3d"),
    *("upsample_bicubic2d.vec", "upsample_bicubic2d", "_upsample_bicubic2d_aa.vec"),
    *("_upsample_bicubic2d_aa", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d"),
    *("pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "native_channel_shuffle"),
    *("gelu", "silu", "hardswish", "hardsigmoid", "hardtanh", "leaky_relu", "elu", "selu"),
    *("softplus", "mish", "prelu", "relu6", "log_sigmoid", "glu", "softmax.int", "log_softmax.int"),
    *("embedding_bag.padding_idx", "_embedding_bag", "avg_pool1d", "max_pool1d", "max_pool2d"),
    *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "max_pool3d"),
    *("adaptive_max_pool2d", "adaptive_max_pool3d", "reflection_pad1d", "reflection_pad2d"),
    *("reflection_pad3d", "replication_pad1d", "replication_pad2d", "replication_pad3d"),
    *("repeat_interleave.Tensor", "repeat_interleave.self_int", "tril", "triu", "unfold"),
    *("im2col", "col2im", "addmm", "baddbmm", "addcmul", "addcdiv", "lerp.Scalar", "lerp.Tensor"),
)
"""Overloads of ATen, `.default` where none is named: a pass or a kernel exists for them."""


def decomposed(program: ExportedProgram) -> ExportedProgram:
    """A functional program in Core ATen and the operators of `KEPT`."""
    exported: Any = program
    return exported.run_decompositions(kept_table())


def kept_table() -> Any:
    """The decompositions into Core ATen, without those of `KEPT` and of known ones of torchao."""
    import torch

    kept = {overload_name(name) for name in KEPT}
    table: Any = torch.export.default_decompositions()
    for overload in list(table):
        name = str(overload)
        if name in kept or (name.startswith("torchao.") and find(name) is not None):
            del table[overload]
    return table


@contextmanager
def keeping_composite_operators() -> Generator[Any]:
    """The table for tracing within the block, where operators of `KEPT` stay whole.

    PyTorch's tracer decomposes operators that are composed of others whatever the table says;
    `torch.export` changes these operators meanwhile, by the same function.  It changes all of them,
    and first searches for them, which takes longer than to trace a small graph.
    """
    import torch
    from torch import _decomp as decompositions
    from torch._export import utils
    from torch.export import exported_program

    core: Any = getattr(decompositions, "_core_aten_decompositions_post_autograd")  # noqa: B009
    override: Any = getattr(exported_program, "_override_composite_implicit_decomp")  # noqa: B009
    preserve: Any = getattr(utils, "_special_op_to_preserve_cia")  # noqa: B009
    is_composite: Any = getattr(utils, "_is_preservable_cia_op")  # noqa: B009
    names = set(map(overload_name, KEPT))
    kept = [operator.attrgetter(name)(torch.ops) for name in names]
    table = {op: function for op, function in core().items() if str(op) not in names}
    with override({op: preserve for op in kept if is_composite(op)}):
        yield table


def overload_name(name: str) -> str:
    """The name of an overload, that of `.default` if none is given."""
    return f"aten.{name}" if "." in name else f"aten.{name}.default"
