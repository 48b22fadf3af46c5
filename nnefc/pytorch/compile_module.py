"""Compile a module of PyTorch to a callable with its signature."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from nnefc.frontends.torch.program import Program
from nnefc.frontends.torch.signature import user_inputs
from nnefc.options.compile_config import CompileConfig, Precision
from nnefc.options.import_config import ImportConfig
from nnefc.pytorch.arguments import check_module
from nnefc.pytorch.cache_trees import register_caches
from nnefc.pytorch.check_tensors import check_tensors
from nnefc.pytorch.export_program import export_program
from nnefc.pytorch.results import Results, argument_of
from nnefc.support.errors import NnefError, warn_python
from nnefc.support.limits import no_collection

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch.export import ExportedProgram

    from nnefc.formats.files import FilePath
    from nnefc.runtime.run.model_interface import Model


_STATE: Final = "BUFFER_MUTATION"
_CHANGED_INPUT: Final = "USER_INPUT_MUTATION"
"""Kinds of outputs of exported programs."""


class CompiledModule:
    """A compiled module: it takes the arguments of the module, and returns what that returns.

    Tensors are new memory.  Buffers that the module changes are states: a call begins with their
    values after the call before.  The buffers of the module itself stay as they are.  Arguments
    that the module changes are changed.
    """

    def __init__(
        self, program: ExportedProgram, read: Program, model: Model, names: Sequence[str]
    ) -> None:
        """`program`: as exported, with the nesting of inputs and results; `read`: its data.

        `names`: of the module's parameters, in order.
        """
        self.model = model
        """The model of the flat list of tensors, as of `nnefc.compile`."""
        spec: Any = program.call_spec
        self._in_spec, self._out_spec = spec.in_spec, spec.out_spec
        self._names = list(names)
        tensors = {each.label for each in user_inputs(read)}
        given = [x for x in program.graph_signature.input_specs if x.kind.name == "USER_INPUT"]
        self._labels = [each.arg.name if each.arg.name in tensors else None for each in given]
        """The names of the leaves of the inputs; None for those that are no tensors."""
        arguments: list[Any] = [each.arg for each in given]
        self._constants = [(i, x) for i, x in enumerate(arguments) if hasattr(x, "value")]
        """The leaves of the inputs that the program takes for constants."""
        self._results = Results(read)
        listed = [x for x in program.graph_signature.output_specs if x.kind.name != _STATE]
        names = [each.arg.name for each in given]
        changed = {
            each.arg.name: (i, names.index(str(each.target)))
            for i, each in enumerate(listed)
            if each.kind.name == _CHANGED_INPUT
        }
        self._changed = list(changed.values())
        """Results that are new values of inputs, and the leaves of the inputs that they are of."""
        others = [x for x in enumerate(listed) if x[1].kind.name != _CHANGED_INPUT]
        same = [changed.get(getattr(each.arg, "name", ""), (-1, -1))[1] for _, each in others]
        self._returned = [(i, leaf) for (i, _), leaf in zip(others, same, strict=True)]
        """The results of the module, and the leaves of the inputs that they are; -1 for none."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results of the module for these arguments.

        Raises NnefError `input/argument` if they are nested otherwise than the example, or have
        other numbers, flags and texts, and `input/...` for tensors of other types and shapes than
        the model takes.
        """
        from torch.utils import _pytree as pytree

        flat, spec = pytree.tree_flatten((args, kwargs))
        if spec != self._in_spec:
            flat = self._arranged(args, kwargs)
        self._check_constants(flat)
        pairs = zip(self._labels, flat, strict=True)
        given = {name: argument_of(each) for name, each in pairs if name is not None}
        results = self._results.of(self.model(**given))
        for i, leaf in self._changed:
            flat[leaf].copy_(results[i])
        returned = [results[i] if leaf < 0 else flat[leaf] for i, leaf in self._returned]
        return pytree.tree_unflatten(returned, self._out_spec)

    def _check_constants(self, flat: Sequence[Any]) -> None:
        """Raise NnefError for numbers, flags and texts that are not those of the example."""
        for i, known in self._constants:
            given = flat[i]
            if type(given) is not type(known.value) or given != known.value:
                example = f"but '{known.name}' was {known.value!r} in the example"
                kind = type(given).__name__
                what = f"of type {kind}" if hasattr(given, "shape") else repr(given)
                message = f"an argument is {what}, {example}; the module is compiled for that"
                hint = "give tensors what changes, or compile the module again"
                raise NnefError.of("input/argument", message, hint=hint)

    def _arranged(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of arguments of which others are positional than in the example."""
        from torch.utils import _pytree as pytree

        children: Any = self._in_spec.children()
        count = len(children[0].children())
        named = {**dict(zip(self._names, args, strict=False)), **kwargs}
        order: list[str] = list(children[1].context)
        first = [named.pop(name) for name in self._names[:count] if name in named]
        rest = {name: named.pop(name) for name in order if name in named}
        flat, spec = pytree.tree_flatten((tuple(first), rest))
        if named or spec != self._in_spec or len(args) > len(self._names):
            message = f"the arguments are nested as {spec}, but the example was {self._in_spec}"
            hint = "compile the module for such arguments"
            raise NnefError.of("input/argument", message, hint=hint)
        return flat

    def save(self, path: FilePath, **options: Any) -> None:
        """Write `model` as an artifact, which `nnefc.load` opens; see `CompiledModel.save`."""
        self.model.save(path, **options)

    def __repr__(self) -> str:
        return f"CompiledModule({self.model!r})"


