"""The engine LiteRT."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.artifacts import ONNX, Network, require
from benchmarks.engines.engine_interface import Array, Call, Engine

_FILE = "model.tflite"


class LiteRt(Engine):
    """The interpreter of LiteRT with XNNPACK, on quantized networks with channels last."""

    name = "litert"
    title = "LiteRT"
    modules = ("ai_edge_litert", "flatbuffers")

    def convert(self, network: Network) -> None:
        from benchmarks.quantized.tflite import convert

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
        inputs = [np.ascontiguousarray(_channels_last(array)) for array in arrays.values()]
        outputs = [each["index"] for each in interpreter.get_output_details()]

        def call() -> list[Array]:
            for number, array in zip(numbers, inputs):
                interpreter.set_tensor(number, array)
            interpreter.invoke()
            return [interpreter.get_tensor(number) for number in outputs]

        return call

    def results(self, network: Network, returned: Any) -> dict[str, Array]:
        return {
            name: np.moveaxis(array, -1, 1) if array.ndim == 4 else array
            for name, array in zip(network.outputs, returned)
        }


def _channels_last(array: Array) -> Array:
    return np.moveaxis(array, 1, -1) if array.ndim == 4 else array
