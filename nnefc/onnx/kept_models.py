"""Compiled models that are kept for other calls."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Generic, TypeVar

M = TypeVar("M")


class KeptModels(Generic[M]):
    """The models of the latest calls, by what they were compiled for; threads may share it."""

    def __init__(self, most: int) -> None:
        """`most`: models that are kept."""
        self._most = most
        self._models: OrderedDict[Hashable, M] = OrderedDict()

    def get(self, key: Hashable, compiled: Callable[[], M]) -> M:
        """The model for `key`; if there is none, that which `compiled` returns."""
        model = self._models.get(key)
        if model is None:
            model = self._models[key] = compiled()
        with suppress(KeyError):  # another thread has dropped it
            self._models.move_to_end(key)
        if len(self._models) > self._most:
            self._models.popitem(last=False)
        return model
