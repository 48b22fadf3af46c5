"""The backend of PyTorch's compiler: `torch.compile(module, backend="nnefc")`.

Dynamo makes graphs between graph breaks, AOT autograd makes them functional graphs of ATen
operators, and nnefc compiles these.  Parameters and buffers that a graph does not change are
weights; if a module changes them later, its graph is compiled again.  A graph that nnefc cannot
compile is run by PyTorch, with a warning that names the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from nnefc.frontends.torch.signature import user_inputs
from nnefc.options.arguments import check_names
from nnefc.pytorch.compile_module import compile_program
from nnefc.pytorch.decompositions import kept_table
from nnefc.pytorch.read_fx import read_graph
from nnefc.pytorch.results import Results
from nnefc.support.errors import NnefError, warn_python

if TYPE_CHECKING:
    import torch
    from torch import fx


_STATIC: Final = "_dynamo_static_input_type"
"""Dynamo's mark of inputs whose address never changes: parameters and buffers."""
_MAX_CHANGES: Final = 3
"""Changes after which a weight is an input of the model."""
OPTIONS: Final = ("threads",)


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
        options: `threads`: those of a call.
    """
    from torch._functorch.aot_autograd import aot_module_simplified

    del mode
    chosen = dict(options or {})
    try:
        check_names(nnefc, chosen, OPTIONS)
    except (NnefError, TypeError) as error:
        return _raising(error)
    weights = _static_tensors(module, inputs)

    def compile_graph(graph: fx.GraphModule, fakes: Sequence[Any]) -> Callable[..., Any]:
        from torch._functorch._aot_autograd.utils import make_boxed_func
        from torch._subclasses.fake_tensor import unset_fake_temporarily

        with unset_fake_temporarily():
            run = _compiled(graph, weights if len(fakes) == len(inputs) else {}, chosen)
        return make_boxed_func(graph.forward if run is None else run)

    def refuse(graph: fx.GraphModule, fakes: Sequence[Any]) -> Callable[..., Any]:
        del graph, fakes
        message = "the backend nnefc computes no gradients, which this call asks for"
        hint = "call the module within torch.no_grad() or torch.inference_mode()"
        return _raising(NnefError.of("torch/training", message, hint=hint))

    compile_functional: Any = aot_module_simplified
    return compile_functional(
        module,
        inputs,
        fw_compiler=refuse,
        inference_compiler=compile_graph,
        decompositions=kept_table(),
    )


def _raising(error: Exception) -> Callable[..., Any]:
    """A graph whose calls raise an error."""

    def run(*args: Any) -> Any:
        raise error

    return run


def _static_tensors(module: fx.GraphModule, inputs: Sequence[Any]) -> dict[int, torch.Tensor]:
    """The parameters and buffers among the inputs, by position."""
    import torch

    placeholders = (node for node in module.graph.nodes if node.op == "placeholder")
    return {
        i: given
        for i, (node, given) in enumerate(zip(placeholders, inputs, strict=True))
        if isinstance(given, torch.nn.Parameter)
        or (isinstance(given, torch.Tensor) and _STATIC in (node.meta.get("tensor_dict") or ()))
    }


def _compiled(
    graph: fx.GraphModule, weights: Mapping[int, torch.Tensor], options: Mapping[str, Any]
) -> _CompiledGraph | None:
    """A compiled graph; None, after a warning, for one that PyTorch must run."""
    changed = _changed_inputs()
    try:
        return _CompiledGraph(
            graph, {i: x for i, x in weights.items() if i not in changed}, options
        )
    except NnefError as error:
        first, *others = error.errors
        more = f" ({len(others)} more errors)" if others else ""
        where = f"{first.place}: " if first.place else ""
        warn_python(f"{where}PyTorch runs a graph that nnefc cannot compile: {first.text}{more}")
        return None


def _changed_inputs() -> Collection[int]:
    """The inputs that the graph of this AOT compilation changes, as far as PyTorch tells."""
    from torch._guards import TracingContext

    context: Any = TracingContext.try_get()
    metadata: Any = getattr(context, "fw_metadata", None)
    return getattr(metadata, "mutated_inp_runtime_indices", ())


class _CompiledGraph:
    """A graph of ATen operators: tensors in, a list of tensors and numbers out."""

    def __init__(
        self,
        graph: fx.GraphModule,
        weights: Mapping[int, torch.Tensor],
        options: Mapping[str, Any],
    ) -> None:
        """`weights`: the tensors of inputs that are constants while they do not change."""
        self._graph = graph
        self._threads = options.get("threads")
        self._names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
        self._weights = {self._names[i]: x for i, x in weights.items()}
        self._changes: Counter[str] = Counter()
        self._versions = self._present_versions()
        self._compile()

    def _compile(self) -> None:
        program, arrays = read_graph(self._graph, self._weights)
        labels = {each.label for each in user_inputs(program)}
        self._inputs = [(i, name) for i, name in enumerate(self._names) if name in labels]
        self._results = Results(program)
        self._model = compile_program(program, arrays, self._threads)

    def _present_versions(self) -> dict[str, int]:
        """How often each weight has been changed."""
        return {name: 0 if x.is_inference() else x._version for name, x in self._weights.items()}

    def _follow_changes(self, versions: dict[str, int]) -> None:
        """Compile again for changed weights; those that change often become inputs."""
        changed = [name for name, version in versions.items() if version != self._versions[name]]
        self._changes.update(changed)
        for name in changed:
            if self._changes[name] >= _MAX_CHANGES:
                del self._weights[name]
        self._versions = self._present_versions()
        self._compile()

    def __call__(self, *args: Any) -> list[Any]:
        versions = self._present_versions()
        if versions != self._versions:
            self._follow_changes(versions)
        given = {name: args[i].detach() for i, name in self._inputs}
        return self._results.of(self._model(**given))
