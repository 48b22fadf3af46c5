"""Models that tests save as artifacts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import nnefc
from nnefc.runtime.artifact.artifact_file import open_file

Array = np.ndarray[Any, Any]

TINY = """\
version 1.0;
graph tiny( x ) -> ( y )
{
    x = external(shape = [1, 4]);
    weights = variable(shape = [3, 4], label = 'weights');
    product = matmul(x, weights, transposeB = true);
    y = relu(product);
}
"""

MIXED = """\
version 1.0;
graph mixed( x ) -> ( y, z, n )
{
    x = external(shape = [2, 3, 24, 24]);
    first = variable(shape = [24, 3, 3, 3], label = 'first');
    same = variable(shape = [64, 24, 3, 3], label = 'same');
    step = variable(shape = [40, 64, 3, 3], label = 'step');
    depth = variable(shape = [40, 1, 3, 3], label = 'depth');
    back = variable(shape = [40, 7, 4, 4], label = 'back');
    mean = variable(shape = [1, 24], label = 'mean');
    variance = variable(shape = [1, 24], label = 'variance');
    dense = variable(shape = [10, 40], label = 'dense');
    a = conv(x, first, 0.0, stride = [1, 1]);
    variance_ = abs(variance);
    b = relu(batch_normalization(a, mean, variance_, 0.0, 1.0, epsilon = 1.0));
    c = relu(conv(b, same, 0.1));
    d = conv(c, step, 0.2, stride = [2, 2]);
    e = conv(d, depth, 0.0, groups = 40);
    y = deconv(e, back, 0.0, stride = [2, 2], padding = [(1, 1), (1, 1)]);
    f = mean_reduce(e, axes = [2, 3]);
    g = reshape(f, shape = [2, 40]);
    z = softmax(matmul(g, dense, transposeB = true), axes = [1]);
    n = argmax_reduce(z, axes = [1]);
}
"""
"""Filters with every packing, folded weights, several results."""

VOLUMES = """\
version 1.0;
graph volumes( x ) -> ( y )
{
    x = external(shape = [1, 32, 6, 16, 16]);
    large = variable(shape = [48, 32, 3, 3, 3], label = 'large');
    groups = variable(shape = [48, 24, 1, 3, 3], label = 'groups');
    a = relu(conv(x, large, 0.0));
    b = conv(a, groups, 0.1, groups = 2, stride = [1, 2, 2]);
    y = b * sigmoid(b);
}
"""
"""Three-dimensional Winograd convolution; groups that share blocks of 16 channels."""

COUNTER = """\
version 1.0;
graph counter( x ) -> ( y )
{
    x = external(shape = [1, 2]);
    sum = variable(shape = [1, 2], label = 'Sum');
    scale = variable(shape = [1, 2], label = 'scale');
    y = sum + x * scale;
    next = update(sum, y);
}
"""

LARGE = """\
version 1.0;
graph large( x ) -> ( y )
{
    x = external(shape = [1, 1024]);
    w = variable(shape = [600, 1024], label = 'w');
    y = matmul(x, w, transposeB = true);
}
"""
"""Weights too large to be verified when the file is opened."""

TRANSFORMED = """\
version 1.0;
graph large( x ) -> ( y )
{
    x = external(shape = [1, 256, 12, 12]);
    filter = variable(shape = [256, 256, 3, 3], label = 'filter');
    y = conv(x, filter, 0.0);
}
"""
"""Large weights that have to be transformed for kernels."""


def write(folder: Path, document: str) -> Path:
    """Write a document to a file."""
    path = folder / "graph.nnef"
    head, _, rest = document.partition("\n")
    path.write_text(f"{head}\nextension KHR_enable_operator_expressions;\n{rest}")
    return path


def compiled(folder: Path, document: str, **options: Any) -> nnefc.Model:
    """A model with random weights."""
    return nnefc.compile(write(folder, document), random_weights=3, **options)


def inputs(model: nnefc.Model, seed: int = 0) -> list[Array]:
    """Random arrays for a call."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(spec.shape).astype(spec.dtype) for spec in model.inputs]


def results(model: nnefc.Model, seed: int = 0) -> list[Array]:
    """The results of a call as a list."""
    given = dict(zip((spec.name for spec in model.inputs), inputs(model, seed), strict=True))
    return list(model.run(given).values())


def transformed(folder: Path) -> Path:
    """An artifact of `TRANSFORMED`."""
    path = folder / "large.nnefc"
    compiled(folder, TRANSFORMED, threads=1).save(path)
    content = open_file(path).content
    assert any("weights" not in c and "head" not in c for c in content["targets"][0]["constants"])
    return path


def same(first: list[Array], second: list[Array]) -> None:
    """Assert that results have equal types and items."""
    for x, y in zip(first, second, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def python(program: str, *arguments: object, **environment: str) -> str:
    """The standard output of a Python program in a new process; standard error must be empty."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout
