"""Cache keys: the facts on which the object code of a kernel depends.

Facts of the kernel are its family and arguments.  Facts of its module are shared by many kernels:
the sources of all modules that it reaches, which include the options of code generation
(`kernels/codegen/object_code.py`), the instruction set, the processor, and the versions of Python,
numba and llvmlite.  The name of an entry is a digest of all facts.

Shipped object code has keys of its own.  It is compiled for all processors of one row of the table
of instruction sets (`kernels/target/isa.py`), so its key leaves out processor and versions, and
depends on kernel, row and sources only.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.machinery import PathFinder
from typing import Any, Final, NamedTuple

from nnefc.kernels.family import Kernel
from nnefc.kernels.target.isa import NATIVE, TABLE, Isa
from nnefc.kernels.target.processor import identity
from nnefc.support.digests import blake2b
from nnefc.support.package import VERSION, source_file

FORMAT: Final = 2
"""Version of the entry format; a fact too, so that names differ between formats."""
SOURCE: Final = "source "
"""Prefix of the names of facts that are digests of source files."""
NOT_INSTALLED: Final = "not installed"
INSTRUCTIONS: Final = "instruction set"
_NAME_BYTES: Final = 32
_FACT_BYTES: Final = 8
_ALWAYS: Final = "kernels.codegen.object_code"
"""The module that compiles every kernel."""
_KERNELS: Final = "nnefc.kernels."
_WITHOUT_CODE: Final = frozenset({"support.errors", "symbolic.sym_int_base"})
"""Modules that kernel modules import but that do not affect object code."""
_IMPORT: Final = (
    rb"^[ \t]*(?:from|import) nnefc(?:\.(\w+(?:\.\w+)*))?"
    rb"(?:[ \t]+import[ \t]+(\((?:[^)#]|#.*)*\)|.*))?"
)
"""An import statement of modules of nnefc."""
_IMPORTED: Final = rb"#.*|(\w+)(?:\s+as\s+\w+)?"
_OPTIONAL: Final = (
    "halves",
    "byte_dot",
    "byte_permute",
    "byte_squares",
    "bfloat16_dot",
    "float16_fma",
    "matrix_dot",
    "matrix_byte_dot",
)
"""Fields of `Isa` that differ between processors of one row of the table of instruction sets."""
_READS_OPTIONAL: Final = rb"\b(?!Isa\b|self\b)\w+(?:\(\))?\.(%b)\b" % "|".join(_OPTIONAL).encode()
"""An expression that reads such a field, as in `host().halves`."""

Facts = Mapping[str, str]


class ModuleDependencies:
    """The facts that all kernels of a module share, by name, and their digest."""

    __slots__ = ("digest", "facts")

    def __init__(self, facts: Facts, digest: bytes) -> None:
        self.facts = facts
        self.digest = digest


class Key(NamedTuple):
    """The facts on which the code of one kernel depends."""

    family: str
    arguments: str
    dependencies: ModuleDependencies
    name: str
    """Name of the cache entry: hexadecimal digits."""

    @property
    def facts(self) -> dict[str, str]:
        """All facts by name."""
        return {"family": self.family, "arguments": self.arguments, **self.dependencies.facts}


def key_of_kernel(kernel: Kernel, isa: Isa) -> Key | None:
    """The key of a kernel for `isa`; None if it cannot be cached."""
    return key_of(kernel.family, kernel.variant, isa)


def key_of_function(symbol: str, function: Callable[..., Any], isa: Isa) -> Key | None:
    """The key of a function that is exported as `symbol`; None outside `nnefc.kernels`."""
    name = function_name(symbol, function)
    return None if name is None else key_of(name, "", isa)


def function_name(symbol: str, function: Callable[..., Any]) -> str | None:
    """The `module.symbol` that stands for a family in keys; None outside `nnefc.kernels`."""
    module = function.__module__
    return f"{module.removeprefix(_KERNELS)}.{symbol}" if module.startswith(_KERNELS) else None


def key_of(family: str, arguments: str, isa: Isa) -> Key | None:
    """The key of a kernel whose family or function is `module.name`.

    None if the module is not part of `nnefc.kernels`, since its dependencies are unknown.
    """
    dependencies = module_dependencies(family.rpartition(".")[0], isa)
    if dependencies is None:
        return None
    text = f"{family}\0{arguments}".encode()
    name = blake2b(text, digest_size=_NAME_BYTES, key=dependencies.digest).hexdigest()
    return Key(family, arguments, dependencies, name)


def shipped_key(family: str, arguments: str, isa: Isa) -> bytes | None:
    """The key of shipped object code for a kernel, as `key_of`; 32 bytes.

    None if the module is not part of `nnefc.kernels`, or if no processor of the row is like `isa`.
    """
    digest = _row_digest(family.rpartition(".")[0], isa)
    text = f"{family}\0{arguments}".encode()
    return digest and blake2b(text, digest_size=_NAME_BYTES, key=digest).digest()


def shipped_row(family: str, isa: Isa) -> Isa | None:
    """The instruction set that shipped code of a kernel is compiled for; None as `shipped_key`.

    It has the optional fields of `isa` that a source reads, so most kernels have one for all
    processors of one row of the table of instruction sets.
    """
    return _shipped_row(family.rpartition(".")[0], isa)


@cache
def _shipped_row(module: str, isa: Isa) -> Isa | None:
    row = TABLE.get(isa.name)
    optional = {name: getattr(isa, name) for name in _OPTIONAL}
    if row is None or row._replace(**optional) != isa._replace(cpu=row.cpu):
        return None
    modules = _reached(f"kernels.{module}")
    read = {name for source in modules.values() for name in source.optional}
    return row._replace(**{name: optional[name] for name in read}) if modules else None


@cache
def _row_digest(module: str, isa: Isa) -> bytes | None:
    """A digest of what the code of a module's kernels for `_shipped_row` depends on."""
    row = _shipped_row(module, isa)
    if row is None:
        return None
    text = json.dumps([row._asdict(), _sources(f"kernels.{module}")], sort_keys=True)
    return blake2b(text.encode(), digest_size=_NAME_BYTES).digest()


