"""Small models in tract's dialect with symbolic shapes, and data for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

import nnefc
from nnefc import write_tensor
from nnefc.dynamic.dynamic_model import DynamicModel

Array = np.ndarray[Any, Any]
HEAD = "version 1.0;\nextension tract_registry tract_core;\n"
EXTENSIONS = """extension tract_registry tract_transformers;
extension tract_symbol B;
extension tract_symbol S;
extension tract_symbol T;
"""


def model(
    folder: Path,
    body: str,
    extensions: str = "",
    *,
    threads: int = 1,
    precision: Literal["float32", "bfloat16"] = "float32",
    **weights: Array,
) -> DynamicModel:
    for name, array in weights.items():
        write_tensor(folder / f"{name}.dat", array)
    (folder / "graph.nnef").write_text(f"{HEAD}{extensions}{body}")
    found = nnefc.compile(folder, threads=threads, precision=precision)
    assert isinstance(found, DynamicModel)
    return found


def symbolic_model(folder: Path, body: str, **weights: Array) -> DynamicModel:
    """A model that may use the symbols B, S and T, and tract's operators for transformers."""
    return model(folder, body, EXTENSIONS, threads=1, precision="float32", **weights)


def half_model(folder: Path, body: str, **weights: Array) -> DynamicModel:
    """A symbolic model in bfloat16."""
    return model(folder, body, EXTENSIONS, threads=1, precision="bfloat16", **weights)


def items(*shape: int) -> Array:
    """Random numbers, the same for the same shape."""
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def softmax(x: Array) -> Array:
    """Softmax along the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rows(count: int) -> Array:
    return np.random.default_rng(count).standard_normal((count, 4)).astype(np.float32)
