"""Object code on disk, shared by all models and processes of a user.

An entry is named by a digest of everything that its code depends on (`cache_key`).  One that is
damaged, or that cannot be read or written, is as good as none: kernels are compiled again, and stay
in memory.  The user is told once in a process, where that may be what is not wanted.

`NNEFC_CACHE` names another folder, by its whole path, or is `off` in any case; empty, it is as if
it were not set.  `NNEFC_CACHE_LIMIT` bounds the size.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from nnefc.formats.files import absolute_path, printable
from nnefc.runtime.cache.folder import SUFFIX, CacheFolder, file_name
from nnefc.support.errors import Diagnostic, NnefError, warn

if TYPE_CHECKING:
    from nnefc.runtime.cache.key import Key

DEFAULT_LIMIT: Final = 10**9
"""Bytes of kernels."""
WEIGHTS_LIMIT: Final = 8 * 10**9
"""Bytes of weights."""
WEIGHTS_SUFFIX: Final = ".weights"
_UNITS: Final = {
    f"{prefix}{infix}": (1024 if infix else 1000) ** power
    for power, prefix in enumerate(["", "k", "m", "g", "t"])
    for infix in ("", "i")
}
_LIMIT: Final = r"(\d{1,15}(?:\.\d{1,9})?)\s*([kmgt]?i?)b?"


def load_kernel(key: Key) -> bytes | None:
    """The object code of an entry; None if there is none, or none that is whole."""
    from nnefc.runtime.cache.entry import code_of

    data = read_file(file_name(key.name))
    return None if data is None else code_of(key.name, data)


def store_kernel(key: Key, code: bytes) -> None:
    """Store an entry, whole or not at all."""
    from nnefc.kernels.target.processor import model_name
    from nnefc.runtime.cache.entry import Header, pack

    header = Header(key.facts, model_name(), time.time())
    write_file(file_name(key.name), pack(key.name, header, code))


def read_file(name: str) -> bytes | None:
    """What a file of the cache holds; None if it cannot be read."""
    folder = _folder()
    return folder.read(name) if folder is not None else None


def write_file(name: str, data: bytes) -> bool:
    """Write a file of the cache, whole or not at all; whether that was possible."""
    folder = _folder()
    if folder is None:
        return False
    try:
        folder.write(name, data)
    except OSError as error:
        folder.failed = True
        reason = error.strerror or str(error)
        _complain(
            f"cannot write to the cache of kernels, {folder.path}: {reason}",
            "compiled kernels stay in memory; make room or set NNEFC_CACHE to a folder that can be "
            "written, or to off",
        )
        return False
    except NnefError:  # the folder has been replaced: open it anew, which says what is wrong
        _opened.cache_clear()
        return _folder() is not None and write_file(name, data)
    return True


def is_writable() -> bool:
    """Whether other processes find here what this one has compiled, as far as it knows."""
    folder = _folder()
    return folder is not None and not folder.failed


def kernels_path() -> str | None:
    """Where the cache is to be; None if it is off.

    Raises NnefError `internal/cache` for a path that begins wherever a process happens to be.
    """
    named = os.environ.get("NNEFC_CACHE") or os.path.join(_user_folder(), "nnefc", "kernels")
    if named.lower() == "off":
        return None
    path = os.path.expanduser(named)
    if not os.path.isabs(path):
        origin = "NNEFC_CACHE is" if os.environ.get("NNEFC_CACHE") else "the cache of the user is"
        raise NnefError.of(
            "internal/cache",
            f"{origin} {printable(named)!r}, which is no whole path of a folder",
            hint="NNEFC_CACHE=off does without a cache; folders are written from the root, or from"
            f" ~ on: {printable(absolute_path(path))}",
        )
    return re.sub(r"(/+\.?)+$", "", path) or "/"


def _user_folder() -> str:
    """The cache folder of the user, as platformdirs has it."""
    if sys.platform == "linux":  # known without its 5 ms, which starting a process would take
        named = os.environ.get("XDG_CACHE_HOME", "")
        return named if named.startswith("/") else "~/.cache"
    from platformdirs import user_cache_dir

    return user_cache_dir()


def size_limit(default: int = DEFAULT_LIMIT) -> int:
    """Bytes of entries that are kept, of kernels or of weights: `NNEFC_CACHE_LIMIT`.

    Raises NnefError `internal/cache` if that is no size.
    """
    text = os.environ.get("NNEFC_CACHE_LIMIT")
    return parse_size(text) if text else default


def parse_size(text: str) -> int:
    """Bytes of "512MB", "1.5 GiB" or "1000000"; raises NnefError `internal/cache`."""
    found = re.fullmatch(_LIMIT, text.strip(), re.IGNORECASE)
    if found is None:
        raise NnefError.of(
            "internal/cache",
            f"NNEFC_CACHE_LIMIT is {text!r}, which is no size",
            hint="bytes, or a number with kB, MB, GB, KiB, MiB or GiB: 512MB",
        )
    return int(float(found[1]) * _UNITS[found[2].lower()])


def open_kernel_folder() -> CacheFolder | None:
    """The folder of the cache, which need not be there; None if it is off.

    Raises NnefError `internal/cache`.
    """
    path = kernels_path()
    return None if path is None else CacheFolder(path, size_limit(), make=False)


def open_weight_folder() -> CacheFolder | None:
    """The same of the folder of weights."""
    path = weights_path()
    if path is None:
        return None
    return CacheFolder(path, size_limit(WEIGHTS_LIMIT), WEIGHTS_SUFFIX, make=False)


def weights_path() -> str | None:
    """Where weights are kept that were made for kernels to read; None if the cache is off."""
    path = kernels_path()
    return path and os.path.join(path, "weights")


def weight_folder() -> CacheFolder | None:
    """The folder of these, opened once; None if it is off or cannot be used."""
    found = _opened_weights(*_environment())
    if found is not None and not found.is_there():  # somebody has removed it
        _opened.cache_clear()
        _opened_weights.cache_clear()
        found = _opened_weights(*_environment())
    return found


def _folder() -> CacheFolder | None:
    """The folder of the cache, opened once; None if it is off or cannot be used."""
    return _opened(*_environment())


def _environment() -> tuple[str | None, ...]:
    """What says where the cache is."""
    return tuple(map(os.environ.get, ("NNEFC_CACHE", "NNEFC_CACHE_LIMIT", "XDG_CACHE_HOME")))


@lru_cache(maxsize=1)
def _opened(*_environment: str | None) -> CacheFolder | None:
    """The folder that the environment names."""
    return _open(kernels_path, DEFAULT_LIMIT, SUFFIX, "compiled kernels")


@lru_cache(maxsize=1)
def _opened_weights(*_environment: str | None) -> CacheFolder | None:
    if _folder() is None:
        return None
    return _open(weights_path, WEIGHTS_LIMIT, WEIGHTS_SUFFIX, "weights as kernels read them")


def _open(
    where: Callable[[], str | None], default: int, suffix: str, kept: str
) -> CacheFolder | None:
    """A folder for what is `kept`, of which the user hears if it cannot be used."""
    try:
        path = where()
        return None if path is None else CacheFolder(path, _limit(default), suffix)
    except NnefError as error:
        _complain(
            error.errors[0].message,
            f"{kept} stay in memory; {error.errors[0].hint}",
        )
        return None


def _limit(default: int) -> int:
    """`size_limit`, of which the user hears if it is none."""
    try:
        return size_limit(default)
    except NnefError as error:
        _complain(error.errors[0].message, error.errors[0].hint)
        return default


_complained = False


def _complain(message: str, hint: str) -> None:
    """Warn, once in a process."""
    global _complained
    if not _complained:
        _complained = True
        warn(Diagnostic("internal/cache", message, severity="warning", hint=hint))
