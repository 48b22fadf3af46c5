"""The .tflite files of the networks, made by TensorFlow's converter."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (TensorFlow is not typed)

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.artifacts import Network
from benchmarks.tflite.networks import NETWORKS, Entry

Array = np.ndarray[Any, Any]

FILE: Final = "model.tflite"
SAMPLES: Final = 4
"""Random inputs from which the converter takes the ranges of activations."""


class Kind(StrEnum):
    """What a file computes with."""

    REALS = "float32"
    CODES = "int8"
    """Weights and activations of int8; the inputs and results of the file stay float32."""


@dataclass(frozen=True, slots=True)
class TfliteNetwork(Network):
    """A network as a .tflite file."""

    integers: int = 0
    """Inputs are whole numbers of int32 below this one; 0: they are reals."""

    def arrays(self, seed: int = 1) -> dict[str, Array]:
        return {name: _sample(shape, self.integers, seed) for name, shape in self.inputs.items()}


def _sample(shape: tuple[int, ...], integers: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if integers:
        return rng.integers(0, integers, shape, np.int32)
    return rng.standard_normal(shape, np.float32)


def prepared(name: str, kind: Kind, folder: Path, *, small: bool = False) -> TfliteNetwork:
    """The network with its file, which is written unless it exists."""
    entry = NETWORKS[name]
    size = entry.reduced if small else entry.size
    directory = folder / f"tflite-{name}-{kind}-{size}-{_digest()}"
    path = directory / FILE
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        made = directory / f"{FILE}.made"
        made.write_bytes(_converted(entry, size, kind))
        made.replace(path)
    inputs, outputs = _signature(path)
    title = f"{entry.title}, {kind}"
    return TfliteNetwork(name, title, 1, directory, path, inputs, outputs, integers=entry.integers)


def _digest() -> str:
    """A digest of what the files depend on."""
    total = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        total.update(path.read_bytes() if path.name != "__main__.py" else b"")
    return total.hexdigest()[:12]


def _signature(path: Path) -> tuple[dict[str, tuple[int, ...]], tuple[str, ...]]:
    """(shapes of the inputs by name, names of the results), as nnefc reads them."""
    import nnefc

    graph = nnefc.import_model(path)
    return {v.name: tuple(v.type.dims) for v in graph.inputs}, tuple(graph.output_names)


def _converted(entry: Entry, size: int, kind: Kind) -> bytes:
    """The bytes of the file."""
    tf: Any = import_module("tensorflow")
    tf.keras.utils.set_random_seed(0)
    model = entry.make(size)
    if isinstance(model, tf.keras.Model):
        _randomise(model)
        shape, function = (1, *model.input_shape[1:]), partial(model, training=False)
    else:
        (shape,), function = model.inputs, model.call
    dtype = tf.int32 if entry.integers else tf.float32
    traced = tf.function(function).get_concrete_function(tf.TensorSpec(shape, dtype, "input"))
    freeze = import_module("tensorflow.python.framework.convert_to_constants")
    frozen = freeze.convert_variables_to_constants_v2(traced, lower_control_flow=False)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    if kind is Kind.CODES:

        def samples() -> Iterator[list[Array]]:
            for seed in range(2, 2 + SAMPLES):
                yield [_sample(shape, entry.integers, seed)]

        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if not entry.dynamic:
            converter.representative_dataset = samples
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    return converter.convert()


def _randomise(model: Any) -> None:
    """Weights that keep the variance of activations (He et al., 2015)."""
    rng = np.random.default_rng(0)
    for layer in model.layers:
        arrays = layer.get_weights()
        if arrays and arrays[0].ndim > 1:
            kernel = arrays[0]
            is_depthwise = type(layer).__name__ == "DepthwiseConv2D"
            depth = np.prod(kernel.shape[:2] if is_depthwise else kernel.shape[:-1])
            arrays[0] = rng.standard_normal(kernel.shape) * np.sqrt(2 / depth)
            layer.set_weights(arrays)
