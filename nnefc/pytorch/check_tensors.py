"""Report all tensors of a module and of its arguments that nnefc cannot compute with, at once."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from nnefc.pytorch.read_fx import odd_items
from nnefc.support.errors import NnefError, Place

if TYPE_CHECKING:
    import torch

_LISTED: Final = 3
"""Tensors that a message names."""
_QUANTIZED: Final = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")


def check_tensors(module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise NnefError `torch/unsupported` for tensors on other devices, and of other types.

    The place is that of the module's class.
    """
    found = [*_of_module(module), *_of_arguments(args, kwargs)]
    if not found:
        return
    what, reason = found[0]
    same = [name for name, other in found if other == reason]
    more = f" and {len(same) - _LISTED} more" if len(same) > _LISTED else ""
    verb = "is" if len(same) == 1 else "are"
    message = f"{', '.join(same[:_LISTED])}{more} {verb} {reason}"
    hint = "module.to('cpu') and x.to('cpu') move tensors" if reason.startswith("on ") else ""
    raise NnefError.of("torch/unsupported", message, place_of_module(module, what), hint)


def _of_module(module: torch.nn.Module) -> Iterator[tuple[str, str]]:
    """Names and reasons of parameters, buffers and modules."""
    named: Any = module.named_modules
    for name, each in named():
        if type(each).__module__.startswith(_QUANTIZED):
            yield f"module '{name}'", "quantized with packed weights, which cannot be exported"
    for what, tensors in (
        ("parameter", module.named_parameters()),
        ("buffer", module.named_buffers()),
    ):
        for name, x in tensors:
            if reason := fault_of(x):
                yield f"{what} '{name}'", reason


def _of_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and reasons of tensors among the arguments."""
    import torch
    from torch.utils import _pytree as pytree

    given = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    leaves: list[tuple[Any, Any]] = pytree.tree_flatten_with_path((given, dict(kwargs)))[0]
    for path, x in leaves:
        if isinstance(x, torch.Tensor) and (reason := fault_of(x, within=False)):
            yield f"argument {pytree.keystr(path[1:])}", reason


def fault_of(x: torch.Tensor, *, within: bool = True) -> str:
    """Why nnefc cannot compute with a tensor; "" for others.

    `within`: whether it is one of the module, which may be complex.
    """
    import torch

    if x.device.type != "cpu":
        return f"on the device '{x.device}'"
    if x.is_complex() and not within:
        return "complex"
    if x.is_quantized:
        return f"quantized ({x.dtype})"
    if reason := odd_items(x):
        return reason
    return "" if x.layout is torch.strided else f"sparse ({x.layout})"


def place_of_module(module: torch.nn.Module, what: str = "") -> Place | None:
    """The line of the class that owns a tensor; of the whole module if that is one of PyTorch."""
    path = what.split("'")[1].rpartition(".")[0] if "'" in what else ""
    try:
        owner: Any = module.get_submodule(path)
    except AttributeError:
        owner = module
    several: tuple[Any, ...] = (owner, module)
    for each in several:
        kind: Any = each.__class__
        if not kind.__module__.startswith("torch."):
            try:
                return Place(inspect.getfile(kind), inspect.getsourcelines(kind)[1], 1)
            except (OSError, TypeError):
                return None
    return None
