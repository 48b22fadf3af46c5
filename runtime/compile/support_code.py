"""The native functions that are no kernels: the executor, and calls of small models.

They are the same for all models.  A process compiles them when it needs them first, unless it has
loaded an artifact before, which brings them along.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal

from nnefc.kernels import abi
from nnefc.kernels.abi import LIBM
from nnefc.kernels.codegen.image import Image
from nnefc.kernels.executor import call_state, team_state
from nnefc.kernels.parameters import Layout
from nnefc.packing import VERSION as PACKING_VERSION
from nnefc.runtime.compile.executable_memory import ExecutableImage
from nnefc.support.digests import blake2b
from nnefc.support.sources import source_file
from nnefc.support.version import VERSION

if TYPE_CHECKING:
    from nnefc.runtime.compile.unit import Function

Part = Literal["executor", "fast_call"]
PARTS: Final[tuple[Part, ...]] = ("executor", "fast_call")
"""Modules of `nnefc.kernels.executor`."""

_codes: dict[Part, ExecutableImage] = {}
"""Nothing is replaced: threads may be in it."""


def functions(part: Part) -> list[Function]:
    """What is compiled."""
    from nnefc.runtime.compile.unit import Function

    return [Function(*each) for each in import_module(f"nnefc.kernels.executor.{part}").FUNCTIONS]


def code(part: Part) -> ExecutableImage:
    """Its image, which stays in memory as long as the process."""
    found = _codes.get(part)
    if found is None:
        found = _codes.setdefault(part, ExecutableImage(images([part])[0]))
    return found


def images(parts: Sequence[Part]) -> list[Image]:
    """Compiled and linked, each for itself."""
    from nnefc.kernels.codegen.linker import link
    from nnefc.runtime.compile.kernel_compiler import object_codes

    return [link(object_codes(functions(part))) for part in parts]


def provide(part: Part, image: Image) -> None:
    """Use an image from a file, whose `interface` is that of this process, if there is none yet."""
    if part not in _codes:
        _codes.setdefault(part, ExecutableImage(image))


_AGREEING: Final = (
    "kernels.executor.executor",
    "kernels.executor.fast_call",
    "kernels.vector.memory",
    "runtime.run.fast_call",
    "runtime.run.team",
)
"""Modules that mean the same by the same words and offsets."""


def _source(module: str) -> str:
    """A digest of the source of a module; empty where there is none."""
    try:
        with open(source_file(module), "rb") as file:
            return blake2b(file.read(), digest_size=16).hexdigest()
    except OSError:
        return ""


@cache
def interface() -> str:
    """A digest of what plans, native functions and Python have to agree on."""
    facts = [("nnefc", VERSION), ("packing", str(PACKING_VERSION))]
    facts += [(name, _source(name)) for name in _AGREEING]
    for module in (abi, call_state, team_state):
        for name, value in sorted(vars(module).items()):
            if isinstance(value, Layout):
                facts.append((name, str(value.offsets)))
            elif isinstance(value, int):
                facts.append((name, str(value)))
    return blake2b(repr((facts, LIBM)).encode(), digest_size=16).hexdigest()
