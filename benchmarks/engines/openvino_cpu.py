"""The engine OpenVINO."""

from __future__ import annotations

from collections.abc import Container
from importlib import import_module
from typing import Any, Final

from benchmarks.artifacts import ONNX, Network, require
from benchmarks.engines.engine_interface import Array, Call, Engine

_HINTS: Final = {"float32": "f32", "bfloat16": "bf16"}


class OpenVino(Engine):
    """OpenVINO's CPU plugin, configured for latency and the precision of the network."""

    name = "openvino"
    title = "OpenVINO"
    modules = ("openvino",)

    def convert(self, network: Network) -> None:
        require(network, ONNX)

    def load(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        request, inputs = self._request(network, threads, arrays)
        return lambda: request.infer(inputs, share_inputs=True, share_outputs=True)

    def load_profiled(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        request, inputs = self._request(network, threads, arrays, PERF_COUNT="YES")
        self._seconds: list[float] = []

        def call() -> None:
            request.infer(inputs, share_inputs=True, share_outputs=True)
            nodes = [n for n in request.profiling_info if "onvolution" in n.node_type]
            self._seconds.append(sum(node.real_time.total_seconds() for node in nodes))

        return call

    def convolution_seconds(self) -> list[float]:
        return self._seconds

    def _request(
        self, network: Network, threads: int, arrays: dict[str, Array], **more: str
    ) -> tuple[Any, dict[int, Array]]:
        """(infer request, inputs by number)"""
        core: Any = import_module("openvino").Core()
        options = {
            **more,
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": "1",
            "INFERENCE_NUM_THREADS": str(threads),
            "INFERENCE_PRECISION_HINT": _HINTS[network.precision],
            "ENABLE_CPU_PINNING": "NO",
            "ENABLE_HYPER_THREADING": "YES",
        }
        compiled = core.compile_model(str(network.file(ONNX)), "CPU", options)
        request = compiled.create_infer_request()
        inputs = {i: arrays[_name(port, arrays)] for i, port in enumerate(compiled.inputs)}
        self._names = [_name(port, network.outputs) for port in compiled.outputs]
        return request, inputs

    def results(self, network: Network, returned: Any) -> dict[str, Array]:
        return {name: returned[i].copy() for i, name in enumerate(self._names)}


def _name(port: Any, names: Container[str]) -> str:
    """The name of a port in the network; its names include those of tensors with the same value."""
    return next(name for name in port.names if name in names)
