"""The subset of Python that kernels use, and calls of helpers and intrinsics."""

from __future__ import annotations

import ctypes
import math
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest
from numba.core import types

from nnefc.kernels.codegen.callee import helper, native
from nnefc.kernels.codegen.translate import translate
from nnefc.kernels.vector.memory import NUMBER, bits_float64, float64_bits, select
from nnefc.runtime.compile.kernel_compiler import compile_functions
from nnefc.support.errors import NnefError


def _run(function: Any, *arguments: int) -> int:
    """`function(*arguments)`, compiled."""
    code = compile_functions([("f", function)])
    word = ctypes.c_int64
    return ctypes.CFUNCTYPE(word, *[word] * len(arguments))(code.entry("f"))(*arguments)


def _word(x: float) -> int:
    return ctypes.c_int64.from_buffer(ctypes.c_double(x)).value


def smaller(a: int, b: int) -> int:
    return float64_bits(min(bits_float64(a), bits_float64(b)))


def larger(a: int, b: int) -> int:
    return float64_bits(max(bits_float64(a), bits_float64(b)))


@pytest.mark.parametrize("function", [smaller, larger])
def test_extremes_match_python(function: Any) -> None:
    """Signed zeros and NaN tell which operand `min` and `max` return."""
    python = min if function is smaller else max
    code = compile_functions([("f", function)])
    call = ctypes.CFUNCTYPE(*[ctypes.c_int64] * 3)(code.entry("f"))
    values = [1.5, -2.0, 0.0, -0.0, math.inf, math.nan]
    for a in values:
        for b in values:
            assert call(_word(a), _word(b)) == _word(python(a, b)), (a, b)


def test_extremes_of_integers_and_of_mixed_types() -> None:
    def f(a: int, b: int) -> int:
        return max(min(a, b), -3) * 100 + int(max(a, 2.5))

    assert _run(f, 5, -7) == -3 * 100 + 5
    assert _run(f, -1, 4) == -1 * 100 + 2


def test_conversions_truncate() -> None:
    def f(a: int) -> int:
        return int(bits_float64(a)) * 10 + int(float(a) == a + 0.0)

    assert _run(f, _word(-2.75)) == -19
    assert _run(f, _word(2.75)) == 21


@pytest.mark.parametrize("name", NUMBER)
def test_conversions_match_numpy(name: str) -> None:
    number = NUMBER[name]

    def f(a: int) -> int:
        return float64_bits(float(number(bits_float64(a))))

    def g(a: int) -> int:
        return int(number(a))

    for value in (0.1, 2.75, 0.0, 1e3 / 7):
        if value < 128 and number(value) >= 0:
            assert _run(f, _word(value)) == _word(float(number(value)))
    for value in (0, 1, 127, 2**24 + 1):
        with np.errstate(over="ignore"):
            assert _run(g, value) == int(np.int64(value).astype(number))


def test_constants_of_a_type_keep_it() -> None:
    third = NUMBER["float32"](1 / 3)

    def f(a: int) -> int:
        return float64_bits(float(third * third))

    assert _run(f, 0) == _word(float(np.float32(third * third)))


def test_select_gives_a_type_that_holds_both() -> None:
    def f(a: int) -> int:
        return float64_bits(select(a > 2, a, 0.5))

    assert _run(f, 3) == _word(3.0)
    assert _run(f, 2) == _word(0.5)


def test_division_and_remainder_match_python() -> None:
    def f(a: int, b: int) -> int:
        return a // b * 1000 + a % b

    for a in (7, -7):
        for b in (3, -3):
            assert _run(f, a, b) == a // b * 1000 + a % b


@helper
def _pair(x: Any) -> Any:
    return x + 1, x * 2


def test_helpers_return_tuples_of_any_type() -> None:
    def f(a: int) -> int:
        low, high = _pair(a)
        x, y = _pair(bits_float64(a))
        return select(x < y, low, high)

    assert _run(f, _word(0.5)) == _word(0.5) * 2
    assert _run(f, _word(1.5)) == _word(1.5) + 1


def _adder(amount: int) -> Any:
    @helper
    def add(x: Any) -> Any:
        return x + amount

    return add


def test_helpers_with_equal_names() -> None:
    def sum_of(one: Any, ten: Any) -> int:
        def f(a: int) -> int:
            return one(a) * 1000 + ten(one(a))

        return _run(f, 5)

    for amount in range(5):  # new functions reuse the memory of deleted ones
        assert sum_of(_adder(amount), _adder(10)) == (5 + amount) * 1000 + 15 + amount


def test_a_shared_helper_is_translated_once() -> None:
    one = _adder(1)

    @helper
    def twice(x: Any) -> Any:
        return one(one(x))

    def f(a: int) -> int:
        return twice(a) + one(a)

    parts = list(translate(f, (types.int64,), types.int64).all())
    assert len(parts) == len({part.name for part in parts}) == 3
    assert _run(f, 3) == 9


def test_errors_name_what_is_wrong() -> None:
    def keyword(a: int) -> int:
        return _pair(x=a)[0]

    def count(a: int) -> int:
        return float64_bits(a, a)  # type: ignore[call-arg]

    def text(a: int) -> int:
        return len(str(a))

    for function, message in ((keyword, "keywords"), (count, "1 argument"), (text, "str")):
        with pytest.raises(NnefError, match=message) as caught:
            _run(function, 1)
        assert caught.value.errors[0].rule == "internal/code-generation"


def test_callees_cannot_be_called_from_python() -> None:
    with pytest.raises(TypeError, match="from kernels only"):
        _pair(1)

    @native("int64", "int64")
    def same(builder: Any, x: Any) -> Any:
        return x

    assert same.__name__ == "same"


def test_declarations_for_numpy_are_not_loaded() -> None:
    """Loading them takes longer than compiling a small kernel."""
    program = """
        import sys
        from nnefc.kernels.codegen.object_code import emit
        from nnefc.kernels.executor.executor import run_alone
        from nnefc.kernels.target.isa import host
        emit(run_alone, "f", host())
        for module in ("numba.np.arrayobj", "numba.typed.typeddict", "scipy.linalg"):
            assert module not in sys.modules, module
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
