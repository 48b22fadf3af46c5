"""Kernels whose object code is shipped in the wheel; a checkout has none.

The folder of this module holds a pack (`pack_file`) per row of `kernels.target.isa.TABLE`, which is
mapped on first use and never written.  A pack that cannot be used is reported once, and its kernels
are compiled.  `NNEFC_SHIPPED=off` ignores all packs.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from nnefc.formats.files import printable, reason
from nnefc.kernels.family import Kernel
from nnefc.runtime.compile.compile_unit import CompileUnit, shipped_key_of
from nnefc.runtime.machine.resources import uses_shipped
from nnefc.runtime.shipped.pack_file import SUFFIX, Pack, UnusablePack
from nnefc.support.errors import Diagnostic, warn
from nnefc.support.package import PACKAGE

if TYPE_CHECKING:
    from nnefc.kernels.target.isa import Isa

FOLDER: Final = "runtime/shipped"
"""The folder of packs in the package."""

_packs: dict[str, Pack | None] = {}
"""Opened packs by path; None if there is none, or it cannot be used."""
_lock = threading.Lock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def load_shipped(unit: CompileUnit, isa: Isa) -> bytes | None:
    """The object code of a unit for `isa`; None if neither it nor a substitute is shipped."""
    pack = _pack(isa)
    if pack is None:
        return None
    try:
        for other in _candidates(unit):
            key = shipped_key_of(other, isa)
            if key and (code := pack.code(key)):
                return _renamed(code, other.symbol, unit.symbol)
    except UnusablePack as error:
        _leave_aside(_path(isa), str(error))
    return None


def is_shipped(unit: CompileUnit, isa: Isa) -> bool:
    """Whether the pack for `isa` has undamaged object code of a unit or of a substitute."""
    return load_shipped(unit, isa) is not None


def _candidates(unit: CompileUnit) -> Iterator[CompileUnit]:
    """The unit, then kernels that may run in its place."""
    yield unit
    if isinstance(unit, Kernel):
        yield from unit.substitutes()


def _renamed(code: bytes, old: str, new: str) -> bytes:
    """Object code that defines another symbol; those of a family have the same length."""
    return code if old == new else code.replace(old.encode(), new.encode())


def _pack(isa: Isa) -> Pack | None:
    """The pack of a row; None if there is none, it cannot be used, or packs are ignored."""
    if not uses_shipped():
        return None
    path = _path(isa)
    if path not in _packs:
        with _lock:
            if path not in _packs:
                _packs[path] = _open(path)
    return _packs[path]


def _path(isa: Isa) -> str:
    return os.path.join(PACKAGE, *FOLDER.split("/"), f"{isa.name}{SUFFIX}")


def _open(path: str) -> Pack | None:
    try:
        with open(path, "rb") as file:
            return Pack(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # ValueError: the file is empty
        _warn(path, reason(error))
    except UnusablePack as error:
        _warn(path, str(error))
    return None


def _leave_aside(path: str, why: str) -> None:
    """Ignore a pack from now on; reports why, unless another thread has."""
    with _lock:
        before, _packs[path] = _packs[path], None
    if before is not None:
        _warn(path, why)


def _warn(path: str, why: str) -> None:
    message = f"shipped kernels in {printable(path)} cannot be used: {why}"
    hint = "install nnefc again; until then kernels are compiled on this machine"
    warn(Diagnostic("internal/shipped", message, severity="warning", hint=hint))
