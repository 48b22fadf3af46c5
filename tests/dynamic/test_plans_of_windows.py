"""Symbolic plans of windows over channel-blocked tensors compute the same as the reference."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnefc
from nnefc.dynamic.dynamic_model import DynamicModel
from nnefc.ops.tools.reference import evaluate
from tests.helpers.examples import examples
from tests.helpers.graphs.dynamic_models import model

Array = np.ndarray[Any, Any]
Extents = tuple[int, ...]

SYMBOLS = "HWD"
CHANNELS = 3
"""Of the input."""


@dataclass
class Chain:
    """A document that applies a chain of operations to an input [B, CHANNELS, H, W, ...]."""

    rank: int
    channels: int = CHANNELS
    lines: list[str] = field(default_factory=list[str])
    weights: dict[str, Array] = field(default_factory=dict[str, Array])
    shapes: list[tuple[int, str]] = field(default_factory=lambda: [(CHANNELS, "")])
    """Of every value: channels, and a text that is the same for the same spatial extents."""

    def add(self, text: str, channels: int | None = None, moved: str = "") -> None:
        """Append an operation on the last value, `x@`."""
        channels = channels or self.channels
        number = len(self.lines)
        self.lines.append(f"v{number + 1} = {text.replace('x@', f'v{number}')};")
        self.channels = channels
        self.shapes.append((channels, self.shapes[-1][1] + moved))

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        rng = np.random.default_rng(len(self.weights))
        self.weights[name] = (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype("f4")
        return f"variable<scalar>(label = '{name}', shape = {list(shape)})"

    def window(self, size: int, stride: int, dilation: int, padding: int) -> str:
        n = self.rank
        return (
            f"stride = {[stride] * n}, dilation = {[dilation] * n}, "
            f"padding = {[(padding, padding)] * n}, border = 'constant'"
        )

    @property
    def body(self) -> str:
        dims = ", ".join(("B", str(CHANNELS), *SYMBOLS[: self.rank]))
        lines = "\n  ".join(self.lines)
        return f"""graph g(v0) -> (v{len(self.lines)}) {{
  v0 = tract_core_external(shape = [{dims}], datum_type = 'f32');
  {lines}
}}"""


EXTENSIONS = "".join(f"extension tract_symbol {s};\n" for s in ("B", *SYMBOLS))


def convolve(chain: Chain, outputs: int, size: int, stride: int, dilation: int) -> None:
    filter_ = chain.weight(outputs, chain.channels, *[size] * chain.rank)
    window = chain.window(size, stride, dilation, dilation * (size // 2))
    moved = (f"/{stride}" if stride > 1 else "") + (f"+{dilation}" if size % 2 == 0 else "")
    chain.add(f"conv(x@, {filter_}, {chain.weight(1, outputs)}, {window})", outputs, moved)


def depthwise(chain: Chain, size: int, stride: int) -> None:
    filter_ = chain.weight(chain.channels, 1, *[size] * chain.rank)
    window = f"{chain.window(size, stride, 1, size // 2)}, groups = {chain.channels}"
    chain.add(f"conv(x@, {filter_}, 0.0, {window})", moved=f"/{stride}" if stride > 1 else "")


def grouped(chain: Chain, size: int, stride: int, times: int) -> None:
    """Groups of few channels, with `times` as many in the result; row-major if 3."""
    inputs = math.gcd(chain.channels, 4)
    outputs = chain.channels * times
    filter_ = chain.weight(outputs, inputs, *[size] * chain.rank)
    window = f"{chain.window(size, stride, 1, size // 2)}, groups = {chain.channels // inputs}"
    moved = f"/{stride}" if stride > 1 else ""
    chain.add(f"conv(x@, {filter_}, 0.5, {window})", outputs, moved)


def share(chain: Chain, size: int, stride: int) -> None:
    """Two groups of 24 channels, which share a block of 16."""
    convolve(chain, 48, 1, 1, 1)
    filter_ = chain.weight(48, 24, *[size] * chain.rank)
    moved = f"/{stride}" if stride > 1 else ""
    window = chain.window(size, stride, 1, size // 2)
    chain.add(f"conv(x@, {filter_}, 0.5, {window}, groups = 2)", 48, moved)


def surround(chain: Chain, border: str) -> None:
    """Padding with other items than zeros."""
    padding = [(0, 0), (0, 0), *[(1, 2)] * chain.rank]
    chain.add(f"pad(x@, padding = {padding}, border = '{border}', value = 0.5)", moved="+3")


def grow(chain: Chain, outputs: int, size: int) -> None:
    filter_ = chain.weight(outputs, chain.channels, *[size] * chain.rank)
    chain.add(f"deconv(x@, {filter_}, 0.0, {chain.window(size, 2, 1, size // 2)})", outputs, "*")


def grow_apart(chain: Chain, size: int, stride: int) -> None:
    filter_ = chain.weight(chain.channels, 1, *[size] * chain.rank)
    window = f"{chain.window(size, stride, 1, size // 2)}, groups = {chain.channels}"
    chain.add(f"deconv(x@, {filter_}, 0.5, {window})", moved="*")


def pool(chain: Chain, name: str, size: int, stride: int, dilation: int = 1) -> None:
    n = chain.rank
    sizes, strides, dilations = ([1, 1, *[x] * n] for x in (size, stride, dilation))
    padding = [(0, 0), (0, 0), *[(size // 2 * dilation, size // 2 * dilation)] * n]
    border = "ignore" if name == "max_pool" else "constant"
    more = ", normalize = true" if name == "box" else ""
    chain.add(
        f"{name}(x@, size = {sizes}, stride = {strides}, dilation = {dilations}, "
        f"padding = {padding}, border = '{border}'{more})",
        moved=(f"/{stride}" if stride > 1 else "") + ("+1" if size % 2 == 0 else ""),
    )


def repeat(chain: Chain) -> None:
    sizes = [1, 1, *[2] * chain.rank]
    chain.add(
        f"debox(x@, size = {sizes}, stride = {sizes}, padding = {[(0, 0)] * len(sizes)}, "
        "border = 'constant', normalize = false)",
        moved="*2",
    )


def add_to(chain: Chain, number: int) -> None:
    """The sum with an earlier value of the same shape, or else twice the last one."""
    same = [i for i, shape in enumerate(chain.shapes) if shape == chain.shapes[-1]]
    chain.add(f"relu(add(x@, v{same[number % len(same)]}))")


def join(chain: Chain, number: int) -> None:
    """The channels of two values."""
    same = [i for i, (_, moved) in enumerate(chain.shapes) if moved == chain.shapes[-1][1]]
    other = same[number % len(same)]
    chain.add(f"concat([x@, v{other}], axis = 1)", chain.channels + chain.shapes[other][0])


def checked(dynamic: DynamicModel, folder: Path, extents: Extents, batch: int) -> None:
    rng = np.random.default_rng(sum(extents))
    x = rng.standard_normal((batch, CHANNELS, *extents)).astype(np.float32)
    found = dynamic(x)
    graph = nnefc.import_model(folder, shapes={"v0": x.shape})
    (expected,) = evaluate(graph, {"v0": x}).outputs.values()
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


def compiled(chain: Chain, folder: Path) -> DynamicModel:
    weights: dict[str, Any] = {**chain.weights}
    return model(folder, chain.body, EXTENSIONS, **weights)


def interpolate(chain: Chain) -> None:
    chain.add(
        f"multilinear_upsample(x@, factor = {[2] * chain.rank}, method = 'asymmetric', "
        "border = 'replicate')",
        moved="*2",
    )


STEPS = st.one_of(
    st.tuples(
        st.just(convolve),
        st.sampled_from((4, 8, 12, 16)),
        st.sampled_from((1, 2, 3, 5)),
        st.sampled_from((1, 2)),
        st.sampled_from((1, 2, 9)),
    ),
    st.tuples(st.just(depthwise), st.sampled_from((3, 5)), st.sampled_from((1, 2))),
    st.tuples(
        st.just(grouped),
        st.sampled_from((3, 5)),
        st.sampled_from((1, 2)),
        st.sampled_from((1, 1, 2, 3)),
    ),
    st.tuples(st.just(share), st.sampled_from((1, 3)), st.sampled_from((1, 2))),
    st.tuples(st.just(surround), st.sampled_from(("constant", "replicate", "reflect"))),
    st.tuples(st.just(grow), st.sampled_from((8, 12)), st.sampled_from((2, 3, 4))),
    st.tuples(st.just(grow_apart), st.sampled_from((2, 3, 4)), st.sampled_from((2, 3))),
    st.tuples(
        st.just(pool),
        st.sampled_from(("max_pool", "box")),
        st.sampled_from((2, 3)),
        st.sampled_from((1, 2)),
        st.sampled_from((1, 2)),
    ),
    st.tuples(st.just(repeat)),
    st.tuples(st.just(interpolate)),
    st.tuples(st.just(add_to), st.integers(0, 3)),
    st.tuples(st.just(join), st.integers(0, 3)),
    st.tuples(st.just(Chain.add), st.sampled_from(("relu(x@)", "sigmoid(x@)", "tanh(x@)"))),
)


@examples(0.15)
@given(st.data())
def test_windows_of_any_size(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    chain = Chain(data.draw(st.sampled_from((1, 2, 2, 3))))
    convolve(chain, data.draw(st.sampled_from((8, 16, 20))), 3, 1, 1)
    for step, *arguments in data.draw(st.lists(STEPS, min_size=1, max_size=5)):
        step(chain, *arguments)
    folder = tmp_path_factory.mktemp("windows")
    dynamic = compiled(chain, folder)
    extent = st.integers(7, 40 if chain.rank < 3 else 11)
    for _ in range(3):
        extents = data.draw(st.tuples(*[extent] * chain.rank))
        checked(dynamic, folder, extents, data.draw(st.integers(1, 3)))


def network(rank: int) -> Chain:
    """The usual layers of convolutional networks."""
    chain = Chain(rank)
    convolve(chain, 16, 7, 2, 1)
    chain.add("relu(x@)")
    pool(chain, "max_pool", 3, 2)
    convolve(chain, 16, 3, 1, 1)
    add_to(chain, 0)
    chain.add("mul(x@, sigmoid(x@))")
    depthwise(chain, 3, 2)
    convolve(chain, 24, 1, 1, 1)
    share(chain, 3, 1)
    pool(chain, "box", 3, 1)
    grow(chain, 16, 4)
    grow_apart(chain, 3, 2)
    repeat(chain)
    border = [(0, 0), (0, 0), *[(2, 1)] * rank]
    chain.add(f"pad(x@, padding = {border}, border = 'reflect')", moved="+3")
    convolve(chain, 16, 3, 2, 1)
    scales = [1.0, 1.0, *[2.0] * rank]
    chain.add(
        "tract_core_resize(x@, interpolator = 'nearest', coord_transformer = 'asymmetric', "
        f"nearest_mode = 'floor', scales = {scales})",
        moved="*2",
    )
    join(chain, len(chain.lines))
    pool(chain, "max_pool", 3, 1, 2)
    if rank < 3:  # of the last two dimensions
        interpolate(chain)
    convolve(chain, 8, 3, 1, 2)
    chain.add(f"mean_reduce(x@, axes = {list(range(2, 2 + rank))})")
    return chain


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_sizes_of_a_network_share_one_symbolic_plan(rank: int, tmp_path: Path) -> None:
    dynamic = compiled(network(rank), tmp_path)
    lengths = (33, 40, 47, 50, 61) if rank < 3 else (17, 20, 23)
    for i, length in enumerate(lengths):
        checked(dynamic, tmp_path, (length, lengths[i - 1], lengths[i - 2])[:rank], 1)
    assert dynamic._plans.symbolic_plans == 1  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize(("size", "stride"), [(3, 1), (5, 1), (5, 2)])
@pytest.mark.parametrize("times", [0, 2])
def test_extents_within_a_window(
    rank: int, size: int, stride: int, times: int, tmp_path: Path
) -> None:
    """All taps are packed for symbols, also those that lie in the border of short extents."""
    chain = Chain(rank)
    convolve(chain, 8, 1, 1, 1)
    if times:
        grouped(chain, size, stride, times)
    else:
        depthwise(chain, size, stride)
    dynamic = compiled(chain, tmp_path)
    for extent in (1, 2, 6, 3):
        checked(dynamic, tmp_path, (extent,) * rank, 2)
        checked(dynamic, tmp_path, (1, extent)[2 - rank :], 1)
