"""Symbolic plans of windows over row-major tensors compute the same as PyTorch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (torch has no types for the functions that are used)

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.helpers.graphs.dynamic_models import model

torch: Any = pytest.importorskip("torch")

SYMBOLS = "HWD"
EXTENSIONS = "".join(f"extension tract_symbol {s};\n" for s in ("B", *SYMBOLS))


class Layer(NamedTuple):
    """An operation on `x` of shape [B, channels, ...] with `rank` symbols, and its oracle.

    `oracle(x, filter)`: the expected result; `filter`: the shape of the filter, if there is one.
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
def test_row_major_windows_share_one_symbolic_plan(name: str, tmp_path: Path) -> None:
    """Sizes are odd and even, and some are smaller than the window."""
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
    assert dynamic._plans.symbolic_plans == 1  # pyright: ignore[reportPrivateUsage]
