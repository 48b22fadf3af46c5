"""Compile a module of PyTorch to a callable with its signature."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from nnefc.frontends.torch.program import Program
from nnefc.frontends.torch.signature import user_inputs
from nnefc.options.compile_config import Accuracy, CompileConfig, Precision
from nnefc.options.import_config import ImportConfig
from nnefc.pytorch.arguments import check_module
from nnefc.pytorch.cache_trees import register_caches
from nnefc.pytorch.call_arguments import CallArguments
from nnefc.pytorch.check_call import check_call
from nnefc.pytorch.check_tensors import check_tensors
from nnefc.pytorch.dimension_names import check_example
from nnefc.pytorch.export_program import export_program
from nnefc.pytorch.module_weights import ModuleWeights
from nnefc.pytorch.read_fx import STATES, TOKEN
from nnefc.pytorch.rename_symbols import named_symbols
from nnefc.pytorch.results import Results
from nnefc.support.errors import NnefError, warn_python
from nnefc.support.limits import no_collection

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch.export import ExportedProgram

    from nnefc.formats.files import FilePath
    from nnefc.pytorch.export_program import ExportedModule
    from nnefc.runtime.run.model_interface import Model


_CHANGED_INPUT: Final = "USER_INPUT_MUTATION"
"""The kind of outputs that are new values of arguments."""


class CompiledModule:
    """A compiled module: it takes the arguments of the module, and returns what that returns.

    Tensors are new memory.  Buffers that the module changes are states: a call begins with their
    values after the call before.  The buffers of the module itself stay as they are.  Arguments
    that the module changes are changed.
    """

    def __init__(
        self, program: ExportedProgram, read: Program, model: Model, signature: inspect.Signature
    ) -> None:
        """`program`: as exported, with the nesting of inputs and results; `read`: its data.

        `signature`: of the module's `forward`.
        """
        self.model = model
        """The model of the flat list of tensors, as of `nnefc.compile`."""
        self._program = read
        self._out_spec: Any = program.call_spec.out_spec
        labels = {each.label for each in user_inputs(read)}
        self._arguments = CallArguments(program, labels, signature)
        self._weights = ModuleWeights(program, read)
        self._results = Results(read)
        unlisted = {TOKEN, *STATES}
        listed = [x for x in program.graph_signature.output_specs if x.kind.name not in unlisted]
        specs = program.graph_signature.input_specs
        names = [x.arg.name for x in specs if x.kind.name == "USER_INPUT"]
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

        Raises NnefError `input/argument` for arguments of another form than the example, and other
        values that are no tensors; `input/...` for tensors of other types and shapes than the model
        takes; `torch/weights` if the weights of the module have been changed.
        """
        from torch.utils import _pytree as pytree

        flat = self._arguments.flattened(args, kwargs)
        self._weights.require_same()
        try:
            if self._changed:
                self._arguments.require_own_memory(flat, [leaf for _, leaf in self._changed])
            found = self.model(**self._arguments.inputs(flat))
        except Exception:
            check_call(self._program, self._arguments.leaves, flat)
            raise
        results = self._results.of(found)
        for i, leaf in self._changed:
            flat[leaf].copy_(results[i])
        returned = [results[i] if leaf < 0 else flat[leaf] for i, leaf in self._returned]
        return pytree.tree_unflatten(returned, self._out_spec)

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
    accuracy: Accuracy = "fast",
    check_indices: bool = True,
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
        accuracy: "strict" sums products in convolutions; "fast" may use Winograd's algorithm.
        check_indices: An index out of range raises NnefError `input/index`; False: the nearest
            item is used.
    """
    import torch

    module = check_module(module)
    config = CompileConfig.of(threads, accuracy, precision=precision, check_indices=check_indices)
    register_caches()
    args, kwargs = (args,) if isinstance(args, torch.Tensor) else tuple(args), kwargs or {}
    names = check_example(module, args, kwargs, dynamic_shapes)
    check_tensors(module, args, kwargs)
    signature = inspect.signature(module.forward)
    found = export_program(module, args, kwargs, dynamic_shapes)
    try:
        return _compiled(found, signature, names, config)
    except NnefError:
        if found.is_decomposed:
            raise
        return _compiled(found.decomposed(), signature, names, config)  # other operators


def _compiled(
    found: ExportedModule,
    signature: inspect.Signature,
    names: Mapping[str, dict[int, str]],
    config: CompileConfig,
) -> CompiledModule:
    """A compiled program; `names`: of dimensions, by those of the tensors among the arguments."""
    labels = {each.label for each in user_inputs(found.program)}
    leaves = CallArguments(found.exported, labels, signature).leaves
    axes = {x.label: names[x.name] for x in leaves if x.label is not None and x.name in names}
    program = named_symbols(found.program, axes)
    model = compile_program(program, found.arrays, config)
    return CompiledModule(found.exported, program, model, signature)


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
