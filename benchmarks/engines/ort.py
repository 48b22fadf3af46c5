"""onnxruntime."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks.artifacts import ONNX, ONNX_FUSED, Network, require
from benchmarks.engines.base import Array, Call, Engine, fastest


class OnnxRuntime(Engine):
    """All graph optimisations; the file with fused operators if that is faster."""

    name = "onnxruntime"
    title = "onnxruntime"
    modules = ("onnxruntime",)

    def convert(self, network: Network) -> None:
        require(network, ONNX)

    def load(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        ort: Any = import_module("onnxruntime")

        def session(name: str) -> Call:
            options = ort.SessionOptions()
            options.intra_op_num_threads = threads
            options.inter_op_num_threads = 1
            options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
            options.log_severity_level = 3
            path = str(network.file(name))
            made = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            return lambda: made.run(None, arrays)

        if not network.file(ONNX_FUSED).exists():
            return session(ONNX)
        forms = {"primitive": ONNX, "fused": ONNX_FUSED}
        self.note, call = fastest({key: lambda f=file: session(f) for key, file in forms.items()})
        return call

    def results(self, network: Network, returned: Any) -> dict[str, Array]:
        return dict(zip(network.outputs, returned))
