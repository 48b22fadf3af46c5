"""Object code on disk, shared by all models and processes of a user.

An entry is named by a digest of everything that its code depends on: the kernel, the sources of
the modules that write it, the processor, and the versions of what translates it.  An entry
that is damaged, or that cannot be read or written, is as good as none: kernels are compiled again.

`NNEFC_CACHE` names another folder, or is `off`.  An entry is machine code: the folder must belong
to the user and to nobody else, otherwise it is not used.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import stat
import tempfile
from dataclasses import astuple
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from nnefc.kernels import template
from nnefc.kernels.isa import NATIVE, Isa
from nnefc.kernels.processor import identity

MAGIC: Final = b"nnefc object 1\n"
DIGEST_BYTES: Final = 32
_KERNELS: Final = Path(template.__file__).parent
_IMPORT: Final = re.compile(
    rb"^[ \t]*(?:from|import) nnefc\.kernels(?:\.(\w+)| import (\((?:[^)#]|#.*)*\)|.*))", re.M
)
"""A statement that imports a kernel module, or several by name."""
_NAME: Final = re.compile(rb"#.*|(\w+)(?:\s+as\s+\w+)?")


def find(key: str) -> bytes | None:
    """The object code of an entry; None if there is none, or none that is whole."""
    data = read(key) or b""
    head, digest = len(MAGIC), len(MAGIC) + DIGEST_BYTES
    code = data[digest:]
    whole = data[:head] == MAGIC and data[head:digest] == _digest(code)
    return code if whole else None


def keep(key: str, code: bytes) -> None:
    """Store an entry, whole or not at all; silently nothing where that is impossible."""
    write(key, MAGIC + _digest(code) + code)


def read(name: str) -> bytes | None:
    """What a file of the cache holds; None if it cannot be read."""
    folder = _folder()
    if folder is None:
        return None
    try:
        return (folder / name).read_bytes()
    except OSError:
        return None


def write(name: str, data: bytes) -> bool:
    """Write a file of the cache, whole or not at all; whether that was possible."""
    folder = _folder()
    if folder is None:
        return False
    try:
        handle, partial = tempfile.mkstemp(prefix=".", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(partial).replace(folder / name)
        except BaseException:
            Path(partial).unlink()
            raise
    except OSError:
        return False
    return True


def key_of(module: str, what: str, isa: Isa) -> str | None:
    """The name of the entry for `what`, written by kernel module `module`, on a machine.

    None if the module is none of ours: what it depends on is not known.
    """
    sources = _sources(module)
    if not sources:
        return None
    processor = identity() if isa.cpu == NATIVE else ""
    facts = (what, sources, repr(astuple(isa)), processor, *_translators())
    return hashlib.blake2b("\0".join(facts).encode(), digest_size=DIGEST_BYTES).hexdigest()


def _digest(code: bytes) -> bytes:
    return hashlib.blake2b(code, digest_size=DIGEST_BYTES).digest()


@cache
def _translators() -> tuple[str, ...]:
    """Versions of what makes code of kernels."""
    return (platform.python_version(), *map(_version, ("numba", "llvmlite")))


def _version(package: str) -> str:
    """The name of the folder that says which version of a package is installed, or the version.

    The first is found without `importlib.metadata`, which takes long to load.
    """
    spec = find_spec(package)
    if spec is not None and spec.origin is not None:
        folders = list(Path(spec.origin).parents[1].glob(f"{package}-*.dist-info"))
        if len(folders) == 1:
            return folders[0].name
    from importlib.metadata import version

    return version(package)


@cache
def _sources(module: str) -> str:
    """Digest of the source of a kernel module and of all kernel modules that it reaches.

    Empty if there is no such module.
    """
    if _source(module) is None:
        return ""
    found: dict[str, bytes] = {}
    waiting = {module, "codegen"}
    while waiting:
        name = waiting.pop()
        source = _source(name)
        if source is not None:
            found[name] = source.digest
            waiting |= source.imports - found.keys()
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for name in sorted(found):
        digest.update(name.encode() + b"\0" + found[name])
    return digest.hexdigest()


class _Source(NamedTuple):
    digest: bytes
    imports: frozenset[str]
    """Names of kernel modules; may hold other names."""


@cache
def _source(module: str) -> _Source | None:
    """The source of a kernel module; None if there is no such module."""
    try:
        text = (_KERNELS / f"{module}.py").read_bytes()
    except FileNotFoundError:
        return None
    imports: set[bytes] = set()
    for one, several in _IMPORT.findall(text):
        imports.update([one] if one else _NAME.findall(several))
    return _Source(_digest(text), frozenset(name.decode() for name in imports if name))


@cache
def _folder() -> Path | None:
    """Where entries are; None if there is no folder that only the user can write."""
    place = os.environ.get("NNEFC_CACHE")
    if place == "off":
        return None
    if place is None:
        from platformdirs import user_cache_path

        path = user_cache_path("nnefc") / "kernels"
    else:
        path = Path(place)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except OSError:
        return None
    if os.name == "posix":
        others = stat.S_IWGRP | stat.S_IWOTH
        if status.st_uid != os.getuid() or status.st_mode & others:
            return None
    return path
