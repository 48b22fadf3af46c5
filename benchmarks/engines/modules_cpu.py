"""Engines that run a module of PyTorch itself: `benchmarks.pytorch.networks`."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (engines are not typed)

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.artifacts import Network
from benchmarks.engines.engine_interface import Array, Call, Engine

if TYPE_CHECKING:
    from benchmarks.pytorch.networks import Case


class ModuleEngine(Engine):
    """An engine for the module that a network names; the arguments are those of its case."""

    def convert(self, network: Network) -> None:
        pass

    def load(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        del arrays
        torch: Any = import_module("torch")
        from benchmarks.pytorch.networks import case

        torch.set_num_threads(threads)
        with torch.no_grad():
            return self.compiled(case(network.name), threads)

    @abstractmethod
    def compiled(self, case: Case, threads: int) -> Call:
        """A function that calls the module."""

    def results(self, network: Network, returned: Any) -> dict[str, Array]:
        from torch.utils import _pytree as pytree

        leaves = pytree.tree_leaves(returned)
        return {str(i): x.numpy() for i, x in enumerate(leaves) if hasattr(x, "numpy")}


def _without_gradients(run: Callable[..., Any], case: Case) -> Call:
    torch: Any = import_module("torch")

    def call() -> Any:
        with torch.inference_mode():
            return run(*case.args, **case.kwargs)

    return call


class ModuleNnefc(ModuleEngine):
    """`nnefc.pytorch.compile`."""

    name = "nnefc_module"
    title = "nnefc"
    modules = ("torch", "nnefc.pytorch")

    def warm(self, network: Network, threads: int, arrays: dict[str, Array]) -> None:
        self.load(network, threads, arrays)()  # stores the kernels in the cache

    def compiled(self, case: Case, threads: int) -> Call:
        import nnefc.pytorch

        model = nnefc.pytorch.compile(case.module, case.args, case.kwargs, threads=threads)
        return lambda: model(*case.args, **case.kwargs)


class ModuleBackend(ModuleEngine):
    """`torch.compile` with the backend nnefc."""

    name = "nnefc_backend"
    title = "nnefc's backend"
    modules = ("torch", "nnefc.pytorch")

    def warm(self, network: Network, threads: int, arrays: dict[str, Array]) -> None:
        self.load(network, threads, arrays)()

    def compiled(self, case: Case, threads: int) -> Call:
        from nnefc.pytorch import backend

        torch: Any = import_module("torch")
        run = torch.compile(case.module, backend=backend.nnefc, options={"threads": threads})
        call = _without_gradients(run, case)
        call()
        return call


class Eager(ModuleEngine):
    """PyTorch without a compiler."""

    name = "eager"
    title = "PyTorch eager"
    modules = ("torch",)

    def compiled(self, case: Case, threads: int) -> Call:
        return _without_gradients(case.module, case)


class Inductor(ModuleEngine):
    """PyTorch's compiler with frozen weights, which tries several kernels; it needs a C++ compiler."""

    name = "inductor"
    title = "Inductor"
    modules = ("torch",)

    def compiled(self, case: Case, threads: int) -> Call:
        torch: Any = import_module("torch")
        options = {"max_autotune": True, "freezing": True}
        run = torch.compile(case.module, backend="inductor", options=options)

        def call() -> Any:
            with torch.no_grad():
                return run(*case.args, **case.kwargs)

        call()
        return call


class ModuleOpenVino(ModuleEngine):
    """OpenVINO's conversion of the exported program, configured for latency.

    Its backend of `torch.compile` fails in Dynamo of PyTorch 2.15.
    """

    name = "openvino_module"
    title = "OpenVINO"
    modules = ("torch", "openvino")

    def compiled(self, case: Case, threads: int) -> Call:
        torch: Any = import_module("torch")
        openvino: Any = import_module("openvino")
        from torch.utils import _pytree as pytree

        program = torch.export.export(case.module, case.args, case.kwargs, strict=False)
        options = {
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": "1",
            "INFERENCE_NUM_THREADS": str(threads),
            "INFERENCE_PRECISION_HINT": "f32",
            "ENABLE_CPU_PINNING": "NO",
            "ENABLE_HYPER_THREADING": "YES",
        }
        converted = openvino.convert_model(program)
        request = openvino.Core().compile_model(converted, "CPU", options).create_infer_request()
        leaves = pytree.tree_leaves((case.args, case.kwargs))
        tensors = [x.numpy() for x in leaves if isinstance(x, torch.Tensor)]
        self._count = len(converted.outputs)
        return lambda: request.infer(tensors, share_inputs=True, share_outputs=True)

    def results(self, network: Network, returned: Any) -> dict[str, Array]:
        return {str(i): returned[i].copy() for i in range(self._count)}
