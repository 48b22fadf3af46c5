"""The engine ncnn."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.artifacts import TORCH_SCRIPT, Network, require
from benchmarks.engines.engine_interface import Array, Call, Engine

_PARAM, _BIN = "model.ncnn.param", "model.ncnn.bin"


class Ncnn(Engine):
    """ncnn from TorchScript by pnnx, with float32 storage and arithmetic."""

    name = "ncnn"
    title = "ncnn"
    modules = ("ncnn", "pnnx")

    @classmethod
    def import_modules(cls) -> None:
        import_module("ncnn")

    def convert(self, network: Network) -> None:
        if network.batch != 1:
            raise RuntimeError("supports a batch of 1 only")
        if network.file(_PARAM).exists():
            return
        script = require(network, TORCH_SCRIPT)
        shapes = ",".join(str(list(dims)).replace(" ", "") for dims in network.inputs.values())
        with tempfile.TemporaryDirectory(dir=network.folder) as temporary:
            folder = Path(temporary)
            (folder / script.name).symlink_to(script)
            command = [Path(sys.executable).with_name("pnnx"), script.name, f"inputshape={shapes}"]
            done = subprocess.run([*command, "fp16=0"], cwd=folder, capture_output=True, text=True)
            param = folder / _PARAM
            if done.returncode or not param.exists():
                raise RuntimeError(f"pnnx: {(done.stdout + done.stderr).strip()[-200:]}")
            shutil.move(folder / _BIN, network.file(_BIN))
            shutil.move(param, network.file(_PARAM))

    def load(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        ncnn: Any = import_module("ncnn")
        net = ncnn.Net()
        options = net.opt
        options.num_threads = threads
        options.use_vulkan_compute = False
        for name in ("packed", "storage", "arithmetic"):
            setattr(options, f"use_fp16_{name}", False)
        options.use_bf16_storage = options.use_bf16_packed = False
        failed = net.load_param(str(network.file(_PARAM)))
        if failed or net.load_model(str(network.file(_BIN))):
            raise RuntimeError("ncnn cannot load the files of pnnx")
        inputs = [(f"in{i}", ncnn.Mat(array[0]).clone()) for i, array in enumerate(arrays.values())]
        names = [f"out{i}" for i in range(len(network.outputs))]
        self._alive = net

        def call() -> list[Any]:
            extractor = net.create_extractor()
            for name, mat in inputs:
                extractor.input(name, mat)
            results: list[Any] = []
            for name in names:
                failed, mat = extractor.extract(name)
                if failed:
                    raise RuntimeError(f"ncnn fails with {failed}")
                results.append(mat)
            return results

        return call

    def results(self, network: Network, returned: Any) -> dict[str, Array]:
        return {
            name: np.array(mat, np.float32)[None] for name, mat in zip(network.outputs, returned)
        }
