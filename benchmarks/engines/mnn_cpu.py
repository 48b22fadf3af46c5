"""The engine MNN."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.artifacts import ONNX, Network, require
from benchmarks.engines.engine_interface import Array, Call, Engine, fastest
from benchmarks.quantized import mnn_file

_FILE = "model.mnn"

_CONVERTER = "import sys, _tools; _tools.mnnconvert(sys.argv)"
"""The command `mnnconvert` without its telemetry, which installs packages into the environment and
can break those of other engines."""


class Mnn(Engine):
    """The CPU back end, in float32 or with weights in codes."""

    name = "mnn"
    title = "MNN"
    modules = ("MNN",)

    def convert(self, network: Network) -> None:
        target = network.file(_FILE)
        if network.reals:
            mnn_file.convert(network, network.reals / ONNX, target)
        if target.exists():
            return
        source = require(network, ONNX)
        # in its own process, because a failing converter may end it
        command = [sys.executable, "-c", _CONVERTER, "-f", "ONNX", "--bizCode", "nnefc"]
        command += ["--modelFile", str(source), "--MNNModel", str(target)]
        done = subprocess.run(command, capture_output=True, text=True)
        if not target.exists():
            raise RuntimeError(f"mnnconvert: {(done.stdout + done.stderr).strip()[-200:]}")

    def load(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        if network.reals is None:
            return self._loaded(network, threads, arrays)
        modes = {"high": {}, "normal": {"precision": "normal"}}
        modes["low memory"] = {"precision": "normal", "memory": "low"}
        self.note, call = fastest(
            {
                name: lambda each=each: self._loaded(network, threads, arrays, **each)
                for name, each in modes.items()
            }
        )
        return call

    def _loaded(
        self, network: Network, threads: int, arrays: dict[str, Array], **options: str
    ) -> Call:
        interpreter, session, pairs, outputs = self._session(network, threads, arrays, **options)

        def call() -> dict[str, tuple[Any, Any, Array]]:
            for tensor, host in pairs:
                tensor.copyFrom(host)
            interpreter.runSession(session)
            for tensor, host, _ in outputs.values():
                tensor.copyToHostTensor(host)
            return outputs

        return call

    def load_profiled(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        interpreter, session, pairs, _ = self._session(network, threads, arrays)
        self._seconds: list[float] = []
        started = taken = 0.0

        def before(_: Any, __: Any) -> bool:
            nonlocal started
            started = time.perf_counter()
            return True

        def after(_: Any, op: Any) -> bool:
            nonlocal taken
            if "onv" in op.getType() and not op.getType().startswith("Convert"):
                taken += time.perf_counter() - started
            return True

        def call() -> None:
            nonlocal taken
            taken = 0.0
            for tensor, host in pairs:
                tensor.copyFrom(host)
            interpreter.runSessionWithCallBackInfo(session, before, after)
            self._seconds.append(taken)

        return call

    def convolution_seconds(self) -> list[float]:
        return self._seconds

    def _session(
        self, network: Network, threads: int, arrays: dict[str, Array], **more: str
    ) -> tuple[Any, Any, list[tuple[Any, Any]], dict[str, tuple[Any, Any, Array]]]:
        """(interpreter, session, (tensor, data) by input, (tensor, copy, array) by output name)"""
        mnn: Any = import_module("MNN")
        interpreter = mnn.Interpreter(str(network.file(_FILE)))
        options = {"backend": "CPU", "precision": "high", "numThread": threads, **more}
        session = interpreter.createSession(options)
        caffe = mnn.Tensor_DimensionType_Caffe
        pairs: list[tuple[Any, Any]] = []
        for name, array in arrays.items():
            tensor = interpreter.getSessionInput(session, name)
            interpreter.resizeTensor(tensor, array.shape)
            pairs.append((tensor, mnn.Tensor(array.shape, mnn.Halide_Type_Float, array, caffe)))
        interpreter.resizeSession(session)
        outputs: dict[str, tuple[Any, Any, Array]] = {}
        for name in network.outputs:
            tensor = interpreter.getSessionOutput(session, name)
            result = np.empty(tensor.getShape(), np.float32)
            host = mnn.Tensor(result.shape, mnn.Halide_Type_Float, result, caffe)
            outputs[name] = tensor, host, result
        self._alive = arrays
        return interpreter, session, pairs, outputs

    def results(self, network: Network, returned: Any) -> dict[str, Array]:
        return {
            name: np.array(host.getNumpyData(), np.float32).reshape(result.shape)
            for name, (_, host, result) in returned.items()
        }
