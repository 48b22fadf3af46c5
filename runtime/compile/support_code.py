"""Native functions other than kernels: the executor, and calls of small models.

All models share them.  A process compiles them on first use, unless it has loaded an artifact,
which contains them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal

from nnefc.kernels.abi import Image
from nnefc.runtime.compile.executable_memory import ExecutableImage
from nnefc.support.digests import blake2b
from nnefc.support.package import VERSION, source_file

if TYPE_CHECKING:
    from nnefc.runtime.compile.unit import Function

SupportModule = Literal["executor", "fast_call"]
SUPPORT_MODULES: Final[tuple[SupportModule, ...]] = ("executor", "fast_call")
"""Modules of `nnefc.kernels.executor`."""

_codes: dict[SupportModule, ExecutableImage] = {}
"""Entries are never replaced: threads may be executing them."""


def functions(part: SupportModule) -> list[Function]:
    """The functions of a module, to be compiled."""
    from nnefc.runtime.compile.unit import Function

    return [Function(*each) for each in import_module(f"nnefc.kernels.executor.{part}").FUNCTIONS]


def support_image(part: SupportModule) -> ExecutableImage:
    """The image of a module, which stays in memory as long as the process."""
    found = _codes.get(part)
    if found is None:
        found = _codes.setdefault(part, ExecutableImage(images([part])[0]))
    return found


def images(parts: Sequence[SupportModule]) -> list[Image]:
    """The images of modules, each compiled and linked separately."""
    from nnefc.kernels.codegen.linker import link
    from nnefc.runtime.compile.kernel_compiler import object_codes

    return [link(object_codes(functions(part))) for part in parts]


def provide(part: SupportModule, image: Image) -> None:
    """Use an image from a file with the same `abi_digest`, unless the module is loaded already."""
    if part not in _codes:
        _codes.setdefault(part, ExecutableImage(image))


_AGREEING: Final = (
    "kernels.abi",
    "kernels.executor.call_state",
    "kernels.executor.executor",
    "kernels.executor.fast_call",
    "kernels.executor.team_state",
    "kernels.parameters",
    "kernels.vector.memory",
    "runtime.run.fast_call",
    "runtime.run.team",
)
"""Modules that define, or rely on, the layout of plans and of the state of native functions."""


def _source(module: str) -> str:
    """A digest of the source of a module; empty where there is none."""
    try:
        with open(source_file(module), "rb") as file:
            return blake2b(file.read(), digest_size=16).hexdigest()
    except OSError:
        return ""


@cache
def abi_digest() -> str:
    """A digest of the binary interface between plans, native functions and Python."""
    facts = [("nnefc", VERSION), *((name, _source(name)) for name in _AGREEING)]
    return blake2b(repr(facts).encode(), digest_size=16).hexdigest()
