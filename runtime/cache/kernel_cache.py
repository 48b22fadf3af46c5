"""The kernel cache: object code on disk, shared by all models and processes of a user.

An entry is named by a digest of everything that its code depends on (`nnefc.runtime.cache.key`).
Damaged or unreadable entries count as missing.  If the cache cannot be written, kernels are
compiled in every process; a process warns about that once.

`NNEFC_CACHE` names another folder by its absolute path, or is `off`, compared without case; empty
means unset.  `NNEFC_CACHE_LIMIT` limits the size.
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
from nnefc.runtime.cache.lru_folder import SUFFIX, LruFolder, kernel_file_name
from nnefc.support.errors import Diagnostic, NnefError, warn

if TYPE_CHECKING:
    from nnefc.runtime.cache.claim import Claim
    from nnefc.runtime.cache.key import Key

DEFAULT_LIMIT: Final = 10**9
"""Default limit for kernels, in bytes."""
WEIGHTS_LIMIT: Final = 8 * 10**9
"""Default limit for packed weights, in bytes."""
WEIGHTS_SUFFIX: Final = ".weights"
_UNITS: Final = {
    f"{prefix}{infix}": (1024 if infix else 1000) ** power
    for power, prefix in enumerate(["", "k", "m", "g", "t"])
    for infix in ("", "i")
}
_LONGEST_NAME: Final = 255
"""Bytes that file systems allow in the name of a file."""
_LIMIT: Final = r"(\d{1,15}(?:\.\d{1,9})?)\s*([kmgt]?i?)b?"


def load_kernel(key: Key) -> bytes | None:
    """The object code of an entry; None if it is missing or damaged."""
    from nnefc.runtime.cache.entry_format import code_of

    data = read_file(kernel_file_name(key.name))
    return None if data is None else code_of(key.name, data)


def store_kernel(key: Key, code: bytes) -> None:
    """Write an entry atomically."""
    from nnefc.kernels.target.processor import model_name
    from nnefc.runtime.cache.entry_format import Header, pack

    header = Header(key.facts, model_name(), time.time())
    write_file(kernel_file_name(key.name), pack(key.name, header, code))


def claim_kernel(key: Key) -> Claim | None:
    """Claim an entry before making it; None if another process is making it."""
    return claim_file(key.name)


def claim_file(name: str) -> Claim | None:
    """Claim a file of the cache before replacing it; None if another process has claimed it."""
    from nnefc.runtime.cache import claim

    folder = _folder()
    if folder is None or folder.failed:
        return claim.Claim("", None)
    return claim.claim(folder.path_of(name + claim.SUFFIX))


def read_file(name: str) -> bytes | None:
    """The content of a file of the cache; None if it cannot be read."""
    folder = _folder()
    return folder.read(name) if folder is not None else None


def write_file(name: str, data: bytes) -> bool:
    """Write a file of the cache atomically; returns whether that succeeded."""
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
    except NnefError:  # the folder has been replaced: open it again, which reports the problem
        _opened.cache_clear()
        return _folder() is not None and write_file(name, data)
    return True


def is_writable() -> bool:
    """Whether kernels that this process compiles are stored, as far as it knows."""
    folder = _folder()
    return folder is not None and not folder.failed


def kernels_path() -> str | None:
    """The path of the cache folder; None if the cache is off.

    Raises NnefError `internal/cache` for a relative path, and for names that are too long.
    """
    named = os.environ.get("NNEFC_CACHE") or os.path.join(_user_folder(), "nnefc", "kernels")
    if named.lower() == "off":
        return None
    path = os.path.expanduser(named)
    if not os.path.isabs(path):
        origin = "NNEFC_CACHE is" if os.environ.get("NNEFC_CACHE") else "the cache of the user is"
        raise NnefError.of(
            "internal/cache",
            f"{origin} {printable(named)!r}, which is not an absolute path",
            hint="NNEFC_CACHE=off disables the cache; write paths from the root or from ~: "
            f"{printable(absolute_path(path))}",
        )
    if max(len(os.fsencode(part)) for part in path.split("/")) > _LONGEST_NAME:
        raise NnefError.of(
            "internal/cache",
            f"{printable(path)!r}: a name has more than {_LONGEST_NAME} bytes",
            hint="NNEFC_CACHE names the cache, and off disables it",
        )
    return re.sub(r"(/+\.?)+$", "", path) or "/"


def _user_folder() -> str:
    """The user's cache folder, as platformdirs defines it."""
    if sys.platform == "linux":  # importing platformdirs takes 5 ms of the start
        named = os.environ.get("XDG_CACHE_HOME", "")
        return named if named.startswith("/") else "~/.cache"
    from platformdirs import user_cache_dir

    return user_cache_dir()


