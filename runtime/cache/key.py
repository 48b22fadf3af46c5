"""What the object code of a kernel depends on, as named facts, and the name of its cache entry.

Facts are those of the kernel (family, arguments) and those of its *surroundings*, which many
kernels share: the sources of the modules that write it, options of code generation included
(`kernels/codegen/object_code.py`), the instruction set, the processor, the versions of what
translates it. An entry is named by a digest of all of them, so that a change of any gives another
name.
"""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from nnefc.kernels.target.isa import NATIVE, Isa
from nnefc.kernels.target.processor import identity
from nnefc.kernels.template import Kernel
from nnefc.support.digests import blake2b
from nnefc.support.package import VERSION, source_file

FORMAT: Final = 2
"""Of the entries; a fact like the others, so that the names of two formats differ."""
SOURCE: Final = "source "
"""What the names of facts begin with that are digests of sources; then comes the file."""
INSTRUCTIONS: Final = "instruction set"
_NAME_BYTES: Final = 32
_FACT_BYTES: Final = 8
_ALWAYS: Final = "kernels.codegen.object_code"
"""Reached by every kernel: what makes object code of it."""
_KERNELS: Final = "nnefc.kernels."
_WITHOUT_CODE: Final = frozenset({"support.errors", "symbolic.base"})
"""Modules that kernel modules import, and that no code depends on."""
_IMPORT: Final = re.compile(
    rb"^[ \t]*(?:from|import) nnefc(?:\.(\w+(?:\.\w+)*))?"
    rb"(?:[ \t]+import[ \t]+(\((?:[^)#]|#.*)*\)|.*))?",
    re.M,
)
"""A statement that imports a module of ours, or several by name."""
_IMPORTED: Final = re.compile(rb"#.*|(\w+)(?:\s+as\s+\w+)?")

Facts = Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class ModuleDependencies:
    """What the code of all kernels of a module depends on, by name."""

    facts: Facts
    digest: bytes


@dataclass(frozen=True, slots=True)
class Key:
    """What the code of one kernel depends on."""

    family: str
    arguments: str
    surroundings: ModuleDependencies
    name: str
    """Of the entry: hexadecimal digits."""

    @property
    def facts(self) -> dict[str, str]:
        """All of them, by name."""
        return {"family": self.family, "arguments": self.arguments, **self.surroundings.facts}


def key_of_kernel(kernel: Kernel, isa: Isa) -> Key | None:
    """The key of a kernel on a machine; None: it has no place in the cache."""
    return key_of(kernel.family, repr(kernel.arguments), isa)


def key_of_function(symbol: str, function: Callable[..., Any], isa: Isa) -> Key | None:
    """The same of a function of a kernel module, exported as `symbol`."""
    module = function.__module__
    if not module.startswith(_KERNELS):
        return None
    return key_of(f"{module.removeprefix(_KERNELS)}.{symbol}", "", isa)


def key_of(family: str, arguments: str, isa: Isa) -> Key | None:
    """The key of a kernel whose family or function is `module.name`.

    None if the module is none of ours: what the code depends on is not known.
    """
    surroundings = module_dependencies(family.rpartition(".")[0], isa)
    if surroundings is None:
        return None
    text = f"{family}\0{arguments}".encode()
    name = blake2b(text, digest_size=_NAME_BYTES, key=surroundings.digest).hexdigest()
    return Key(family, arguments, surroundings, name)


@cache
def module_dependencies(module: str, isa: Isa) -> ModuleDependencies | None:
    """What the code of a kernel module depends on; None if there is no such module."""
    sources = _sources(f"kernels.{module}")
    if not sources:
        return None
    rows: dict[str, Any] = isa._asdict()
    facts = {
        "format": str(FORMAT),
        **{f"{INSTRUCTIONS}: {name}": str(value) for name, value in rows.items()},
        "processor": _short(identity().encode()) if isa.cpu == NATIVE else "",
        # The instructions that numba translates are those of a version of Python's bytecode.
        "python": sys.implementation.cache_tag or platform.python_version(),
        "numba": _version("numba"),
        "llvmlite": _version("llvmlite"),
        "nnefc": VERSION,
        **sources,
    }
    text = json.dumps(facts, sort_keys=True).encode()
    return ModuleDependencies(facts, blake2b(text, digest_size=_NAME_BYTES).digest())


def _short(data: bytes) -> str:
    return blake2b(data, digest_size=_FACT_BYTES).hexdigest()


@cache
def _version(package: str) -> str:
    """The version of a package that is installed.

    It is told by the name of a folder: `importlib.metadata` takes long to load.
    """
    spec = find_spec(package)
    if spec is not None and spec.origin is not None:
        folders = list(Path(spec.origin).parents[1].glob(f"{package}-*.dist-info"))
        if len(folders) == 1:
            return folders[0].name.removeprefix(f"{package}-").removesuffix(".dist-info")
    from importlib.metadata import version

    return version(package)


def _sources(module: str) -> Facts:
    """A fact for the source of a module and of each that it reaches; none if there is no such."""
    if _source(module) is None:
        return {}
    found: dict[str, str] = {}
    waiting = {module, _ALWAYS}
    while waiting:
        name = waiting.pop()
        source = _source(name)
        if source is not None:
            found[name] = source.digest
            waiting |= source.imports - found.keys()
    return {f"{SOURCE}{name.replace('.', '/')}.py": found[name] for name in sorted(found)}


class _ModuleSource(NamedTuple):
    digest: str
    imports: frozenset[str]
    """Names of modules, from our package on; may hold other names."""


@cache
def _source(module: str) -> _ModuleSource | None:
    """The source of a module; None if there is no such module, or no code depends on it."""
    if module in _WITHOUT_CODE:
        return None
    try:
        text = Path(source_file(module)).read_bytes()
    except OSError:
        return None
    return _ModuleSource(_short(text), frozenset(_imports(text)))


def _imports(text: bytes) -> Iterable[str]:
    """Modules that a source may import."""
    for package, names in _IMPORT.findall(text):
        module = package.decode()
        if module:
            yield module
        for name in _IMPORTED.findall(names):
            if name:
                yield f"{module}.{name.decode()}" if module else name.decode()
