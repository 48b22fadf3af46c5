"""Export a module by `torch.export`, as a program of operators that nnefc has."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nnefc.frontends.torch.check_operators import unknown_operators
from nnefc.frontends.torch.program import Program
from nnefc.pytorch.decompositions import decomposed
from nnefc.pytorch.detectors import without_branches_on_values
from nnefc.pytorch.export_errors import export_error
from nnefc.pytorch.read_fx import Array, read_exported
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

_IRRELEVANT: Final = (
    r"The tensor attributes self\._flat_weights",
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
)
"""The beginnings of warnings that PyTorch's recurrent layers and PyTorch itself cause."""


class ExportedModule(NamedTuple):
    """A functional program of PyTorch, and its data."""

    exported: ExportedProgram
    """With the nesting of inputs and results."""
    program: Program
    arrays: Mapping[str, Array]
    is_decomposed: bool

    def decomposed(self) -> ExportedModule:
        """The same in Core ATen and composite operators that nnefc has; raises NnefError."""
        return self if self.is_decomposed else _decomposed(self.exported)


def export_program(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], shapes: Any
) -> ExportedModule:
    """The functional program of a module; raises NnefError `torch/export`.

    It is decomposed, which takes PyTorch longer than the export, if nnefc lacks operators of it, or
    if it changes tensors in place that are seen elsewhere.  So are programs with symbolic extents:
    calls alone would tell whether nnefc has their operators for all arguments.
    """
    import torch

    if isinstance(args, torch.Tensor):
        args = (args,)
    own, named = _unshared((tuple(args), dict(kwargs)))

    def export() -> Any:
        with without_branches_on_values():
            return torch.export.export(module, own, named, dynamic_shapes=shapes, strict=False)

    exported: Any = _by_pytorch(export)
    if exported.range_constraints:
        return _decomposed(exported)
    try:
        program, arrays = read_exported(exported)
    except NnefError:
        return _decomposed(exported)
    if unknown_operators(program):
        return _decomposed(exported)
    return ExportedModule(exported, program, arrays, is_decomposed=False)


def _decomposed(exported: ExportedProgram) -> ExportedModule:
    functional = _by_pytorch(lambda: decomposed(exported))
    return ExportedModule(functional, *read_exported(functional), is_decomposed=True)


def _by_pytorch(function: Callable[[], Any]) -> Any:
    """The result of a function of PyTorch; its errors become NnefError `torch/export`."""
    import torch

    try:
        with torch.no_grad(), warnings.catch_warnings():
            for each in _IRRELEVANT:
                warnings.filterwarnings("ignore", message=each)
            return function()
    except Exception as error:  # PyTorch raises errors of many classes
        raise export_error(error) from error


def _unshared(arguments: Any) -> Any:
    """Arguments whose tensors have memory of their own: PyTorch takes equal ones for the same."""
    import torch
    from torch.utils import _pytree as pytree

    seen: set[int] = set()

    def own(x: torch.Tensor) -> torch.Tensor:
        memory = x.untyped_storage().data_ptr() if x.layout is torch.strided else 0
        if memory not in seen:
            seen.add(memory)
            return x
        return x.clone()

    return pytree.tree_map_only(torch.Tensor, own, arguments)
