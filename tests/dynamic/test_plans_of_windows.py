"""Plans of windows over dimensions with symbols give what the operations are said to."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (torch has no types for the functions that are used)

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnefc
from nnefc.dynamic.model import DynamicModel
from nnefc.ops.tools.reference import evaluate
from tests.helpers.examples import examples
from tests.helpers.graphs.dynamic_models import model

torch: Any = pytest.importorskip("torch")

Array = np.ndarray[Any, Any]
Extents = tuple[int, ...]

SYMBOLS = "HWD"
CHANNELS = 3
"""Of the input."""


@dataclass
class Chain:
    """A document that does one thing after the other to an input [B, CHANNELS, H, W ...]."""

    rank: int
    channels: int = CHANNELS
    lines: list[str] = field(default_factory=list[str])
    weights: dict[str, Array] = field(default_factory=dict[str, Array])
    shapes: list[tuple[int, str]] = field(default_factory=lambda: [(CHANNELS, "")])
    """Of every value: channels, and what tells whether extents are alike."""

    def add(self, text: str, channels: int | None = None, moved: str = "") -> None:
        """One more value, of the last one, `x`."""
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
    """Of a few channels, of which there are some times as many in the result; row-major if 3."""
    inputs = math.gcd(chain.channels, 4)
    outputs = chain.channels * times
    filter_ = chain.weight(outputs, inputs, *[size] * chain.rank)
    window = f"{chain.window(size, stride, 1, size // 2)}, groups = {chain.channels // inputs}"
    moved = f"/{stride}" if stride > 1 else ""
    chain.add(f"conv(x@, {filter_}, 0.5, {window})", outputs, moved)


def share(chain: Chain, size: int, stride: int) -> None:
    """Groups of 24 channels, of which two share a block of 16."""
    convolve(chain, 48, 1, 1, 1)
    filter_ = chain.weight(48, 24, *[size] * chain.rank)
    moved = f"/{stride}" if stride > 1 else ""
    window = chain.window(size, stride, 1, size // 2)
    chain.add(f"conv(x@, {filter_}, 0.5, {window}, groups = 2)", 48, moved)


def surround(chain: Chain, border: str) -> None:
    """By items that are not zeros."""
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
        st.sampled_from((1, 2)),
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
    """What all convolutional networks are made of."""
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
def test_sizes_of_a_network_have_one_pattern(rank: int, tmp_path: Path) -> None:
    dynamic = compiled(network(rank), tmp_path)
    lengths = (33, 40, 47, 50, 61) if rank < 3 else (17, 20, 23)
    for i, length in enumerate(lengths):
        checked(dynamic, tmp_path, (length, lengths[i - 1], lengths[i - 2])[:rank], 1)
    assert dynamic._plans.patterns == 1  # pyright: ignore[reportPrivateUsage]


# -- windows over row-major tensors


class Layer(NamedTuple):
    """A statement about `x`, [B, channels] and `rank` symbols, and what it has to give.

    oracle: of x and the filter, which has `filter` as its shape if there is one.
    """

    rank: int
    text: str
    oracle: Callable[[Any, Any], Any]
    channels: int = 3
    filter: tuple[int, ...] = ()


F: Any = torch.nn.functional
MODES: dict[str, Any] = {
    "constant": {"mode": "constant", "constant_values": 1.5},
    "replicate": {"mode": "edge"},
    "reflect": {"mode": "reflect"},
    "reflect-even": {"mode": "symmetric"},
}


def _padded(x: Any, padding: Any, border: str) -> Any:
    return torch.from_numpy(np.pad(x.numpy(), padding, **MODES[border]))


def _turned(filter_: Any, groups: int) -> Any:
    """[outputs, inputs of a group, ...] as [inputs, outputs of a group, ...]."""
    outputs, inputs, *size = filter_.shape
    of_groups = filter_.reshape(groups, outputs // groups, inputs, *size)
    return of_groups.transpose(1, 2).reshape(groups * inputs, outputs // groups, *size)


def _surrounded(border: str) -> Layer:
    padding = [(0, 1), (2, 0), (3, 1), (0, 4)]
    return Layer(
        2,
        f"pad(x, padding = {padding}, border = '{border}', value = 1.5)",
        lambda x, f: _padded(x, padding, border),
    )


def _means(border: str) -> Layer:
    padding = [(0, 0), (0, 0), (3, 3), (1, 2)]
    return Layer(
        2,
        f"box(x, size = [1, 1, 7, 3], stride = [1, 1, 2, 3], padding = {padding}, "
        f"border = '{border}', normalize = true)",
        lambda x, f: F.avg_pool2d(_padded(x, padding, border), (7, 3), (2, 3)),
    )


def _resized(rank: int, interpolator: str, mode: str) -> Layer:
    scales = [1.0, 1.0, *[1.5] * rank]
    return Layer(
        rank,
        f"tract_core_resize(x, interpolator = '{interpolator}', scales = {scales}, "
        "coord_transformer = 'half_pixel')",
        lambda x, f: F.interpolate(x, scale_factor=1.5, mode=mode, align_corners=False),
    )


LAYERS = {
    "groups": Layer(
        2,
        "conv(x, f, 0.0, groups = 4, stride = [2, 1], padding = [(1, 1), (3, 3)])",
        lambda x, f: F.conv2d(x, f, stride=(2, 1), padding=(1, 3), groups=4),
        12,
        (12, 3, 3, 5),
    ),
    "groups, dilated": Layer(
        2,
        "conv(x, f, 0.0, groups = 4, dilation = [2, 3], padding = [(2, 2), (3, 3)])",
        lambda x, f: F.conv2d(x, f, padding=(2, 3), dilation=(2, 3), groups=4),
        12,
        (24, 3, 3, 3),
    ),
    "groups, points": Layer(
        2,
        "conv(x, f, 0.0, groups = 4, padding = [(0, 0), (0, 0)])",
        lambda x, f: F.conv2d(x, f, groups=4),
        12,
        (12, 3, 1, 1),
    ),
    "groups of a sequence": Layer(
        1,
        "conv(x, f, 0.0, groups = 4, padding = [(4, 4)])",
        lambda x, f: F.conv1d(x, f, padding=4, groups=4),
        12,
        (12, 3, 9),
    ),
    "groups of a volume": Layer(
        3,
        "conv(x, f, 0.0, groups = 2, stride = [1, 1, 2], padding = [(1, 1), (1, 1), (1, 1)])",
        lambda x, f: F.conv3d(x, f, stride=(1, 1, 2), padding=1, groups=2),
        8,
        (6, 4, 3, 3, 3),
    ),
    "few pixels": Layer(
        2,
        "conv(x, f, 0.0, groups = 2, stride = [9, 9], padding = [(4, 4), (4, 4)])",
        lambda x, f: F.conv2d(x, f, stride=9, padding=4, groups=2),
        6,
        (6, 3, 9, 9),
    ),
    "multiplier": Layer(
        2,
        "conv(x, f, 0.0, groups = 3, padding = [(2, 2), (1, 1)])",
        lambda x, f: F.conv2d(x, f, padding=(2, 1), groups=3),
        3,
        (9, 1, 5, 3),
    ),
    "reverse groups": Layer(
        2,
        "deconv(x, f, 0.0, groups = 4, stride = [2, 3], padding = [(1, 1), (2, 2)])",
        lambda x, f: F.conv_transpose2d(x, _turned(f, 4), stride=(2, 3), padding=(1, 2), groups=4),
        12,
        (12, 3, 4, 5),
    ),
    "reverse multiplier": Layer(
        1,
        "deconv(x, f, 0.0, groups = 4, stride = [2], padding = [(1, 1)])",
        lambda x, f: F.conv_transpose1d(x, _turned(f, 4), stride=2, padding=1, groups=4),
        4,
        (12, 1, 4),
    ),
    "maxima": Layer(
        2,
        "max_pool(x, size = [1, 1, 3, 5], stride = [1, 1, 2, 1], border = 'ignore', "
        "padding = [(0, 0), (0, 0), (1, 1), (2, 2)])",
        lambda x, f: F.max_pool2d(x, (3, 5), (2, 1), (1, 2)),
    ),
    "maxima of a volume": Layer(
        3,
        "max_pool(x, size = [1, 1, 2, 2, 3], stride = [1, 1, 2, 1, 2], border = 'ignore', "
        "padding = [(0, 0), (0, 0), (1, 1), (0, 0), (1, 1)])",
        lambda x, f: F.max_pool3d(x, (2, 2, 3), (2, 1, 2), (1, 0, 1)),
    ),
    "maxima of a sequence": Layer(
        1,
        "max_pool(x, size = [1, 1, 3], stride = [1, 1, 3], border = 'ignore', "
        "padding = [(0, 0), (0, 0), (1, 1)])",
        lambda x, f: F.max_pool1d(x, 3, 3, 1),
    ),
    "means of what is there": Layer(
        2,
        "box(x, size = [1, 1, 3, 3], stride = [1, 1, 2, 2], border = 'ignore', normalize = true, "
        "padding = [(0, 0), (0, 0), (1, 1), (1, 1)])",
        lambda x, f: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    ),
    "means dimension by dimension": Layer(
        2,
        "box(x, size = [1, 1, 9, 7], stride = [1, 1, 1, 2], border = 'ignore', normalize = true, "
        "padding = [(0, 0), (0, 0), (4, 4), (3, 3)])",
        lambda x, f: F.avg_pool2d(x, (9, 7), (1, 2), (4, 3), count_include_pad=False),
    ),
    "means of all": Layer(
        2,
        "box(x, size = [1, 1, H, W], border = 'ignore', normalize = true, "
        "padding = [(0, 0), (0, 0), (0, 0), (0, 0)])",
        lambda x, f: x.mean((2, 3), keepdim=True),
    ),
    "sums, spread": Layer(
        2,
        "debox(x, size = [1, 1, 3, 2], stride = [1, 1, 2, 2], border = 'constant', "
        "padding = [(0, 0), (0, 0), (1, 1), (0, 0)])",
        lambda x, f: F.conv_transpose2d(
            x, torch.ones(3, 1, 3, 2, dtype=x.dtype), stride=2, padding=(1, 0), groups=3
        ),
    ),
    "repeated": Layer(
        1,
        "debox(x, size = [1, 1, 3], stride = [1, 1, 3], border = 'constant', "
        "padding = [(0, 0), (0, 0), (0, 0)])",
        lambda x, f: F.interpolate(x, scale_factor=3),
    ),
    "interpolated": Layer(
        1,
        "multilinear_upsample(x, factor = [2], method = 'symmetric', border = 'replicate')",
        lambda x, f: F.interpolate(x, scale_factor=2, mode="linear", align_corners=False),
    ),
    "interpolated between ends": Layer(
        2,
        "multilinear_upsample(x, factor = [2, 3], method = 'aligned', border = 'replicate')",
        lambda x, f: F.interpolate(x, scale_factor=(2, 3), mode="bilinear", align_corners=True),
    ),
    "resized linearly": _resized(1, "linear", "linear"),
    "resized by cubes": _resized(2, "cubic", "bicubic"),
    **{f"surrounded, {border}": _surrounded(border) for border in MODES},
    **{f"means, {border}": _means(border) for border in MODES if border != "constant"},
}


SIZES = (4, 8, 9, 11), (2, 7, 17, 8), (3, 12, 5, 6), (7, 31, 2, 13), (2, 3, 4, 5)


@pytest.mark.parametrize("name", LAYERS)
def test_row_major_windows_have_one_pattern(name: str, tmp_path: Path) -> None:
    """Sizes are odd and even, and smaller than windows reach."""
    layer = LAYERS[name]
    shape = ", ".join(("B", str(layer.channels), *SYMBOLS[: layer.rank]))
    body = f"""graph g(x) -> (y) {{
      x = tract_core_external(shape = [{shape}], datum_type = 'f32');
      {f"f = variable<scalar>(label = 'f', shape = {list(layer.filter)});" if layer.filter else ""}
      y = {layer.text};
    }}"""
    rng = np.random.default_rng(1)
    filter_ = rng.standard_normal(layer.filter or (1,)).astype(np.float32)
    weights: dict[str, Any] = {"f": filter_} if layer.filter else {}
    dynamic = model(tmp_path, body, EXTENSIONS, **weights)
    for batch, *extents in SIZES:
        x = rng.standard_normal((batch, layer.channels, *extents[: layer.rank])).astype(np.float32)
        found = dynamic(x)
        wide = (torch.from_numpy(each.astype(np.float64)) for each in (x, filter_))
        wanted = layer.oracle(*wide).numpy()
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert dynamic._plans.patterns == 1  # pyright: ignore[reportPrivateUsage]
