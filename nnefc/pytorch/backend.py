"""The backend of PyTorch's compiler: `torch.compile(module, backend="nnefc")`.

Dynamo makes graphs between graph breaks, AOT autograd makes them functional graphs of ATen
operators, and nnefc compiles these.  Parameters and buffers that a graph does not change are
weights; for other weights, and after a change, the graph is compiled again.  PyTorch runs the
operators that nnefc cannot compile, with a warning that names them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from nnefc.options.compile_config import CompileConfig
from nnefc.pytorch.compiled_graph import CompiledGraph
from nnefc.pytorch.decompositions import keeping_composite_operators
from nnefc.support.errors import NnefError
from nnefc.support.limits import no_collection

if TYPE_CHECKING:
    from torch import fx


_STATIC: Final = "_dynamo_static_input_type"
"""Dynamo's mark of inputs whose address never changes: parameters and buffers."""
OPTIONS: Final = ("threads", "precision", "accuracy", "check_indices")
MODES: Final = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@no_collection()
def nnefc(
    module: fx.GraphModule,
    inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The backend of `torch.compile`: a callable for a graph of Dynamo.

    Calls raise NnefError for wrong options, and where gradients are asked for.  Errors within a
    compilation would be wrapped, and leave Dynamo's evaluator of frames behind.

    Args:
        module: A graph of Dynamo.
        inputs: Its inputs: parameters, tensors and sizes of the first call.
        mode: A mode of `torch.compile`; all compute the same.
        options: `threads` of a call; `precision`, `accuracy` and `check_indices` as in
            `nnefc.compile`.
    """
    from torch._functorch.aot_autograd import aot_module_simplified

    try:
        config = _config(mode, options or {})
    except NnefError as error:
        return _raising(error)
    weights = _static_positions(module, inputs)

    def compile_graph(graph: fx.GraphModule, fakes: Sequence[Any]) -> Callable[..., Any]:
        from torch._functorch._aot_autograd.utils import make_boxed_func
        from torch._subclasses.fake_tensor import unset_fake_temporarily

        with unset_fake_temporarily():
            constants = weights if len(fakes) == len(inputs) else []
            return make_boxed_func(CompiledGraph(graph, constants, config))

    def refuse(graph: fx.GraphModule, fakes: Sequence[Any]) -> Callable[..., Any]:
        del graph, fakes
        message = "the backend nnefc computes no gradients, which this call asks for"
        hint = "call the module within torch.no_grad() or torch.inference_mode()"
        return _raising(NnefError.of("torch/training", message, hint=hint))

    compile_functional: Any = aot_module_simplified
    with keeping_composite_operators() as decompositions:
        return compile_functional(
            module,
            inputs,
            fw_compiler=refuse,
            inference_compiler=compile_graph,
            decompositions=decompositions,
            keep_inference_input_mutations=True,
        )


def _config(mode: str | None, options: Mapping[str, Any]) -> CompileConfig:
    """The configuration of options; raises NnefError `input/argument` and `input/threads`."""
    if mode is not None and mode not in MODES:
        message = f"mode = {mode!r}: the modes are {', '.join(MODES)}"
        raise NnefError.of("input/argument", message)
    if unknown := [name for name in options if name not in OPTIONS]:
        message = f"options[{unknown[0]!r}]: the options are {', '.join(OPTIONS)}"
        raise NnefError.of("input/argument", message)
    return CompileConfig.of(**options)


def _raising(error: Exception) -> Callable[..., Any]:
    """A graph whose calls raise an error."""

    def run(*args: Any) -> Any:
        raise error

    return run


def _static_positions(module: fx.GraphModule, inputs: Sequence[Any]) -> list[int]:
    """The positions of dense parameters and buffers among the inputs."""
    placeholders = (node for node in module.graph.nodes if node.op == "placeholder")
    pairs = enumerate(zip(placeholders, inputs, strict=True))
    return [i for i, (node, given) in pairs if _is_static(node, given)]


def _is_static(node: fx.Node, given: Any) -> bool:
    import torch

    if not isinstance(given, torch.Tensor) or given.layout is not torch.strided:
        return False
    is_marked = _STATIC in (node.meta.get("tensor_dict") or ())
    return given.device.type == "cpu" and (is_marked or isinstance(given, torch.nn.Parameter))
