"""Addresses of the functions of the C library."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
from collections.abc import Callable
from typing import Any

import pytest

from nnefc.kernels.abi import LIBM
from nnefc.runtime.compile import c_library
from nnefc.support.errors import NnefError

make: Callable[[], Any] = c_library.libm_table.__wrapped__


def check(table: Any) -> None:
    for address, (name, arity) in zip(table, LIBM, strict=True):
        function = ctypes.CFUNCTYPE(*[ctypes.c_double] * (arity + 1))(address)
        values = (1.25,) if name == "acosh" else (0.75, 1.5)[:arity]
        assert function(*values) == pytest.approx(getattr(math, name)(*values), rel=1e-15)


def test_every_address_belongs_to_its_function() -> None:
    check(c_library.libm_table())


def test_a_library_that_the_process_has_not_loaded_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load = ctypes.CDLL

    def without(library: str | None) -> Any:
        return load(library) if library else object()

    monkeypatch.setattr(ctypes, "CDLL", without)
    check(make())
    monkeypatch.setattr(ctypes.util, "find_library", lambda _: None)  # pyright: ignore[reportUnknownLambdaType,reportUnknownArgumentType]
    with pytest.raises(NnefError, match="no C library") as caught:
        make()
    assert caught.value.errors[0].rule == "internal/libm"