def size_limit(default: int = DEFAULT_LIMIT) -> int:
    """The limit in bytes from `NNEFC_CACHE_LIMIT`, or `default`.

    Raises NnefError `internal/cache` if the variable is not a size.
    """
    text = os.environ.get("NNEFC_CACHE_LIMIT")
    return parse_size(text) if text else default


def parse_size(text: str) -> int:
    """Bytes of "512MB", "1.5 GiB" or "1000000"; raises NnefError `internal/cache`."""
    size = re.fullmatch(_LIMIT, text.strip(), re.IGNORECASE)
    if size is None:
        raise NnefError.of(
            "internal/cache",
            f"NNEFC_CACHE_LIMIT is {text!r}, which is not a size",
            hint="bytes, or a number with kB, MB, GB, KiB, MiB or GiB: 512MB",
        )
    return int(float(size[1]) * _UNITS[size[2].lower()])


def open_kernel_folder() -> LruFolder | None:
    """The cache folder, which may not exist yet; None if the cache is off.

    Raises NnefError `internal/cache`.
    """
    path = kernels_path()
    return None if path is None else LruFolder(path, size_limit(), make=False)


def open_weight_folder() -> LruFolder | None:
    """The folder of packed weights, which may not exist yet; None if the cache is off."""
    path = weights_path()
    if path is None:
        return None
    return LruFolder(path, size_limit(WEIGHTS_LIMIT), WEIGHTS_SUFFIX, make=False)


def weights_path() -> str | None:
    """The path of the folder of packed weights; None if the cache is off."""
    path = kernels_path()
    return path and os.path.join(path, "weights")


def weight_folder() -> LruFolder | None:
    """The folder of packed weights, opened once; None if the cache is off or unusable."""
    folder = _opened_weights(*_environment())
    if folder is not None and not folder.exists():  # removed since it was opened
        _opened.cache_clear()
        _opened_weights.cache_clear()
        folder = _opened_weights(*_environment())
    return folder


def used_weight_folder() -> LruFolder | None:
    """The folder of packed weights if this process has opened it; it is not created."""
    environment = _environment()
    return _opened_weights(*environment) if environment == _weights_environment else None


def _folder() -> LruFolder | None:
    """The cache folder, opened once; None if the cache is off or unusable."""
    return _opened(*_environment())


def _environment() -> tuple[str | None, ...]:
    """The environment variables that choose the cache folder."""
    return tuple(map(os.environ.get, ("NNEFC_CACHE", "NNEFC_CACHE_LIMIT", "XDG_CACHE_HOME")))


@lru_cache(maxsize=1)
def _opened(*_environment: str | None) -> LruFolder | None:
    """The folder for these values of the environment variables."""
    return _open(kernels_path, DEFAULT_LIMIT, SUFFIX, "compiled kernels")


_weights_environment: tuple[str | None, ...] = ()
"""The variables for which `_opened_weights` was called last."""


@lru_cache(maxsize=1)
def _opened_weights(*environment: str | None) -> LruFolder | None:
    global _weights_environment
    _weights_environment = environment
    if _folder() is None:
        return None
    return _open(weights_path, WEIGHTS_LIMIT, WEIGHTS_SUFFIX, "packed weights")


def _open(
    where: Callable[[], str | None], default: int, suffix: str, content: str
) -> LruFolder | None:
    """A folder for `content`; None after a warning if it cannot be used."""
    try:
        path = where()
        return None if path is None else LruFolder(path, _limit(default), suffix)
    except NnefError as error:
        _complain(
            error.errors[0].message,
            f"{content} stay in memory; {error.errors[0].hint}",
        )
        return None


def _limit(default: int) -> int:
    """`size_limit`, or the default after a warning."""
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
