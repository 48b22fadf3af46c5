"""Kernels whose object code is shipped in the wheel; a checkout has none.

The folder of this module holds a pack (`pack_file`) per row of `kernels.target.isa.TABLE`, which is
mapped on first use and never written.  A pack that cannot be used is reported once, and its kernels
are compiled.  `NNEFC_SHIPPED=off` ignores all packs.
"""

from __future__ import annotations

import mmap
import os
import threading
from typing import TYPE_CHECKING, Final

from nnefc.formats.files import printable, reason
from nnefc.runtime.shipped.pack_file import SUFFIX, Pack, UnusablePack
from nnefc.support.errors import Diagnostic, NnefError, warn
from nnefc.support.package import PACKAGE

if TYPE_CHECKING:
    from nnefc.kernels.target.isa import Isa
    from nnefc.runtime.compile.unit import CompileUnit

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
    """The object code of a unit for `isa`; None if it is not shipped."""
    pack = _pack(isa)
    if pack is None:
        return None
    from nnefc.runtime.compile.unit import shipped_key_of

    key = shipped_key_of(unit, isa)
    try:
        return pack.code(key) if key else None
    except UnusablePack as error:
        _leave_aside(_path(isa), str(error))
        return None


def is_shipped(unit: CompileUnit, isa: Isa) -> bool:
    """Whether the pack for `isa` has the object code of a unit; its digest is not compared."""
    from nnefc.runtime.compile.unit import shipped_key_of

    pack = _pack(isa)
    key = pack and shipped_key_of(unit, isa)
    return pack is not None and key is not None and key in pack


def _pack(isa: Isa) -> Pack | None:
    """The pack of a row; None if there is none, it cannot be used, or packs are ignored."""
    if _is_off():
        return None
    path = _path(isa)
    if path not in _packs:
        with _lock:
            if path not in _packs:
                _packs[path] = _open(path)
    return _packs[path]


def _path(isa: Isa) -> str:
    return os.path.join(PACKAGE, *FOLDER.split("/"), f"{isa.name}{SUFFIX}")


def _is_off() -> bool:
    """Whether `NNEFC_SHIPPED` disables packs; raises NnefError `input/environment`."""
    text = os.environ.get("NNEFC_SHIPPED", "")
    if text.lower() in ("", "on", "off"):
        return text.lower() == "off"
    raise NnefError.of(
        "input/environment",
        f"NNEFC_SHIPPED is {text!r}; expected on or off",
        hint="NNEFC_SHIPPED=off compiles all kernels on this machine",
    )


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
