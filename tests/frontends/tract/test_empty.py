"""Tensors without items in tract documents: results as in PyTorch, or errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import nnefc
from nnefc.support.errors import NnefError

TEXT = """\
version 1.0;
extension tract_registry tract_core;
extension tract_symbol B;
fragment step( a: tensor<scalar>, h: tensor<scalar> ) -> ( r: tensor<scalar> ) {{ r = a + h; }}
fragment total( a: tensor<scalar>, h: tensor<scalar> ) -> ( r: tensor<scalar> )
{{ r = h + sum_reduce(a, axes = [0, 1, 2, 3]); }}
fragment both( a: tensor<scalar>, h: tensor<scalar> )
-> ( r: tensor<scalar>, s: tensor<scalar> ) {{ r = h + 1.0; s = a; }}
graph net( x ) -> ( y )
{{
    x = tract_core_external(shape = [B, 3, 8, 8], datum_type = 'f32');
    y = {};
}}
"""
Array = np.ndarray[Any, Any]
EMPTY = torch.zeros(0, 3, 8, 8)


def run(folder: Path, value: str) -> Array:
    path = folder / "graph.nnef"
    path.write_text(TEXT.format(value))
    result: Array = nnefc.compile(path)(EMPTY.numpy())
    return result


@pytest.mark.parametrize(
    ("value", "theirs"),
    [
        ("max_pool(x, size = [1, 1, 2, 2], padding = [(0, 0), (0, 0), (0, 0), (0, 0)])",
         F.max_pool2d(EMPTY, 2, 1)),
        ("avg_pool(x, size = [1, 1, 2, 2], padding = [(0, 0), (0, 0), (0, 0), (0, 0)], "
         "stride = [1, 1, 2, 2])", F.avg_pool2d(EMPTY, 2)),
        ("debox(x, size = [1, 1, 2, 2], stride = [1, 1, 2, 2])", torch.zeros(0, 3, 16, 16)),
        ("pad(x, padding = [(0, 0), (0, 0), (1, 1), (1, 2)], border = 'reflect')",
         F.pad(EMPTY, (1, 2, 1, 1), "reflect")),
        ("argmax_reduce(x, axes = [1])", EMPTY.argmax(1, keepdim=True)),
        ("max_reduce(x, axes = [1])", EMPTY.amax(1, keepdim=True)),
        ("sum_reduce(x, axes = [0])", EMPTY.sum(0, keepdim=True)),
        ("mean_reduce(x, axes = [0])", EMPTY.mean(0, keepdim=True)),
        ("tract_core_rms_norm(x, axis = 1, eps = 0.1)", EMPTY),
        ("tract_core_resize(x, [1.0, 1.0, 2.0, 2.0], coord_transformer = 'half_pixel', "
         "interpolator = 'linear', axes = [0, 1, 2, 3])", F.interpolate(EMPTY, scale_factor=2)),
        ("conv(x, tract_core_broadcast(1.0, shape = [4, 3, 3, 3]))",
         F.conv2d(EMPTY, torch.ones(4, 3, 3, 3), padding=1)),
        ("softmax(x, axes = [0])", EMPTY.softmax(0)),
        ("tile(x, repeats = [1, 2, 1, 1])", EMPTY.repeat(1, 2, 1, 1)),
        ("add(x, tract_core_broadcast([[[0.0]]], shape = [B, 3, 8, 8]))", EMPTY),
        ("tract_core_scan('step', scan = [('a', x, 1, 1)], full = [], "
         "state = [('h', tract_core_broadcast(0.0, shape = [B, 1, 8, 8]), 'r')], "
         "output = [('r', 'full', 1, 1)])", EMPTY.cumsum(1)),
    ],
)  # fmt: skip
def test_empty_batches_give_the_results_of_pytorch(
    tmp_path: Path, value: str, theirs: Tensor
) -> None:
    ours = run(tmp_path, value)
    assert ours.shape == theirs.shape
    np.testing.assert_array_equal(ours, theirs.numpy())


@pytest.mark.parametrize("batch", [0, 2])
@pytest.mark.parametrize("turns", [1, 3])
def test_states_of_a_loop_keep_their_type(tmp_path: Path, batch: int, turns: int) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text(
        "version 1.0;\nextension tract_registry tract_core;\nextension tract_symbol B;\n"
        "extension tract_symbol S;\n"
        "fragment step( a: tensor<scalar>, h: tensor<scalar> ) -> ( r: tensor<scalar> )\n"
        "{ r = tract_core_cast(h, to = 'f16') + tract_core_cast(a, to = 'f16'); }\n"
        "graph net( x ) -> ( y ) { x = tract_core_external(shape = [S, B], datum_type = 'f32');\n"
        "y = tract_core_scan('step', scan = [('a', x, 0, 1)], full = [], "
        "state = [('h', tract_core_broadcast(0.0, shape = [1, B]), 'r')], "
        "output = [('r', 'last', 0, 1)]); }\n"
    )
    x = np.ones((turns, batch), np.float32)
    found = nnefc.compile(path)(x)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, x.sum(0, keepdims=True))


@pytest.mark.parametrize(
    "value",
    [
        "max_reduce(x, axes = [0])",
        "argmax_reduce(x, axes = [0])",
        "pad(x, padding = [(1, 0), (0, 0), (0, 0), (0, 0)], border = 'replicated')",
        "tract_core_scan('both', scan = [('a', x, 0, 1)], full = [], "
        "state = [('h', [[[[0.0]]]], 'r')], output = [('s', 'last', 0, 1)])",
    ],
)
def test_errors_name_the_empty_input(tmp_path: Path, value: str) -> None:
    with pytest.raises(NnefError) as caught:
        run(tmp_path, value)
    (error,) = caught.value.errors
    assert error.rule == "operator/empty"
    assert error.hint == "input 'x' has shape [0, 3, 8, 8]: no items to compute with"


def test_window_along_an_empty_axis(tmp_path: Path) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text(
        TEXT.format("max_pool(x, size = [2, 1, 1, 1], padding = [(0, 0), (0, 0), (0, 0), (0, 0)])")
    )
    with pytest.raises(NnefError, match="argument/max_pool"):
        nnefc.compile(path)(EMPTY.numpy())
