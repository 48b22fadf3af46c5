"""The engine TVM."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks.artifacts import ONNX, Network, require
from benchmarks.engines.engine_interface import Array, Call, Engine

_LIBRARY = "model.tvm.so"


class Tvm(Engine):
    """TVM for this processor with default schedules, not tuned, on one thread."""

    name = "tvm"
    title = "TVM"
    modules = ("tvm",)
    one_thread = True

    def convert(self, network: Network) -> None:
        target = network.file(_LIBRARY)
        if target.exists():
            return
        tvm: Any = import_module("tvm")
        relax: Any = import_module("tvm.relax")
        frontend: Any = import_module("tvm.relax.frontend.onnx")
        source = import_module("onnx").load(str(require(network, ONNX)))
        module = frontend.from_onnx(source, keep_params_in_input=False)
        processor: str = import_module("llvmlite.binding").get_host_cpu_name()
        machine = tvm.target.Target({"kind": "llvm", "mcpu": processor, "num-cores": 1})
        with machine:
            module = relax.get_pipeline("zero")(module)
            relax.build(module, machine).export_library(str(target))

    def load(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        tvm: Any = import_module("tvm")
        relax: Any = import_module("tvm.relax")
        library = tvm.runtime.load_module(str(network.file(_LIBRARY)))
        main = relax.VirtualMachine(library, tvm.cpu())["main"]
        inputs = [tvm.runtime.tensor(array) for array in arrays.values()]

        def call() -> list[Array]:
            results = main(*inputs)
            tensors = [results] if len(network.outputs) == 1 else results
            return [tensor.numpy() for tensor in tensors]

        return call

    def results(self, network: Network, returned: Any) -> dict[str, Array]:
        return dict(zip(network.outputs, returned))
