"""Native functions other than kernels: the executor, and calls of small models.

All models share them.  Artifacts contain them; a process that has loaded none compiles them on
first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal

from nnefc.kernels.codegen import Image
from nnefc.kernels.parameters import Layout
from nnefc.runtime.compile.executable_memory import ExecutableImage
from nnefc.support.digests import blake2b
from nnefc.support.package import PACKING_VERSION, VERSION, source_file

if TYPE_CHECKING:
    from nnefc.runtime.compile.compile_unit import Function

SupportModule = Literal["executor", "fast_call"]
SUPPORT_MODULES: Final[tuple[SupportModule, ...]] = ("executor", "fast_call")
"""Modules of `nnefc.kernels.executor`."""

_images: dict[SupportModule, ExecutableImage] = {}
"""Entries are never replaced: threads may be executing them."""


def functions(module: SupportModule) -> list[Function]:
    """The functions of a module as compilation units."""
    from nnefc.runtime.compile.compile_unit import Function

    source = import_module(f"nnefc.kernels.executor.{module}")
    return [Function(*each) for each in source.FUNCTIONS]


def all_functions() -> list[Function]:
    """The functions of all modules as compilation units."""
    return [each for module in SUPPORT_MODULES for each in functions(module)]


def support_image(module: SupportModule) -> ExecutableImage:
    """The image of a module, compiled on first use; it stays in memory as long as the process."""
    image = _images.get(module)
    if image is None:
        image = _images.setdefault(module, ExecutableImage(images([module])[0]))
    return image


def images(modules: Sequence[SupportModule]) -> list[Image]:
    """The images of modules, each compiled and linked separately."""
    from nnefc.kernels.codegen.linker import link
    from nnefc.runtime.compile.kernel_compiler import object_codes

    return [link(object_codes(functions(module))) for module in modules]


def preload_image(module: SupportModule, image: Image) -> None:
    """Use an image from an artifact with equal `abi_digest`, unless the module is loaded."""
    if module not in _images:
        _images.setdefault(module, ExecutableImage(image))


_ABI_MODULES: Final = (
    "kernels.abi",
    "kernels.executor.call_state",
    "kernels.executor.call_status",
    "kernels.executor.clock",
    "kernels.executor.executor",
    "kernels.executor.fast_call",
    "kernels.executor.team_state",
    "kernels.parameters",
    "kernels.vector.memory",
    "runtime.run.fast_call",
    "runtime.run.team",
)
"""Modules that define or use the layout of plans and of the state of native functions."""


def _interface(module: str) -> str:
    """A digest of the source of a module; without sources, its integers and layouts."""
    try:
        with open(source_file(module), "rb") as file:
            return blake2b(file.read(), digest_size=16).hexdigest()
    except OSError:
        values = sorted(vars(import_module(f"nnefc.{module}")).items())
        numbers = [(name, value) for name, value in values if isinstance(value, int)]
        layouts = [(name, value.offsets) for name, value in values if isinstance(value, Layout)]
        return repr((numbers, layouts))


@cache
def abi_digest() -> str:
    """A digest of the binary interface between plans, native functions and Python."""
    facts = [(name, _interface(name)) for name in _ABI_MODULES]
    return blake2b(repr((VERSION, PACKING_VERSION, facts)).encode(), digest_size=16).hexdigest()
