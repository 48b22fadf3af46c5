"""The names that `dynamic_shapes` gives to the dimensions of a module's arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from nnefc.pytorch.call_arguments import leaf_names
from nnefc.pytorch.check_tensors import place_of_module
from nnefc.support.errors import NnefError
from nnefc.syntax.lexer import KEYWORDS

if TYPE_CHECKING:
    import torch

_NAME: Final = re.compile(r"(?![su]\d)[A-Za-z_]\w*", re.ASCII)
"""Names of symbols, but for those that PyTorch gives."""
_EXAMPLE: Final = "for example dynamic_shapes={'x': {0: torch.export.Dim('batch')}}"


def check_example(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], shapes: Any
) -> dict[str, dict[int, str]]:
    """The names of dimensions by axis, by the names of tensors among the example arguments.

    Raises NnefError `input/argument` for arguments that the module does not take, and for
    `dynamic_shapes` with other arguments or axes; PyTorch reports their other errors.
    """
    signature = inspect.signature(module.forward)
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        listed = ", ".join(signature.parameters)
        message = f"the example arguments do not fit forward({listed}): {error}"
        raise NnefError.of("input/argument", message, place_of_module(module)) from None
    if hasattr(shapes, "dynamic_shapes"):  # torch.export.ShapesCollection
        return {}
    if shapes is not None and not isinstance(shapes, Mapping | list | tuple):
        message = f"dynamic_shapes is of type {type(shapes).__name__}, expected a dictionary or a"
        raise NnefError.of("input/argument", f"{message} tuple by argument", hint=_EXAMPLE)
    further = {x.name for x in signature.parameters.values() if x.kind is x.VAR_KEYWORD}
    found: dict[str, dict[int, str]] = {}
    for i, (name, value) in enumerate(bound.items()):
        part = _part(shapes, name, i)
        trees = [(name, value, part)]
        if name in further:
            trees = [(key, x, _part(part, key, j)) for j, (key, x) in enumerate(value.items())]
        for tree in trees:
            for leaf, x, spec in _leaves(*tree):
                found[leaf] = _names_of(leaf, x, spec)
    return found


def _leaves(name: str, value: Any, shapes: Any) -> Iterator[tuple[str, Any, Any]]:
    """The tensors of an argument with their names and parts of `dynamic_shapes`."""
    import torch
    from torch.utils import _pytree as pytree

    def is_child(x: Any) -> bool:
        return x is not value

    children, spec = pytree.tree_flatten(value, is_leaf=is_child)
    if isinstance(value, torch.Tensor):
        yield name, value, shapes
    elif not spec.is_leaf():
        for i, (child, text) in enumerate(zip(children, leaf_names(spec, name), strict=True)):
            key = spec.context[i] if spec.type is dict else i
            yield from _leaves(text, child, _part(shapes, key, i))


def _part(shapes: Any, key: Any, index: int) -> Any:
    """The part of `dynamic_shapes` for an item of a tree."""
    if isinstance(shapes, Mapping):
        return cast(Mapping[Any, Any], shapes).get(key)
    if isinstance(shapes, list | tuple) and index < len(cast(Sequence[Any], shapes)):
        return cast(Sequence[Any], shapes)[index]
    return None


def _names_of(name: str, x: torch.Tensor, shapes: Any) -> dict[int, str]:
    """The names of the dimensions of a tensor; raises NnefError for axes that it does not have."""
    if isinstance(shapes, list | tuple):
        shapes = dict(enumerate(cast(Sequence[Any], shapes)))
    if not isinstance(shapes, Mapping):
        return {}
    found: dict[int, str] = {}
    for axis, dimension in cast(Mapping[Any, Any], shapes).items():
        if not isinstance(axis, int) or not 0 <= axis < x.ndim:
            message = f"dynamic_shapes: argument '{name}' of rank {x.ndim} has no axis {axis!r}"
            raise NnefError.of("input/argument", message, hint=_EXAMPLE)
        text = getattr(dimension, "__name__", "")
        if _NAME.fullmatch(text) and text not in KEYWORDS:
            found[axis] = text
    return found
