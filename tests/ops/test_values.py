"""References against the formulas of the specification, item by item, and against PyTorch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (formulas as lambdas over arrays of any type)

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ir import DType
from tests.helpers.examples import examples
from tests.helpers.references import compute, random, same

torch: Any = pytest.importorskip("torch")
SETTINGS = examples(0.4)

Array = np.ndarray[Any, Any]


# -- element-wise, by the formulas of 4.2

UNARY: dict[str, Callable[[float], float]] = {
    "copy": lambda x: x,
    "neg": lambda x: -x,
    "rcp": lambda x: 1 / x,
    "exp": math.exp,
    "log": math.log,
    "sin": math.sin,
    "cos": math.cos,
    "abs": lambda x: x if x >= 0 else -x,
    "sign": lambda x: 1 if x > 0 else 0 if x == 0 else -1,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": lambda x: math.floor(x + 0.5),
    "sqr": lambda x: x**2,
    "sqrt": lambda x: x**0.5,
    "rsqr": lambda x: x**-2.0,
    "rsqrt": lambda x: x**-0.5,
    "log2": lambda x: math.log(x) / math.log(2.0),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "relu": lambda x: max(x, 0.0),
    "tanh": lambda x: (math.exp(x) - math.exp(-x)) / (math.exp(x) + math.exp(-x)),
    "softplus": lambda x: math.log(math.exp(x) + 1),
    "elu": lambda x: math.exp(x) - 1 if x < 0 else x,
    "silu": lambda x: x / (1 + math.exp(-x)),
    "gelu": lambda x: x / (1 + math.exp(-1.702 * x)),
    "tan": math.tan,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "asinh": math.asinh,
    "acosh": math.acosh,
    "atanh": math.atanh,
}


@pytest.mark.parametrize("name", UNARY)
@SETTINGS
@given(items=st.lists(st.integers(-300, 300).map(lambda i: i / 16), min_size=1, max_size=6))
def test_unary_operations_match_python(name: str, items: list[float]) -> None:
    ours = compute(name, np.asarray(items))
    for x, y in zip(items, ours, strict=True):
        try:
            expected = UNARY[name](x)
        except (ValueError, ZeroDivisionError):  # outside the domain
            continue
        if isinstance(expected, complex):
            continue
        assert y == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_round_rounds_halves_up() -> None:
    halves = np.asarray([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])
    assert compute("round", halves).tolist() == [-2, -1, 0, 1, 2, 3]


def test_extremes_do_not_overflow() -> None:
    x = np.asarray([-1e4, 1e4, -np.inf, np.inf])
    assert compute("tanh", x).tolist() == [-1, 1, -1, 1]
    assert compute("sigmoid", x).tolist() == [0, 1, 0, 1]
    assert compute("softplus", x).tolist() == [0, 1e4, 0, np.inf]
    assert compute("softmax", np.asarray([[1e4, -1e4]])).tolist() == [[1, 0]]
    assert compute("elu", x).tolist() == [-1, 1e4, -1, np.inf]


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "pow": lambda x, y: x**y,
    "lt": lambda x, y: x < y,
    "gt": lambda x, y: x > y,
    "le": lambda x, y: x <= y,
    "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "min": lambda x, y: x if x < y else y,
    "max": lambda x, y: x if x > y else y,
    "prelu": lambda x, a: a * x if x < 0 else x,
}


def at(array: Array, index: tuple[int, ...]) -> Any:
    """The item at an index after broadcasting (aligned at dimension 0)."""
    return array[tuple(0 if n == 1 else i for i, n in zip(index, array.shape))]


def by_item(function: Callable[..., Any], *arrays: Array) -> Array:
    rank = max(a.ndim for a in arrays)
    shape = [max(a.shape[d] if d < a.ndim else 1 for a in arrays) for d in range(rank)]
    items = [
        function(*(at(a, index) for a in arrays)) for index in itertools.product(*map(range, shape))
    ]
    return np.asarray(items).reshape(shape)


@st.composite
def broadcastable(draw: st.DrawFn, count: int) -> list[tuple[int, ...]]:
    full = draw(st.lists(st.integers(1, 3), max_size=4))
    shapes: list[tuple[int, ...]] = []
    for _ in range(count):
        rank = draw(st.integers(0, len(full)))
        shapes.append(tuple(draw(st.sampled_from((1, n))) for n in full[:rank]))
    return shapes


@pytest.mark.parametrize("name", BINARY)
@SETTINGS
@given(shapes=broadcastable(2))
def test_binary_operations_match_python(name: str, shapes: list[tuple[int, ...]]) -> None:
    x, y = (random(*s, seed=i) for i, s in enumerate(shapes))
    if name == "pow":
        x, y = np.abs(x) + 0.25, np.round(y)
    if name == "div":
        y = np.where(y == 0, 1.0, y)
    same(compute(name, x, y), by_item(BINARY[name], x, y))


@SETTINGS
@given(shapes=broadcastable(3))
def test_select_and_clamp_match_their_formulas(shapes: list[tuple[int, ...]]) -> None:
    x, y, z = (random(*s, seed=i) for i, s in enumerate(shapes))
    same(compute("select", x > 0, y, z), by_item(lambda c, a, b: a if c > 0 else b, x, y, z))
    same(compute("clamp", x, y, z), by_item(lambda v, a, b: max(min(v, b), a), x, y, z))


def test_logical_operations_match_truth_tables() -> None:
    x, y = np.asarray([False, False, True, True]), np.asarray([False, True, False, True])
    assert compute("and", x, y).tolist() == [False, False, False, True]
    assert compute("or", x, y).tolist() == [False, True, True, True]
    assert compute("not", x).tolist() == [True, True, False, False]


def test_powers_of_negative_bases_are_exact() -> None:
    x = np.asarray([-2.0, -2.0, -0.5, 0.0])
    y = np.asarray([3.0, -2.0, 2.0, 0.0])
    assert compute("pow", x, y).tolist() == [-8, 0.25, 0.25, 1]


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([-2.75, -0.5, 0.5, 2.75], DType.INT32, [-2, 0, 0, 2]),
        ([1e30, -1e30, np.nan, np.inf], DType.INT32, [2**31 - 1, -(2**31), 0, 2**31 - 1]),
        ([1e30, -1e30], DType.INT64, [2**63 - 1, -(2**63)]),
        ([-2.0, 0.0, 0.25], DType.BOOL, [True, False, True]),
        ([True, False], DType.FLOAT32, [1.0, 0.0]),
        ([True, False], DType.INT32, [1, 0]),
        ([3, -4], DType.FLOAT32, [3.0, -4.0]),
    ],
)
def test_cast_truncates_and_saturates(values: list[Any], dtype: DType, expected: list[Any]) -> None:
    result = compute("cast", np.asarray(values), dtype=dtype)
    assert result.tolist() == expected
    assert result.dtype.kind == np.asarray(expected).dtype.kind


# -- activations, against PyTorch


@pytest.mark.parametrize(
    ("name", "attributes", "theirs"),
    [
        ("leaky_relu", {"alpha": 0.25}, lambda t: torch.nn.functional.leaky_relu(t, 0.25)),
        ("elu", {"alpha": 0.5}, lambda t: torch.nn.functional.elu(t, 0.5)),
        ("elu", {}, torch.nn.functional.elu),
        ("silu", {}, torch.nn.functional.silu),
        ("softplus", {}, torch.nn.functional.softplus),
        ("softabs", {"epsilon": 0.5}, lambda t: (t * t + 0.5).sqrt()),
        ("softmax", {}, lambda t: t.softmax(1)),
        ("softmax", {"axes": (0,)}, lambda t: t.softmax(0)),
        ("softmax", {"axes": (2, 1)}, lambda t: t.flatten(1).softmax(1).reshape(t.shape)),
    ],
)
def test_activations_match_pytorch(
    name: str, attributes: dict[str, Any], theirs: Callable[[Any], Any]
) -> None:
    x = random(2, 3, 4)
    np.testing.assert_allclose(
        compute(name, x, **attributes), theirs(torch.from_numpy(x)).numpy(), rtol=1e-8, atol=1e-9
    )


def test_selu() -> None:
    x = random(3, 4)
    theirs = torch.nn.functional.selu(torch.from_numpy(x)).numpy()
    defaults = {"alpha": 1.67326319, "lambda": 1.05070102}
    np.testing.assert_allclose(compute("selu", x, **defaults), theirs, rtol=1e-7)
    given = compute("selu", x, **{"alpha": 2.0, "lambda": 3.0})
    same(given, np.where(x < 0, 3 * 2 * np.expm1(x), 3 * x))


# -- products


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("batches", [((), ()), ((2,), (2,)), ((1,), (3,)), ((2, 1), (1, 3))])
def test_matmul_matches_einsum(
    transpose_a: bool, transpose_b: bool, batches: tuple[Any, Any]
) -> None:
    a = random(*batches[0], *((4, 3) if transpose_a else (3, 4)))
    b = random(*batches[1], *((2, 4) if transpose_b else (4, 2)), seed=1)
    rows = f"...{'li' if transpose_a else 'il'},...{'jl' if transpose_b else 'lj'}->...ij"
    theirs = torch.einsum(rows, torch.from_numpy(a), torch.from_numpy(b))
    same(compute("matmul", a, b, transposeA=transpose_a, transposeB=transpose_b), theirs)


def test_linear_matches_pytorch() -> None:
    x, w, b = random(3, 4), random(5, 4, seed=1), random(1, 5, seed=2)
    theirs = torch.nn.functional.linear(*map(torch.from_numpy, (x, w, b[0])))
    same(compute("linear", x, w, b), theirs)


# -- quantization


def levels(x: float, low: float, high: float, steps: int) -> float:
    """One item quantized by the formula of 4.9.5."""
    z = max(min(x, high), low)
    return math.floor((z - low) / (high - low) * steps + 0.5) / steps * (high - low) + low


def test_linear_quantize_matches_its_formula() -> None:
    x, low, high = random(4, 3), np.asarray(-1.0), random(4) + 4.0
    for bits in (1, 3, 8, 16):
        ours = compute("linear_quantize", x, low, high, bits=bits)
        steps = 2**bits - 1
        same(ours, by_item(lambda v, a, b, s=steps: levels(v, a, b, s), x, low, high))
        signed = {"bits": bits + 1, "signed": True, "symmetric": True}
        ours = compute("min_max_linear_quantize", x, low, high, **signed)
        steps = 2 ** (bits + 1) - 2
        same(ours, by_item(lambda v, a, b, s=steps: levels(v, a, b, s), x, low, high))


def test_an_empty_range_has_one_level() -> None:
    x, one = np.asarray([-1.0, 1.0, 5.0]), np.asarray(1.0)
    assert compute("linear_quantize", x, one, one, bits=8).tolist() == [1, 1, 1]
    assert compute("linear_quantize", x, one, -one, bits=8).tolist() == [1, 1, 1]
    flags = {"bits": 8, "signed": False, "symmetric": False}
    zero = np.asarray(0.0)
    result = compute("zero_point_linear_quantize", x, np.asarray(3), zero, **flags)
    assert result.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("signed", "symmetric", "low", "high"),
    [(True, False, -8, 7), (True, True, -7, 7), (False, False, 0, 15), (False, True, 0, 15)],
)
@pytest.mark.parametrize("zero_point", [0, 3])
def test_zero_point_quantize_matches_pytorch(
    signed: bool, symmetric: bool, low: int, high: int, zero_point: int
) -> None:
    x = random(4, 5) + 1 / 64  # no ties, which PyTorch rounds to even
    theirs = torch.fake_quantize_per_tensor_affine(
        torch.from_numpy(x).float(), 0.25, zero_point, low, high
    )
    flags = {"bits": 4, "signed": signed, "symmetric": symmetric}
    scale = np.asarray(0.25)
    ours = compute("zero_point_linear_quantize", x, np.asarray(zero_point), scale, **flags)
    same(ours, theirs)


def test_logarithmic_quantize_matches_its_formula() -> None:
    x = np.asarray([0.0, 0.01, -0.3, 0.75, 1.0, 3.0, -100.0])

    def item(v: float) -> float:
        m, r = math.ceil(math.log2(3.0)), 2**2 - 1
        if v == 0:
            return 0.0
        q = math.floor(max(min(math.log2(abs(v)), m), m - r) + 0.5)
        return math.copysign(2.0**q, v)

    same(compute("logarithmic_quantize", x, np.asarray(3.0), bits=2), [item(v) for v in x])


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0,)])
def test_constants_may_have_no_items(shape: tuple[int, ...]) -> None:
    assert compute("constant", shape=shape, value=np.zeros(shape)).shape == shape