@cache
def module_dependencies(module: str, isa: Isa) -> ModuleDependencies | None:
    """The dependencies of a kernel module; None if the module does not exist."""
    sources = _sources(f"kernels.{module}")
    if not sources:
        return None
    facts = {**environment_facts(isa), **sources}
    text = json.dumps(facts, sort_keys=True).encode()
    return ModuleDependencies(facts, blake2b(text, digest_size=_NAME_BYTES).digest())


def environment_facts(isa: Isa) -> Facts:
    """The facts that all kernels share: the instruction set, the processor and the versions."""
    rows: dict[str, Any] = isa._asdict()
    return {
        "format": str(FORMAT),
        **{f"{INSTRUCTIONS}: {name}": str(value) for name, value in rows.items()},
        "processor": _short(identity().encode()) if isa.cpu == NATIVE else "",
        # numba translates Python's bytecode, which differs between versions.
        "python": sys.implementation.cache_tag or platform.python_version(),
        "numba": version_of("numba"),
        "llvmlite": version_of("llvmlite"),
        "nnefc": VERSION,
    }


def _short(data: bytes) -> str:
    return blake2b(data, digest_size=_FACT_BYTES).hexdigest()


@cache
def version_of(package: str) -> str:
    """The version of a package, or `NOT_INSTALLED`.

    Read from the name of its `.dist-info` folder, because `importlib.metadata` loads slowly.
    """
    spec = PathFinder.find_spec(package)
    if spec is None:  # another finder may have it
        from importlib.util import find_spec

        spec = find_spec(package)
    if spec is None:
        return NOT_INSTALLED
    if spec.origin is not None:
        start, end = f"{package}-", ".dist-info"
        names = os.listdir(os.path.dirname(os.path.dirname(spec.origin)))
        folders = [name for name in names if name.startswith(start) and name.endswith(end)]
        if len(folders) == 1:
            return folders[0].removeprefix(start).removesuffix(end)
    from importlib.metadata import version

    return version(package)


def _sources(module: str) -> Facts:
    """A fact for each source that a module reaches; empty if the module does not exist."""
    modules = _reached(module)
    return {
        f"{SOURCE}{name.replace('.', '/')}.py": modules[name].digest for name in sorted(modules)
    }


def _reached(module: str) -> Mapping[str, _ModuleSource]:
    """Each source that a module reaches, by module; empty if the module does not exist."""
    if _source(module) is None:
        return {}
    reached: dict[str, _ModuleSource] = {}
    waiting = {module, _ALWAYS}
    while waiting:
        name = waiting.pop()
        source = _source(name)
        if source is not None:
            reached[name] = source
            waiting |= source.imports - reached.keys()
    return reached


class _ModuleSource(NamedTuple):
    digest: str
    imports: frozenset[str]
    """Names of modules below nnefc; may include names that are not modules."""
    optional: frozenset[str]
    """The fields of `_OPTIONAL` that it reads."""


@cache
def _source(module: str) -> _ModuleSource | None:
    """The source of a module; None if it does not exist or does not affect object code."""
    if module in _WITHOUT_CODE:
        return None
    try:
        with open(source_file(module), "rb") as file:
            text = file.read()
    except OSError:
        return None
    optional = (name.decode() for name in re.findall(_READS_OPTIONAL, text))
    return _ModuleSource(_short(text), frozenset(_imports(text)), frozenset(optional))


def _imports(text: bytes) -> Iterable[str]:
    """Names of modules of nnefc that a source may import."""
    for package, names in re.findall(_IMPORT, text, re.M):
        module = package.decode()
        if module:
            yield module
        for name in re.findall(_IMPORTED, names):
            if name:
                yield f"{module}.{name.decode()}" if module else name.decode()
