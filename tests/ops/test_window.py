"""Window operations against the formulas of the specification and against PyTorch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nnefc.ops.core.arrays import Array
from nnefc.ops.core.window_arithmetic import BORDERS
from nnefc.ops.tools.table import operations
from tests.helpers.examples import examples

torch: Any = pytest.importorskip("torch")

SETTINGS = examples(0.6)


def reference(name: str, *operands: Array, **attributes: Any) -> Any:
    found = operations()[name].reference
    assert found is not None
    return found(*operands, **attributes)


# -- the text, literally


def extended(input: Array, position: Sequence[int], border: str) -> float | None:
    """The extended input at a position; None: ignored."""
    inside: list[int] = []
    for i, z in zip(position, input.shape, strict=True):
        if border in ("constant", "ignore") and not 0 <= i < z:
            return 0.0 if border == "constant" else None
        while not 0 <= i < z:
            if border == "replicate":
                i = 0 if i < 0 else z - 1
            elif border == "reflect":
                i = 0 if z == 1 else -i if i < 0 else z - 1 - (i - z + 1)
            else:
                i = -i - 1 if i < 0 else z - 1 - (i - z)
        inside.append(i)
    return float(input[tuple(inside)])


@dataclass(frozen=True)
class Case:
    """A window over all dimensions of `input`, and the output extents to compute."""

    input: Array
    size: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    border: str
    output: tuple[int, ...]
    reverse: bool

    @property
    def attributes(self) -> dict[str, Any]:
        kept = ("size", "padding", "stride", "dilation", "border")
        found = {name: getattr(self, name) for name in kept}
        return {**found, "output_shape": ()} if self.reverse else found

    def terms(self, index: Sequence[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """(position in the window, position in the extended input) of the terms of an output."""
        for number, tap in enumerate(itertools.product(*map(range, self.size))):
            at: list[int] = []
            rows = zip(index, tap, self.padding, self.stride, self.dilation, strict=True)
            for i, j, (p, _), s, d in rows:
                if not self.reverse:
                    at.append(i * s + j * d - p)
                elif (i + p - j * d) % s == 0:
                    at.append((i + p - j * d) // s)
            if len(at) == len(self.size):
                yield number, tuple(at)

    def compute(self, item: Callable[[tuple[int, ...]], float]) -> Array:
        output = np.zeros(self.output)
        for index in np.ndindex(*self.output):
            output[index] = item(index)
        return output


@st.composite
def windows(
    draw: st.DrawFn, reverse: bool = False, borders: Sequence[str] = BORDERS, most: int = 3
) -> Case:
    rank = draw(st.integers(1, most))

    def items(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    shape, size, stride, dilation = items(1, 5), items(1, 3), items(1, 3), items(1, 3)
    padding = tuple(zip(items(-1, 4), items(-1, 4), strict=True))
    output: list[int] = []
    for x, f, (p, q), s, d in zip(shape, size, padding, stride, dilation, strict=True):
        dilated = (f - 1) * d + 1
        if reverse:
            output.append((x - 1) * s + dilated - p - q)
            assume(output[-1] >= 1)
        else:
            assume(p + x + q >= dilated)
            output.append((p + x + q - dilated) // s + 1)
    assume(math.prod(output) <= 200)
    seed = draw(st.integers(0, 2**32 - 1))
    input = np.random.default_rng(seed).integers(-6, 7, shape) / 4
    border = draw(st.sampled_from(borders))
    return Case(input, size, padding, stride, dilation, border, tuple(output), reverse)


def values(case: Case, index: tuple[int, ...]) -> list[float]:
    found = (extended(case.input, at, case.border) for _, at in case.terms(index))
    return [value for value in found if value is not None]


@SETTINGS
@given(windows() | windows(reverse=True), st.booleans())
def test_box_and_debox_match_their_formulas(case: Case, normalize: bool) -> None:
    def item(index: tuple[int, ...]) -> float:
        terms = values(case, index)
        count = len(terms) if case.border == "ignore" else math.prod(case.size)
        return sum(terms) / max(count, 1) if normalize else sum(terms)

    name = "debox" if case.reverse else "box"
    result = reference(name, case.input, normalize=normalize, **case.attributes)
    np.testing.assert_allclose(result, case.compute(item), rtol=1e-12, atol=1e-12)


@SETTINGS
@given(windows())
def test_max_pooling_matches_its_formula(case: Case) -> None:
    maximum = case.compute(lambda index: max(values(case, index), default=-math.inf))

    def first(index: tuple[int, ...]) -> float:
        found = ((n, extended(case.input, at, case.border)) for n, at in case.terms(index))
        return next((n for n, value in found if value == maximum[index]), 0)

    positions: Array = case.compute(first)
    np.testing.assert_array_equal(reference("max_pool", case.input, **case.attributes), maximum)
    both = reference("max_pool_with_index", case.input, **case.attributes)
    np.testing.assert_array_equal(both[0], maximum)
    np.testing.assert_array_equal(both[1], positions)
    index = reference("argmax_pool", case.input, **case.attributes)
    np.testing.assert_array_equal(index, positions)
    assert index.dtype == np.int64
    if case.border != "ignore":
        sampled = reference("sample", case.input, index, **case.attributes)
        np.testing.assert_array_equal(sampled, maximum)


def some_positions(seed: int, volume: int, shape: tuple[int, ...]) -> Array:
    """Random positions in a window; some are invalid."""
    made: Array = np.random.default_rng(seed).integers(-1, volume + 1, shape)
    return made


@SETTINGS
@given(windows(), st.integers(0, 2**32 - 1))
def test_sample_matches_its_formula(case: Case, seed: int) -> None:
    volume = math.prod(case.size)
    positions = some_positions(seed, volume, case.output)

    def item(index: tuple[int, ...]) -> float:
        chosen = [at for n, at in case.terms(index) if n == positions[index]]
        return (extended(case.input, chosen[0], case.border) or 0.0) if chosen else 0.0

    result = reference("sample", case.input, positions, **case.attributes)
    np.testing.assert_array_equal(result, case.compute(item))


@SETTINGS
@given(windows(reverse=True, borders=("constant",)), st.integers(0, 2**32 - 1))
def test_desample_matches_its_formula(case: Case, seed: int) -> None:
    volume = math.prod(case.size)
    positions = some_positions(seed, volume, case.input.shape)

    def item(index: tuple[int, ...]) -> float:
        inside = (
            (n, at)
            for n, at in case.terms(index)
            if all(0 <= i < z for i, z in zip(at, case.input.shape, strict=True))
        )
        return sum(float(case.input[at]) for n, at in inside if positions[at] == n)

    result = reference("desample", case.input, positions, **case.attributes)
    np.testing.assert_allclose(result, case.compute(item), rtol=1e-12, atol=1e-12)


@SETTINGS
@given(
    windows(borders=BORDERS[1:], most=2) | windows(reverse=True, borders=BORDERS[1:], most=2),
    st.integers(0, 2**32 - 1),
)
def test_convolutions_of_one_channel_match_their_formulas(case: Case, seed: int) -> None:
    filter = np.random.default_rng(seed).integers(-6, 7, case.size) / 4
    flat = filter.ravel()

    def item(index: tuple[int, ...]) -> float:
        terms = ((n, extended(case.input, at, case.border)) for n, at in case.terms(index))
        return 0.5 + sum(float(flat[n]) * (value or 0.0) for n, value in terms)

    attributes = {name: v for name, v in case.attributes.items() if name != "size"}
    result = reference(
        "deconv" if case.reverse else "conv",
        case.input[None, None],
        filter[None, None],
        np.array(0.5),
        groups=1,
        **attributes,
    )
    np.testing.assert_allclose(result[0, 0], case.compute(item), rtol=1e-12, atol=1e-12)


def test_maxima_of_nan_are_nan() -> None:
    plain = {"border": "constant", "padding": (), "stride": (), "dilation": ()}
    x = np.array([1.0, np.nan, 3.0, np.nan])
    maximum, index = reference("max_pool_with_index", x, size=(3,), **plain)
    np.testing.assert_array_equal(maximum, [np.nan] * 4)
    np.testing.assert_array_equal(index, [2, 1, 0, 1])
    np.testing.assert_array_equal(reference("max_pool", x, size=(3,), **plain), maximum)
    wide: Any = torch.nn.functional.max_pool1d(torch.tensor(x)[None], 2, 1)
    narrow = {**plain, "padding": ((0, 0),)}
    np.testing.assert_array_equal(reference("max_pool", x, size=(2,), **narrow), wide[0])


def test_windows_within_an_ignored_border_are_empty() -> None:
    far = {"border": "ignore", "padding": ((5, 0),), "stride": (4,), "dilation": ()}
    x = np.array([-2.0, -4.0])
    assert reference("max_pool", x, size=(2,), **far).tolist() == [-math.inf, -2.0]
    index = reference("argmax_pool", x, size=(2,), **far)
    assert index.tolist() == [0, 1]
    assert reference("box", x, size=(2,), normalize=True, **far).tolist() == [0.0, -2.0]
    # an ignored border never wins, not even over -inf
    x = np.array([-math.inf, -math.inf])
    assert reference("argmax_pool", x, size=(2,), **far).tolist() == [0, 1]


# -- torch


@dataclass(frozen=True)
class Steps:
    """Window parameters that PyTorch supports: equal padding on both sides."""

    size: tuple[int, ...]
    padding: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def attributes(self) -> dict[str, Any]:
        padding = tuple((p, p) for p in self.padding)
        return {"padding": padding, "stride": self.stride, "dilation": self.dilation}

    @property
    def window(self) -> dict[str, Any]:
        """The attributes of a pool, over batch and channels too."""
        padding = ((0, 0), (0, 0), *((p, p) for p in self.padding))
        found = {"size": self.size, "stride": self.stride, "dilation": self.dilation}
        return {"padding": padding, **{name: (1, 1, *value) for name, value in found.items()}}


@st.composite
def steps(draw: st.DrawFn, rank: int) -> Steps:
    def items(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    size = items(1, 3)
    padding = tuple(draw(st.integers(0, f // 2)) for f in size)
    return Steps(size, padding, items(1, 3), items(1, 2))


ranks = st.integers(1, 3)


def random(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


@SETTINGS
@given(st.data(), ranks, st.integers(1, 3), st.integers(1, 2), st.integers(1, 2), st.booleans())
def test_conv_matches_torch(
    data: st.DataObject, rank: int, groups: int, inputs: int, outputs: int, reverse: bool
) -> None:
    step = data.draw(steps(rank))
    extents = [data.draw(st.integers(5, 7)) for _ in range(rank)]
    x = random(1, 2, groups * inputs, *extents)
    filter = random(2, groups * outputs, inputs, *step.size)
    attributes = {**step.attributes, "border": "constant", "groups": groups}
    same = {"stride": step.stride, "padding": step.padding, "dilation": step.dilation}
    function: Any = getattr(torch.nn.functional, f"conv{rank}d")
    transpose: Any = getattr(torch.nn.functional, f"conv_transpose{rank}d")
    weights: Any = torch.tensor(filter)
    if not reverse:
        bias = random(3, groups * outputs)
        expected = function(torch.tensor(x), weights, torch.tensor(bias), groups=groups, **same)
        result = reference("conv", x, filter, bias[None], **attributes)
    else:
        bias = random(3, groups * inputs)
        x = random(1, 2, groups * outputs, *extents)
        more = tuple(min(s, d) - 1 for s, d in zip(step.stride, step.dilation, strict=True))
        expected = transpose(
            torch.tensor(x), weights, torch.tensor(bias), groups=groups, output_padding=more, **same
        )
        shape = tuple(expected.shape)
        result = reference("deconv", x, filter, bias[None], output_shape=shape, **attributes)
    np.testing.assert_allclose(result, expected.numpy(), rtol=1e-9, atol=1e-12)


@SETTINGS
@given(st.data(), ranks)
def test_pools_match_torch(data: st.DataObject, rank: int) -> None:
    step = data.draw(steps(rank))
    extents = [data.draw(st.integers(5, 7)) for _ in range(rank)]
    x = random(1, 2, 3, *extents)
    functional: Any = torch.nn.functional
    maximum = getattr(functional, f"max_pool{rank}d")(
        torch.tensor(x), step.size, step.stride, step.padding, step.dilation
    )
    result = reference("max_pool", x, border="ignore", **step.window)
    np.testing.assert_array_equal(result, maximum.numpy())
    for border, counted in (("constant", True), ("ignore", False)):
        average = getattr(functional, f"avg_pool{rank}d")(
            torch.tensor(x), step.size, step.stride, step.padding, False, counted
        )
        window = {**step.window, "dilation": ()}
        result = reference("avg_pool", x, border=border, **window)
        np.testing.assert_allclose(result, average.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
def test_depthwise_convolution_with_a_multiplier_matches_pytorch(reverse: bool) -> None:
    steps: dict[str, Any] = {"border": "constant", "padding": ((1, 1),), "dilation": ()}
    up, down, filter = random(1, 1, 3, 5), random(2, 1, 6, 5), random(3, 6, 1, 3)
    functional: Any = torch.nn.functional
    weights = torch.tensor(filter)
    if reverse:
        expected = functional.conv_transpose1d(torch.tensor(down), weights, padding=1, groups=3)
        shape = (1, 3, 5)
        zero = np.zeros(())
        result = reference(
            "deconv", down, filter, zero, groups=0, output_shape=shape, stride=(), **steps
        )
    else:
        expected = functional.conv1d(torch.tensor(up), weights, padding=1, groups=3)
        result = reference("conv", up, filter, np.zeros(()), groups=0, stride=(1,), **steps)
    np.testing.assert_allclose(result, expected.numpy(), rtol=1e-9, atol=1e-12)


def test_desample_matches_max_unpool() -> None:
    x = random(1, 2, 3, 6, 8)
    functional: Any = torch.nn.functional
    window = {"size": (1, 1, 2, 2), "stride": (1, 1, 2, 2), "border": "constant"}
    window |= {"padding": ((0, 0),) * 4, "dilation": ()}
    maximum, index = reference("max_pool_with_index", x, **window)
    expected, where = functional.max_pool2d(torch.tensor(x), 2, return_indices=True)
    np.testing.assert_array_equal(maximum, expected.numpy())
    result = reference("desample", maximum, index, output_shape=(2, 3, 7, 8), **window)
    unpooled = functional.max_unpool2d(expected, where, 2)
    np.testing.assert_array_equal(result[:, :, :6], unpooled.numpy())
    assert not result[:, :, 6].any()


def test_separable_convolutions_match_pytorch() -> None:
    functional: Any = torch.nn.functional
    x, plane, point, bias = random(1, 1, 4, 6, 5), random(2, 4, 1, 3, 3), random(3, 6, 2, 1, 1), 0.5
    steps: dict[str, Any] = {"border": "constant", "stride": (2, 1), "dilation": ()}
    steps["padding"] = ((1, 1), (0, 0))
    filtered = functional.conv2d(torch.tensor(x), torch.tensor(plane), None, (2, 1), (1, 0), 1, 4)
    expected = functional.conv2d(filtered, torch.tensor(point), None, 1, 0, 1, 2) + bias
    result = reference("separable_conv", x, plane, point, np.array(bias), groups=2, **steps)
    np.testing.assert_allclose(result, expected.numpy(), rtol=1e-9, atol=1e-12)
    point = random(4, 4, 2, 1, 1)
    spread = functional.conv_transpose2d(torch.tensor(x), torch.tensor(point), groups=2)
    weights = torch.tensor(plane)
    expected = functional.conv_transpose2d(spread, weights, None, (2, 1), (1, 0), 0, 4) + bias
    result = reference(
        "separable_deconv", x, plane, point, np.array(bias), groups=2, output_shape=(), **steps
    )
    np.testing.assert_allclose(result, expected.numpy(), rtol=1e-9, atol=1e-12)
