"""Complex tensors: their real and their imaginary parts, two real tensors of one shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.ir import DType, TensorType, Value

COMPONENTS: Final[Mapping[str, DType]] = {
    "complex64": DType.FLOAT32,
    "complex128": DType.FLOAT64,
}
"""The item types of the parts by PyTorch's names."""


@dataclass(frozen=True, slots=True, eq=False)
class ComplexPair:
    """A complex tensor."""

    real: Operand
    imag: Operand

    @property
    def type(self) -> TensorType:
        """The type of a part."""
        return self.real.type

    @property
    def wrong(self) -> OperatorError:
        """The error of operators that take real tensors only."""
        hint = "torch.view_as_real makes its parts a last dimension"
        return OperatorError("torch/type", "complex tensors are not supported here", hint)


def from_inner(make: OpBuilder, x: Operand) -> ComplexPair:
    """The complex tensor whose parts are the last dimension, of extent 2."""
    at = x.type.rank - 1
    parts = (slice_in_dim(make, x, at, i, i + 1) for i in range(2))
    return ComplexPair(*(make.reshape(part, x.type.dims[:-1]) for part in parts))


BY_PARTS: Final = frozenset(
    f"aten.{name}"
    for name in (
        *("view.default", "_unsafe_view.default", "reshape.default", "flatten.using_ints"),
        *("permute.default", "transpose.int", "t.default", "expand.default", "view_copy.default"),
        *("slice.Tensor", "select.int", "narrow.default", "index_select.default", "index.Tensor"),
        *("split.Tensor", "split_with_sizes.default", "chunk.default", "unbind.int"),
        *("squeeze.dims", "squeeze.dim", "squeeze.default", "unsqueeze.default"),
        *("clone.default", "alias.default", "detach.default", "lift_fresh_copy.default"),
        *("flip.default", "roll.default", "repeat.default", "gather.default", "unfold.default"),
        *("neg.default", "diagonal.default", "tril.default", "triu.default", "im2col.default"),
        *("sym_size.int", "sym_numel.default", "zeros_like.default", "index_put.default"),
        *("slice_scatter.default", "select_scatter.default", "diagonal_scatter.default"),
        *("narrow_copy.default", "unbind_copy.int", "pixel_shuffle.default"),
        *("channel_shuffle.default", "reflection_pad1d.default", "reflection_pad2d.default"),
        *("reflection_pad3d.default", "replication_pad1d.default", "replication_pad2d.default"),
        *("replication_pad3d.default", "masked_select.default", "as_strided.default"),
        *("as_strided_copy.default", "as_strided_scatter.default", "permute_copy.default"),
        *("pixel_unshuffle.default", "scatter.src", "scatter_add.default", "put.default"),
        *("masked_scatter.default", "new_empty_strided.default"),
    )
)
"""Operators that compute real and imaginary parts separately, as they do real tensors."""


def has_complex(value: Any) -> bool:
    """Whether an argument is a complex tensor, number or item type, or has one in it."""
    if isinstance(value, tuple):
        return any(map(has_complex, cast("tuple[Any, ...]", value)))
    if isinstance(value, str):
        return value in COMPONENTS
    return isinstance(value, ComplexPair | complex)


def part(value: Any, index: int) -> Any:
    """An argument in which real parts (0) or imaginary parts (1) stand for complex tensors.

    The type of a part stands for a complex item type.
    """
    if isinstance(value, tuple):
        return tuple(part(each, index) for each in cast("tuple[Any, ...]", value))
    if isinstance(value, ComplexPair | complex):
        return value.imag if index else value.real
    return COMPONENTS.get(value, value) if isinstance(value, str) else value


def joined(real: Any, imag: Any) -> Any:
    """The complex results of an operator, from those of both parts."""
    if isinstance(real, tuple):
        pairs = zip(cast("tuple[Any, ...]", real), imag, strict=True)
        return tuple(joined(*pair) for pair in pairs)
    return ComplexPair(real, imag) if isinstance(real, Value | KnownTensor) else real
