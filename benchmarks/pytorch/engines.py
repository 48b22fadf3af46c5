"""The ways to run a module: each returns a function that calls it on its arguments."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (engines are not typed)

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from benchmarks.pytorch.networks import Case

Call = Callable[[], Any]


def nnefc(case: Case, threads: int) -> Call:
    """`nnefc.pytorch.compile`."""
    compiler: Any = import_module("nnefc.pytorch")
    model = compiler.compile(case.module, case.args, case.kwargs, threads=threads)
    return lambda: model(*case.args, **case.kwargs)


def backend(case: Case, threads: int) -> Call:
    """`torch.compile` with the backend nnefc."""
    from nnefc.pytorch.backend import nnefc

    run: Any = torch.compile(case.module, backend=nnefc, options={"threads": threads})
    return _inference(run, case)


def eager(case: Case, threads: int) -> Call:
    """PyTorch without a compiler."""
    del threads
    return _inference(case.module, case)


def inductor(case: Case, threads: int) -> Call:
    """PyTorch's compiler: weights are frozen, several kernels tried; it needs a C++ compiler."""
    del threads
    options: dict[str, Any] = {"max_autotune": True, "freezing": True}
    run: Any = torch.compile(case.module, backend="inductor", options=options)

    def call() -> Any:
        with torch.no_grad():
            return run(*case.args, **case.kwargs)

    return call


def openvino(case: Case, threads: int) -> Call:
    """OpenVINO's conversion of the exported program, configured for latency.

    Its backend of `torch.compile` fails in Dynamo of PyTorch 2.15.
    """
    library: Any = import_module("openvino")
    exported: Any = torch.export.export(case.module, case.args, case.kwargs, strict=False)
    options = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": "1",
        "INFERENCE_NUM_THREADS": str(threads),
        "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": "NO",
        "ENABLE_HYPER_THREADING": "YES",
    }
    core = library.Core()
    try:
        compiled = core.compile_model(library.convert_model(exported), "CPU", options)
    except RuntimeError:  # it lacks operators, which decomposition replaces
        decomposed = exported.run_decompositions()
        compiled = core.compile_model(library.convert_model(decomposed), "CPU", options)
    request = compiled.create_infer_request()
    leaves = pytree.tree_leaves((case.args, case.kwargs))
    arrays = [x.numpy() for x in leaves if isinstance(x, torch.Tensor)]
    count = len(compiled.outputs)

    def call() -> Any:
        found = request.infer(arrays, share_inputs=True, share_outputs=True)
        return [found[i] for i in range(count)]

    return call


def _inference(run: Callable[..., Any], case: Case) -> Call:
    def call() -> Any:
        with torch.inference_mode():
            return run(*case.args, **case.kwargs)

    return call


ENGINES: Final[dict[str, Callable[[Case, int], Call]]] = {
    each.__name__: each for each in (nnefc, backend, eager, inductor, openvino)
}


def tensors(returned: Any) -> list[torch.Tensor]:
    """The tensors of nested results, in order."""
    leaves = pytree.tree_leaves(returned)
    return [torch.as_tensor(x) for x in leaves if hasattr(x, "shape")]
