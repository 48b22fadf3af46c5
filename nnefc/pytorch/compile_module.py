"""Compile a module of PyTorch to a callable with its signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnefc.frontends.torch.program import Program
from nnefc.frontends.torch.signature import user_inputs
from nnefc.options.compile_config import CompileConfig
from nnefc.options.import_config import ImportConfig
from nnefc.pytorch.decompositions import decomposed
from nnefc.pytorch.read_fx import read_exported
from nnefc.pytorch.results import Results
from nnefc.support.errors import Diagnostics, warn_python

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch.export import ExportedProgram

    from nnefc.runtime.run.model_interface import Model


class CompiledModule:
    """A compiled module: tensors in, tensors out, in the nesting of the module's own call."""

    def __init__(self, program: ExportedProgram, read: Program, model: Model) -> None:
        """`program`: as exported, with the nesting of inputs and results; `read`: its data."""
        self.model = model
        spec: Any = program.call_spec
        self._in_spec, self._out_spec = spec.in_spec, spec.out_spec
        names = [each.arg.name for each in program.graph_signature.input_specs]
        users = [each.kind.name == "USER_INPUT" for each in program.graph_signature.input_specs]
        tensors = {each.label for each in user_inputs(read)}
        self._labels = [
            name if name in tensors else None for name, is_user in zip(names, users) if is_user
        ]
        """The names of the leaves of the inputs; None for those that are no tensors."""
        self._results = Results(read)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results of the module for these arguments; raises NnefError for others."""
        from torch.utils import _pytree as pytree

        flat, _ = pytree.tree_flatten((args, kwargs))
        given = {
            name: each for name, each in zip(self._labels, flat, strict=True) if name is not None
        }
        return pytree.tree_unflatten(self._results.of(self.model(**given)), self._out_spec)


def compile(
    module: torch.nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    threads: int | None = None,
) -> CompiledModule:
    """Compile a module for example inputs; raises NnefError.

    Args:
        module: A module in evaluation mode.
        args: Example arguments.
        kwargs: Example keyword arguments.
        dynamic_shapes: As in `torch.export.export`.
        threads: Threads of a call; None: as many as the processor has cores.
    """
    import torch

    with torch.no_grad():
        exported = torch.export.export(
            module, tuple(args), dict(kwargs or {}), dynamic_shapes=dynamic_shapes, strict=False
        )
        functional = decomposed(exported)
    read, arrays = read_exported(functional)
    return CompiledModule(functional, read, compile_program(read, arrays, threads))


def compile_program(
    program: Program, arrays: Mapping[str, np.ndarray[Any, Any]], threads: int | None
) -> Model:
    """The model of a program; raises NnefError."""
    from nnefc.artifacts.graph_origin import FromGraph
    from nnefc.driver.compile import check_environment, compile_graph
    from nnefc.driver.lower_graph import with_tuned_algorithms
    from nnefc.dynamic.dynamic_model import DynamicModel
    from nnefc.frontends.read_model import graph_or_source
    from nnefc.frontends.torch.source import TorchSource
    from nnefc.ir import Graph

    check_environment()
    config = with_tuned_algorithms(CompileConfig.of(threads))
    importing = ImportConfig()
    diagnostics = Diagnostics(limit=importing.limits.errors)
    source = TorchSource(program, arrays, importing.limits)
    found = graph_or_source(source, importing, diagnostics, dynamic=True, sources=False)
    for warning in diagnostics.warnings:
        warn_python(str(warning))
    if isinstance(found, Graph):
        return compile_graph(found, config, origin=FromGraph(found, config))
    return DynamicModel.of(found, {}, config, None)
