"""The attributes of operators on sliding windows, and those of the graph's operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnefc.frontends.common.operand_checks import of_rank_at_least
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.onnx.registry import AttributeRecord, Integers
from nnefc.ops.core.window_arithmetic import automatic_padding, dilated_size

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class WindowAttributes:
    """The attributes of a window over `spatial` dimensions, one item for each.

    `pads`: all beginnings, then all ends.  Empty lists are those that a node leaves out.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    auto_pad: str = "NOTSET"

    @property
    def explicit(self) -> Pairs:
        """The padding that `pads` gives."""
        half = len(self.kernel)
        return tuple(zip(self.pads[:half], self.pads[half:], strict=True))

    @property
    def dilated(self) -> tuple[int, ...]:
        """The extents of the dilated window."""
        return dilated_size(self.kernel, self.dilations)

    @property
    def is_same(self) -> bool:
        """Whether the padding follows from an extent of the result."""
        return self.auto_pad in ("SAME_UPPER", "SAME_LOWER")

    def padding(self, extents: Sequence[int]) -> Pairs:
        """The padding of an input of these spatial extents."""
        if not self.is_same:
            return self.explicit
        outputs = [-(-n // s) for n, s in zip(extents, self.strides, strict=True)]
        pairs = map(automatic_padding, extents, outputs, self.strides, self.dilated)
        if self.auto_pad == "SAME_UPPER":
            return tuple(pairs)
        return tuple((after, before) for before, after in pairs)

    def beyond(self, extents: Sequence[int], padding: Pairs) -> tuple[int, ...]:
        """Items behind the padded input that windows cover in `ceil_mode`, by dimension.

        A last window that begins behind the input and the padding before it does not count.
        """
        counts: list[int] = []
        for n, (p, q), s, f in zip(extents, padding, self.strides, self.dilated, strict=True):
            steps = -(-(n + p + q - f) // s)
            if steps * s >= n + p:
                steps -= 1
            counts.append(max(steps * s + f - (n + p + q), 0))
        return tuple(counts)


def window_attributes(
    what: str,
    kernel: Sequence[int],
    spatial: int,
    strides: Sequence[int] = (),
    dilations: Sequence[int] = (),
    pads: Sequence[int] = (),
    auto_pad: str = "NOTSET",
) -> WindowAttributes:
    """The attributes of a window, checked; `spatial`: the number of dimensions it moves in.

    Raises OperatorError.
    """
    modes = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "")
    if auto_pad not in modes:
        message = f"auto_pad = '{auto_pad}'; expected one of {', '.join(modes[:4])}"
        raise OperatorError(f"argument/{what}", message)
    lists = {"kernel_shape": kernel, "strides": strides, "dilations": dilations}
    for name, items in lists.items():
        is_missing = not items and name != "kernel_shape"
        if not is_missing and (len(items) != spatial or min(items) < 1):
            message = f"{name} = {list(items)}; {spatial} numbers of at least 1 are expected"
            raise OperatorError(f"argument/{what}", message)
    given = tuple(pads) if auto_pad in ("NOTSET", "") else ()
    if given and len(given) != 2 * spatial:
        message = f"pads = {list(pads)}; {2 * spatial} numbers are expected"
        raise OperatorError(f"argument/{what}", message)
    return WindowAttributes(
        tuple(kernel),
        tuple(strides) or (1,) * spatial,
        tuple(dilations) or (1,) * spatial,
        given or (0,) * (2 * spatial),
        auto_pad,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionAttributes(AttributeRecord):
    """The attributes of convolutions, of codes and transposed ones too, in all versions."""

    auto_pad: str = "NOTSET"
    dilations: Integers = ()
    group: int = 1
    kernel_shape: Integers = ()
    pads: Integers = ()
    strides: Integers = ()

    def window(self, what: str, x: Operand, kernel: Operand) -> WindowAttributes:
        """The window over x [n, c, l, ..] with weights of that rank; raises OperatorError."""
        dims = of_rank_at_least(what, "X", x, 3)
        extents = of_rank_at_least(what, "W", kernel, 3)[2:]
        if self.kernel_shape and self.kernel_shape != extents:
            given, shape = list(self.kernel_shape), list(kernel.type.dims)
            message = f"kernel_shape = {given}, but W has shape {shape}"
            raise OperatorError(f"argument/{what}", message)
        if self.group < 1:
            raise OperatorError(f"argument/{what}", f"group = {self.group}; it must be at least 1")
        spatial = len(dims) - 2
        return window_attributes(
            what, extents, spatial, self.strides, self.dilations, self.pads, self.auto_pad
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolingAttributes(AttributeRecord):
    """The attributes of pooling in its first versions."""

    auto_pad: str = "NOTSET"
    kernel_shape: Integers
    pads: Integers = ()
    strides: Integers = ()

    def window(self, what: str, x: Operand) -> WindowAttributes:
        """The window over the spatial dimensions of x [n, c, ..]; raises OperatorError."""
        return _pooling_window(self, what, x, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstPoolingAttributes(PoolingAttributes):
    """The attributes of the first version of `LpPool`, whose schema does not need a window."""

    kernel_shape: Integers = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DilatedPoolingAttributes(PoolingAttributes):
    """The attributes of pooling since windows may have gaps."""

    ceil_mode: bool = False
    dilations: Integers = ()

    def window(self, what: str, x: Operand) -> WindowAttributes:
        return _pooling_window(self, what, x, self.dilations)


def _pooling_window(
    given: PoolingAttributes, what: str, x: Operand, dilations: Integers
) -> WindowAttributes:
    spatial = len(of_rank_at_least(what, "X", x, 3)) - 2
    lists = given.strides, dilations, given.pads
    return window_attributes(what, given.kernel_shape, spatial, *lists, given.auto_pad)
