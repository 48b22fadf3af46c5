"""Attributes that a model of one class lacks and one of the other class has."""

from __future__ import annotations

from typing import Any, Protocol

from nnefc.support.errors import NnefError


class NoSuchAttribute(NnefError, AttributeError):
    """The error of an attribute that only another class of models has; `hasattr` is False."""


class _Refusing(Protocol):
    def refusal(self, what: str) -> NnefError: ...


class RefusedAttribute:
    """An attribute that a class lacks; reading it raises NoSuchAttribute with the `refusal`."""

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, model: _Refusing | None, _: type) -> Any:
        if model is None:
            return self
        raise NoSuchAttribute(model.refusal(self._name).errors)


def refused_names(cls: type) -> set[str]:
    """The names of the attributes that a class of models lacks."""
    return {
        name
        for base in cls.__mro__
        for name, value in vars(base).items()
        if isinstance(value, RefusedAttribute)
    }
