"""Symbolic plans in bfloat16: attention and convolutions of any extents, against float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc.driver.precision import half_kernels
from nnefc.ir import DType
from nnefc.options.compile_config import CompileConfig
from tests.helpers.graphs.dynamic_models import half_model, items, softmax

Array = np.ndarray[Any, Any]

KERNELS = half_kernels(CompileConfig(1, precision="bfloat16"))
pytestmark = pytest.mark.skipif(
    KERNELS is None or KERNELS.block > 0, reason="the processor multiplies no bfloat16 in vectors"
)


def rounded(x: Array) -> Array:
    return x.astype(DType.BFLOAT16.numpy).astype(np.float64)


ATTENTION = """graph g(x) -> (y) {
  x = tract_core_external(shape = [B, S, 32], datum_type = 'f32');
  y = tract_transformers_sdpa(x, x, x);
}"""


def test_attention_of_any_length(tmp_path: Path) -> None:
    """Lengths near the bounds of tiles and units; shorter ones multiply float32."""
    model = half_model(tmp_path, ATTENTION)
    for batch, length in ((2, 40), (2, 17), (3, 16), (2, 63), (2, 64), (2, 130), (2, 1000), (2, 9)):
        wide = rounded(items(batch, length, 32))
        x = wide.astype(np.float32)
        weights = softmax(wide @ wide.swapaxes(1, 2) / np.sqrt(32))
        errors, terms = np.abs(model(x) - weights @ wide), weights @ np.abs(wide)
        assert np.all(errors <= 2**-8 * terms + 1e-6)
        plan = model.plan_for([x.shape], {})
        halves = [k for k in (each.kernel for each in plan.launches) if "attention_halves" in k]
        assert len(halves) == (length > 15)
    assert 0 < model._plans.symbolic_plans < 6  # pyright: ignore[reportPrivateUsage]


CONVOLUTIONS = """graph g(x) -> (y) {
  x = tract_core_external(shape = [B, 16, S, T], datum_type = 'f32');
  u = variable<scalar>(label = 'u', shape = [32, 16, 1, 1]);
  v = variable<scalar>(label = 'v', shape = [32, 1, 3, 3]);
  w = variable<scalar>(label = 'w', shape = [8, 32, 1, 1]);
  a = relu(conv(x, u, padding = [(0, 0), (0, 0)]));
  b = relu(conv(a, v, groups = 32, padding = [(1, 1), (1, 1)]));
  y = conv(b, w, padding = [(0, 0), (0, 0)]);
}"""


def test_convolutions_of_any_extent(tmp_path: Path) -> None:
    u, v, w = (
        rounded(items(*shape)).astype(np.float32)
        for shape in ((32, 16, 1, 1), (32, 1, 3, 3), (8, 32, 1, 1))
    )
    model = half_model(tmp_path, CONVOLUTIONS, u=u, v=v, w=w)
    for shape in ((1, 9, 13), (1, 14, 11), (3, 20, 31)):
        x = items(shape[0], 16, *shape[1:])
        a = rounded(np.maximum(np.einsum("bchw,oc->bohw", rounded(x), u[:, :, 0, 0]), 0))
        padded = np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        b = rounded(np.maximum(np.einsum("bchwij,cij->bchw", windows, v[:, 0]), 0))
        y = np.einsum("bchw,oc->bohw", b, w[:, :, 0, 0])
        errors = np.abs(model(x) - y) / np.abs(y).max()
        assert errors.max() < 2**-8
        assert errors.mean() < 2**-14
    assert 0 < model._plans.symbolic_plans < 4  # pyright: ignore[reportPrivateUsage]
    kernels = [each.kernel for each in model.plan_for([(1, 16, 15, 12)], {}).launches]
    assert sum("direct_halves" in kernel for kernel in kernels) == 2
    assert sum("depthwise" in kernel for kernel in kernels) == 1
    # the input alone is converted
    assert sum("elementwise" in kernel for kernel in kernels) == 1
