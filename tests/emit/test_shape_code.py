"""Programs that compute extents in C compute what the traces in Python do."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nnefc import NnefError
from nnefc.emit.shape_code import ShapeCode
from nnefc.kernels.embedded.model_layout import (
    MODEL,
    PARAMETERS,
    PATTERN,
    PATTERN_NUMBER_COUNT,
    PATTERN_NUMBERS,
    PATTERN_STEP_COUNT,
    PATTERN_STEPS,
    REGISTERS,
)
from nnefc.kernels.embedded.shapes import holds
from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.vector.memory import STORE, address
from nnefc.symbolic.integers import Trace, hint
from tests.helpers.examples import examples
from tests.helpers.kernels.raw_kernel import run as run_kernel
from tests.symbolic.test_integers import PAIRS, STEPS, numbers_of

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

Array = np.ndarray[Any, Any]


def test_integers_of_more_than_64_bits_become_the_nearest() -> None:
    code = ShapeCode(0, {})
    for value in (1 << 70, -(1 << 70), -(1 << 63)):
        code.number(value)
    assert code.numbers == [(1 << 63) - 1, -(1 << 63), -(1 << 63)]


CALL = Layout("net:ref data:ref row:ref shape:ref result:ref")
NET, MODEL_DATA, ROW, VALUES, RESULT = CALL.offsets
REGISTERS_AT = 64
"""Offset of the registers in the memory of the test."""


@family()
def holds_at() -> KernelFunction:
    """result = whether the guards of a pattern hold"""
    store = STORE["int64"]

    def holds_at(bases, params, first, last):
        net, data = address(bases, params + NET), address(bases, params + MODEL_DATA)
        row, shape = address(bases, params + ROW), address(bases, params + VALUES)
        for _ in range(first, last):
            store(address(bases, params + RESULT), holds(net, data, row, shape))

    return holds_at


def evaluated(code: ShapeCode, values: tuple[int, ...]) -> tuple[bool, Array]:
    """Whether the guards of a pattern hold in native code, and its registers."""
    data = np.zeros(MODEL.nbytes // 8 + len(code.numbers) + len(code.steps()) + 1, np.int64)
    data[PARAMETERS // 8], data[REGISTERS // 8] = len(values), REGISTERS_AT
    numbers = MODEL.nbytes // 8
    steps = numbers + len(code.numbers)
    data[numbers:steps] = code.numbers
    data[steps : steps + len(code.steps())] = code.steps()
    row = np.zeros(PATTERN.nbytes // 8, np.int64)
    for field, value in (
        (PATTERN_NUMBERS, 8 * numbers),
        (PATTERN_NUMBER_COUNT, len(code.numbers)),
        (PATTERN_STEPS, 8 * steps),
        (PATTERN_STEP_COUNT, code.step_count),
    ):
        row[field // 8] = value
    net, result = np.zeros(REGISTERS_AT // 8 + code.count, np.int64), np.zeros(1, np.int64)
    run_kernel(
        holds_at(),
        CALL,
        1,
        net=net,
        data=data,
        row=row,
        shape=np.array(values, np.int64),
        result=result,
    )
    return bool(result[0]), net[REGISTERS_AT // 8 :]


@examples(2)
@given(STEPS, PAIRS, st.lists(PAIRS, min_size=1, max_size=4))
def test_native_arithmetic_is_that_of_python(
    steps: list[tuple[int, int, int]],
    first: tuple[int, int],
    others: list[tuple[int, int]],
) -> None:
    """Where native code has results they are equal; it has all small ones."""
    trace = Trace()
    try:
        traced = numbers_of(steps, [trace.symbol(value) for value in first])
    except (ArithmeticError, ValueError):
        return
    program = trace.program(traced)
    names = {name: i for i, name in enumerate(program.symbols)}
    code = ShapeCode(len(names), names)
    try:
        registers = code.add(program)
    except NnefError as error:
        assert "real numbers" in error.errors[0].message
        return
    for pair in (first, *others):
        try:
            expected = program.function()(*pair)
        except (ArithmeticError, ValueError):
            expected = None
        does_hold, words = evaluated(code, pair)
        if not does_hold:
            largest = max(abs(hint(each)) for each in traced)
            assert expected is None or largest > 1 << 40 or pair != first
            continue
        assert expected is not None
        for number, register in zip(expected, registers, strict=True):
            word = words[code.index(register)]
            if isinstance(number, float):
                assert word.view(np.float64) == number
            else:
                assert word == number
