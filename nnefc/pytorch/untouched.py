"""Modules that are as before when they have been exported."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@contextmanager
def untouched(module: torch.nn.Module) -> Generator[None]:
    """Within it tensors of a module may be replaced, and its mode changed; afterwards it has those
    that it had, nothing copied.

    torch_to_nnef puts tensors with names, or without items, in the place of parameters, buffers
    and attributes, and turns gradients off.
    """
    modules = [(each, each.training, _contents(each)) for each in module.modules()]
    gradients = [(p, p.requires_grad) for p in module.parameters()]
    try:
        yield
    finally:
        for each, training, contents in modules:
            for held, items in contents:
                held.clear()
                held.update(items)
            each.training = training  # of a script it is none of its attributes
        for parameter, wanted in gradients:
            if parameter.requires_grad != wanted:
                parameter.requires_grad_(wanted)


def _contents(module: torch.nn.Module) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The attributes of a module, and what is in dictionaries among them: parameters, buffers,
    modules, hooks; (the dictionary itself, a copy of it).
    """
    held = [module.__dict__]
    held += [value for value in module.__dict__.values() if isinstance(value, dict)]
    return [(each, dict(each)) for each in held]
