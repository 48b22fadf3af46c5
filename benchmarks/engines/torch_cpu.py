"""The engine PyTorch."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks.artifacts import TORCH_SCRIPT, Network, require
from benchmarks.engines.engine_interface import Array, Call, Engine, fastest


class PyTorch(Engine):
    """PyTorch, in the fastest of its modes: eager, optimised, optimised with channels last.

    In bfloat16 all tensors are bfloat16, or only the operands that autocast converts.
    """

    name = "torch"
    title = "PyTorch"
    modules = ("torch",)

    def convert(self, network: Network) -> None:
        require(network, TORCH_SCRIPT)

    def load(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        torch: Any = import_module("torch")
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        halves = network.precision == "bfloat16"

        def script(*, optimised: bool, channels_last: bool, autocast: bool = False) -> Call:
            module = torch.jit.load(str(network.file(TORCH_SCRIPT))).eval()
            inputs = [torch.from_numpy(array) for array in arrays.values()]
            if halves and not autocast:
                module = module.to(torch.bfloat16)
                inputs = [x.to(torch.bfloat16) if x.is_floating_point() else x for x in inputs]
            if channels_last:
                if not any(x.dim() == 4 for x in inputs):
                    raise ValueError("no pictures")
                module = module.to(memory_format=torch.channels_last)
                inputs = [
                    x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
                    for x in inputs
                ]
            if optimised:
                module = torch.jit.optimize_for_inference(torch.jit.freeze(module))

            def call() -> Any:
                with torch.inference_mode(), torch.autocast("cpu", enabled=autocast):
                    return module(*inputs)

            return call

        modes = {
            "eager": lambda: script(optimised=False, channels_last=False),
            "optimised": lambda: script(optimised=True, channels_last=False),
            "channels last": lambda: script(optimised=True, channels_last=True),
        }
        if halves:
            for text, last in (("autocast", False), ("autocast, channels last", True)):
                modes[text] = lambda last=last: script(
                    optimised=False, channels_last=last, autocast=True
                )
        self.note, call = fastest(modes)
        return call

    def results(self, network: Network, returned: Any) -> dict[str, Array]:
        values = returned if len(network.outputs) > 1 else [returned]
        return {name: value.float().numpy() for name, value in zip(network.outputs, values)}
