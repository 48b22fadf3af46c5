"""The engine LiteRT."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.artifacts import ONNX, Network, require
from benchmarks.engines.engine_interface import Array, Call, Engine

_FILE = "model.tflite"


def _is_given(network: Network) -> bool:
    """Whether the network is a file of TensorFlow Lite already."""
    return network.archive.name == _FILE


class LiteRt(Engine):
    """The interpreter of LiteRT with XNNPACK, on TensorFlow Lite files and quantized networks."""

    name = "litert"
    title = "LiteRT"
    modules = ("ai_edge_litert", "flatbuffers")

    def convert(self, network: Network) -> None:
        from benchmarks.quantized.tflite import convert

        if _is_given(network):
            return
        if network.reals is None:
            raise RuntimeError("only quantized networks are translated for it")
        target = network.file(_FILE)
        if not target.exists():
            convert(require(network, ONNX), target)

    @classmethod
    def import_modules(cls) -> None:
        import_module("ai_edge_litert.interpreter")

    def load(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        litert: Any = import_module("ai_edge_litert.interpreter")
        interpreter = litert.Interpreter(str(network.file(_FILE)), num_threads=threads)
        interpreter.allocate_tensors()
        numbers = [each["index"] for each in interpreter.get_input_details()]
        inputs = list(arrays.values())
        if not _is_given(network):
            inputs = [np.ascontiguousarray(_channels_last(array)) for array in inputs]
        outputs = [each["index"] for each in interpreter.get_output_details()]

        def call() -> list[Array]:
            for number, array in zip(numbers, inputs):
                interpreter.set_tensor(number, array)
            interpreter.invoke()
            return [interpreter.get_tensor(number) for number in outputs]

        return call

    def results(self, network: Network, returned: Any) -> dict[str, Array]:
        results = dict(zip(network.outputs, returned))
        if _is_given(network):
            return results
        return {
            name: np.moveaxis(array, -1, 1) if array.ndim == 4 else array
            for name, array in results.items()
        }


def _channels_last(array: Array) -> Array:
    return np.moveaxis(array, 1, -1) if array.ndim == 4 else array
