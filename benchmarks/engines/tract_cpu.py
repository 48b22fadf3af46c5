"""The engine tract."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks.artifacts import ONNX, Network, require
from benchmarks.engines.engine_interface import Array, Call, Engine


class Tract(Engine):
    """tract from ONNX, optimised; it computes on the calling thread."""

    name = "tract"
    title = "tract"
    modules = ("tract",)
    one_thread = True

    def convert(self, network: Network) -> None:
        require(network, ONNX)

    def load(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        tract: Any = import_module("tract")
        model = tract.onnx().load(str(network.file(ONNX))).into_model()
        names = [model.input_name(i) for i in range(model.input_count())]
        runnable = model.into_runnable()
        inputs = [arrays[name] for name in names]
        state = runnable.spawn_state()

        def call() -> list[Array]:
            return [tensor.to_numpy() for tensor in state.run(inputs)]

        return call

    def results(self, network: Network, returned: Any) -> dict[str, Array]:
        return dict(zip(network.outputs, returned))