@no_collection()
def compile(
    module: torch.nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    threads: int | None = None,
    precision: Precision = "float32",
) -> CompiledModule:
    """Compile a module for example arguments; they decide types, nesting and fixed extents.

    Weights are shared with the module, which is not changed.  Raises NnefError: `torch/export`
    with PyTorch's reason if it cannot be exported, `torch/operator` with all operators that are
    not supported, and the line of the module that calls them.

    Args:
        module: A module in evaluation mode.
        args: Example arguments: tensors, numbers, and nested lists, tuples and dictionaries.
        kwargs: Example keyword arguments.
        dynamic_shapes: The extents that may change, as in `torch.export.export`.
        threads: Threads of a call; None: as many as the processor has cores.
        precision: The type that products round their operands to, as in `nnefc.compile`.
    """
    module = check_module(module)
    config = CompileConfig.of(threads, precision=precision)
    register_caches()
    check_tensors(module, args, kwargs or {})
    found = export_program(module, args, kwargs or {}, dynamic_shapes)
    try:
        model = compile_program(found.program, found.arrays, config)
    except NnefError:
        if found.is_decomposed:
            raise
        found = found.decomposed()  # its operators have other arguments
        model = compile_program(found.program, found.arrays, config)
    names = list(inspect.signature(module.forward).parameters)
    return CompiledModule(found.exported, found.program, model, names)


def compile_program(
    program: Program, arrays: Mapping[str, np.ndarray[Any, Any]], config: CompileConfig
) -> Model:
    """The model of a program; raises NnefError."""
    from nnefc.artifacts.graph_origin import FromGraph
    from nnefc.driver.compile import check_environment, compile_graph
    from nnefc.driver.lower_graph import with_tuned_algorithms
    from nnefc.driver.precision import warn_of_precision
    from nnefc.dynamic.dynamic_model import DynamicModel
    from nnefc.frontends.read_model import graph_or_source
    from nnefc.frontends.torch.source import TorchSource
    from nnefc.ir import Graph

    check_environment()
    config = with_tuned_algorithms(config)
    warn_of_precision(config)
    importing = ImportConfig()
    diagnostics = importing.diagnostics()
    source = TorchSource(program, arrays, importing.limits)
    found = graph_or_source(source, importing, diagnostics, dynamic=True, sources=False)
    for warning in diagnostics.warnings:
        warn_python(str(warning))
    if isinstance(found, Graph):
        return compile_graph(found, config, origin=FromGraph(found, config))
    return DynamicModel.of(found, {}, config, None)
