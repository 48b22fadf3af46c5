"""The native functions that are no kernels: the executor, and calls of small models.

They are the same for all models.  A process compiles them when it needs them first, unless it has
loaded an artifact before, which brings them along.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal

from nnefc.kernels import abi, call_state, team_state
from nnefc.kernels.linker import Image, link
from nnefc.kernels.scalar import LIBM
from nnefc.kernels.template import Layout
from nnefc.packing import VERSION
from nnefc.runtime.code import Code

if TYPE_CHECKING:
    from nnefc.runtime.objects import Function

Part = Literal["executor", "fast_call"]
PARTS: Final[tuple[Part, ...]] = ("executor", "fast_call")
"""Modules of `nnefc.kernels`."""

_codes: dict[Part, Code] = {}
_lock = threading.Lock()


def functions(part: Part) -> list[Function]:
    """What is compiled."""
    from nnefc.runtime.objects import Function

    return [Function(*each) for each in import_module(f"nnefc.kernels.{part}").FUNCTIONS]


def code(part: Part) -> Code:
    """Its image, which stays in memory as long as the process."""
    found = _codes.get(part)
    if found is None:
        made = Code(images([part])[0])
        with _lock:
            found = _codes.setdefault(part, made)
    return found


def images(parts: Sequence[Part]) -> list[Image]:
    """Compiled and linked, each for itself."""
    from nnefc.runtime.objects import object_codes

    return [link(object_codes(functions(part))) for part in parts]


def provide(part: Part, image: Image) -> None:
    """Use an image from a file, whose `interface` is that of this process, if there is none yet."""
    with _lock:
        if part not in _codes:
            _codes[part] = Code(image)


@cache
def interface() -> str:
    """A digest of what plans, native functions and Python have to agree on."""
    facts = [("packing", str(VERSION))]
    for module in (abi, call_state, team_state):
        for name, value in sorted(vars(module).items()):
            if isinstance(value, Layout):
                facts.append((name, str(value.offsets)))
            elif isinstance(value, int):
                facts.append((name, str(value)))
    return hashlib.blake2b(repr((facts, LIBM)).encode(), digest_size=16).hexdigest()
