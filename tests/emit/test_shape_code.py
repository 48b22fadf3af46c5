"""Programs of shapes in C."""

from __future__ import annotations

from nnefc.emit.shape_code import ShapeCode


def test_integers_of_more_than_64_bits_become_the_nearest() -> None:
    code = ShapeCode(0, {})
    for value in (1 << 70, -(1 << 70), -(1 << 63)):
        code.number(value)
    assert code.numbers == [(1 << 63) - 1, -(1 << 63), -(1 << 63)]
