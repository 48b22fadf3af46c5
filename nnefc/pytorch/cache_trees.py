"""Caches of keys and values of transformers as trees of tensors, as `torch.export` takes them."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false
# (caches have attributes of any types)

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

_MODULE: Final = "transformers.cache_utils"
_CACHES: Final = ("DynamicCache", "StaticCache", "EncoderDecoderCache")


class _Outline:
    """An object without its tensors: its class, and its attributes in which tensors are `None`."""

    def __init__(self, kind: Any, attributes: dict[str, Any]) -> None:
        self._kind = kind
        self._attributes = attributes

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Outline)
            and self._kind is other._kind
            and self._attributes == other._attributes
        )

    def __hash__(self) -> int:
        return hash((self._kind, *self._attributes))

    def __repr__(self) -> str:
        return self._kind.__name__

    def filled(self, tensors: Iterator[Any]) -> Any:
        """An object with these tensors in order."""
        made = self._kind.__new__(self._kind)
        for name, value in self._attributes.items():
            setattr(made, name, _filled(value, tensors))
        return made


_TENSOR: Final = "<tensor>"


def register_caches() -> None:
    """Register the caches of transformers with PyTorch's pytree, if that package is loaded."""
    module: Any = sys.modules.get(_MODULE)
    if module is None:
        return
    from torch.utils import _pytree as pytree

    register: Any = pytree.register_pytree_node
    for name in _CACHES:
        cache = getattr(module, name, None)
        if cache is None or cache in pytree.SUPPORTED_NODES:
            continue
        register(
            cache,
            _flattened,
            _unflattened,
            serialized_type_name=f"{_MODULE}.{name}",
            flatten_with_keys_fn=_flattened_with_keys,
        )


def _flattened(cache: Any) -> tuple[list[Any], _Outline]:
    tensors: list[Any] = []
    return tensors, _outline(cache, tensors)


def _flattened_with_keys(cache: Any) -> tuple[list[tuple[Any, Any]], _Outline]:
    from torch.utils import _pytree as pytree

    tensors, outline = _flattened(cache)
    return [(pytree.SequenceKey(i), x) for i, x in enumerate(tensors)], outline


def _unflattened(tensors: Iterable[Any], outline: _Outline) -> Any:
    return outline.filled(iter(tensors))


def _outline(value: Any, tensors: list[Any]) -> Any:
    """A value of a cache without its tensors, which are appended to a list."""
    import torch

    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return _TENSOR
    if isinstance(value, list | tuple):
        return [_outline(each, tensors) for each in value]
    if isinstance(value, dict):
        return {name: _outline(each, tensors) for name, each in value.items()}
    if type(value).__module__ == _MODULE:
        attributes = {name: _outline(each, tensors) for name, each in vars(value).items()}
        return _Outline(type(value), attributes)
    return value


def _filled(value: Any, tensors: Iterator[Any]) -> Any:
    """The value of an outline, with tensors in order."""
    if isinstance(value, _Outline):
        return value.filled(tensors)
    if isinstance(value, list):
        return [_filled(each, tensors) for each in value]
    if isinstance(value, dict):
        return {name: _filled(each, tensors) for name, each in value.items()}
    return next(tensors) if value is _TENSOR else value
