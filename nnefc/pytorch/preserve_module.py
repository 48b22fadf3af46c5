"""Restore modules after an export."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@contextmanager
def preserve_module(module: torch.nn.Module) -> Generator[None]:
    """Restore the tensors, modes and gradients of a module after the block, without copies.

    torch_to_nnef replaces parameters, buffers and attributes by named or empty tensors, and turns
    gradients off.
    """
    modules = [(each, each.training, _contents(each)) for each in module.modules()]
    gradients = [(p, p.requires_grad) for p in module.parameters()]
    try:
        yield
    finally:
        for each, training, contents in modules:
            for dictionary, items in contents:
                dictionary.clear()
                dictionary.update(items)
            each.training = training  # script modules have it outside their __dict__
        for parameter, wanted in gradients:
            if parameter.requires_grad != wanted:
                parameter.requires_grad_(wanted)


def _contents(module: torch.nn.Module) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The dictionary of a module, and those of its parameters, buffers, modules and hooks.

    Each comes with a shallow copy.
    """
    dictionaries = [module.__dict__]
    dictionaries += [value for value in module.__dict__.values() if isinstance(value, dict)]
    return [(each, dict(each)) for each in dictionaries]
