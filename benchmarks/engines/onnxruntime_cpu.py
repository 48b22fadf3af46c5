"""The engine onnxruntime."""

from __future__ import annotations

import json
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.artifacts import ONNX, ONNX_FUSED, Network, require
from benchmarks.engines.engine_interface import Array, Call, Engine, fastest


def session(path: Path, threads: int, **more: Any) -> Any:
    """A session with all optimisations; `more`: further options."""
    ort: Any = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    for name, value in more.items():
        setattr(options, name, value)
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


class OnnxRuntime(Engine):
    """All graph optimisations; the file with fused operators if that is faster."""

    name = "onnxruntime"
    title = "onnxruntime"
    modules = ("onnxruntime",)

    def convert(self, network: Network) -> None:
        require(network, ONNX)

    def load(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        def run(name: str) -> Call:
            loaded = session(network.file(name), threads)
            return lambda: loaded.run(None, arrays)

        if not network.file(ONNX_FUSED).exists():
            return run(ONNX)
        forms = {"primitive": ONNX, "fused": ONNX_FUSED}
        self.note, call = fastest({key: lambda f=file: run(f) for key, file in forms.items()})
        return call

    def load_profiled(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        self._folder = tempfile.TemporaryDirectory()
        prefix = str(Path(self._folder.name) / "profile")
        profiled = self._session = session(
            network.file(ONNX), threads, enable_profiling=True, profile_file_prefix=prefix
        )
        return lambda: profiled.run(None, arrays)

    def convolution_seconds(self) -> list[float]:
        with self._folder:
            events = json.loads(Path(self._session.end_profiling()).read_text())
        return [
            1e-6 * event["dur"]
            for event in events
            if event["cat"] == "Node" and "Conv" in event["args"].get("op_name", "")
        ]

    def results(self, network: Network, returned: Any) -> dict[str, Array]:
        return dict(zip(network.outputs, returned))
