"""Samples that the sliding-window operations share."""

from __future__ import annotations

from typing import Any

from nnefc.ir import Shape
from nnefc.ops.core.spec import Sample
from nnefc.ops.core.window_arithmetic import BORDERS


def pad(*items: int) -> tuple[tuple[int, int], ...]:
    """`pad(1, 2, 0, 1)` is ((1, 2), (0, 1))."""
    return tuple(zip(items[::2], items[1::2], strict=True))


def windows(
    borders: tuple[str, ...] = BORDERS, data: str = "normal", **attributes: Any
) -> tuple[Sample, ...]:
    """Samples of a basic operation with a `size`: all borders, ranks 1 to 8, irregular steps."""

    def sample(shape: Shape, size: Shape, **more: Any) -> Sample:
        return Sample(inputs=(shape,), attributes={"size": size, **attributes, **more}, data=data)

    plane = (1, 2, 5, 6)
    plain = (
        sample((7,), (3,)),
        sample((5, 6), (2, 3), padding=pad(0, 0, 1, 1)),
        sample((2, 3, 7), (1, 2, 3), stride=(1, 1, 2)),
        sample(plane, (1, 1, 2, 4)),
        sample(plane, (1, 1, 2, 2), padding=pad(0, 0, 0, 0, 0, 0, 0, 0), stride=(1, 1, 2, 2)),
        sample(plane, (1, 1, 3, 2), stride=(1, 1, 2, 3), dilation=(1, 1, 2, 3)),
        sample((4, 4, 2, 2), (2, 2, 1, 1), stride=(2, 2, 1, 1)),
        sample((1, 1, 6, 6), (1, 1, 2, 2), padding=pad(0, 0, 0, 0, -1, -1, -2, 0)),
        sample((2, 1, 3, 4, 3), (1, 1, 2, 3, 2), stride=(1, 1, 2, 1, 2)),
        sample((1, 2, 1, 2, 3, 1, 2, 3), (1, 2, 1, 1, 2, 1, 1, 2), stride=(1, 1, 1, 1, 2, 1, 1, 1)),
        sample(plane, (1, 1, 5, 6), padding=pad(0, 0, 0, 0, 0, 0, 0, 0)),
    )
    bordered = tuple(
        one
        for border in borders
        for one in (
            sample(plane, (1, 1, 3, 3), border=border, padding=pad(0, 0, 0, 0, 1, 1, 2, 1)),
            sample(
                plane,
                (1, 2, 2, 3),
                border=border,
                padding=pad(0, 0, 1, 1, 1, 0, 2, -1),
                stride=(1, 2, 2, 1),
                dilation=(1, 1, 3, 2),
            ),
        )
    )
    # padding longer than the extents: repeated reflections, and windows outside of the input
    far = tuple(
        sample((3, 1), (2, 2), border=border, padding=pad(5, 7, 2, 3), stride=(2, 1))
        for border in borders
    )
    return plain + bordered + far


def reverse_windows(borders: tuple[str, ...] = BORDERS, **attributes: Any) -> tuple[Sample, ...]:
    """Samples of a reverse operation with a `size`."""

    def sample(shape: Shape, size: Shape, **more: Any) -> Sample:
        return Sample(inputs=(shape,), attributes={"size": size, **attributes, **more})

    plane = (1, 2, 3, 4)
    plain = (
        sample((4,), (3,), stride=(2,)),
        sample((2, 3), (2, 2), padding=pad(0, 0, 1, 0)),
        sample((2, 1, 4), (1, 1, 4), stride=(1, 1, 3)),
        sample(plane, (1, 1, 2, 2), stride=(1, 1, 2, 2)),
        sample(plane, (1, 1, 1, 2), stride=(1, 1, 3, 3)),
        sample(plane, (1, 1, 2, 3), dilation=(1, 1, 3, 2), padding=pad(0, 0, 0, 0, 1, 0, 0, 1)),
        sample(plane, (1, 1, 3, 3), stride=(1, 1, 2, 2), output_shape=(1, 2, 5, 8)),
        sample(
            plane,
            (1, 1, 2, 2),
            stride=(1, 1, 2, 2),
            padding=pad(0, 0, 0, 0, 0, 0, 0, 0),
            output_shape=(1, 2, 7, 8),
        ),
        sample((2, 2, 2, 2), (2, 2, 1, 1), stride=(2, 1, 1, 1)),
        sample(plane, (1, 1, 2, 2), padding=pad(0, 0, 0, 0, -1, -1, -2, 0)),
        sample((1, 1, 2, 3, 2), (1, 1, 2, 2, 3), stride=(1, 1, 2, 1, 2)),
        sample((1, 2, 1, 1, 2, 1, 2, 2), (1, 1, 1, 2, 2, 1, 1, 2), stride=(1, 1, 1, 2, 2, 1, 1, 1)),
    )
    bordered = tuple(
        one
        for border in borders
        for one in (
            sample(plane, (1, 1, 3, 3), border=border, padding=pad(0, 0, 0, 0, 1, 1, 2, 1)),
            sample(plane, (1, 1, 4, 3), border=border, stride=(1, 1, 2, 3)),
            sample((2, 1), (3, 7), border=border, padding=pad(2, 1, 2, 3), stride=(2, 3)),
        )
    )
    return plain + bordered
