"""Atomic writes: files and folders appear complete or not at all."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from nnefc.formats.files import (
    WRITE_BUFFER_BYTES,
    FilePath,
    describe,
    descriptor_of,
    is_stream,
    printable,
    reason,
)
from nnefc.support.errors import NnefError, Place

_SEPARATORS: Final = tuple(filter(None, (os.sep, os.altsep)))
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def replace_file(path: FilePath, at_least: int = 0) -> Generator[BinaryIO, None, None]:
    """A temporary file beside `path` that replaces `path` at the end of the block.

    After an exception `path` is unchanged and the temporary file is gone.  Links are followed, and
    the permissions of an existing file are kept.  The content is written to a stream, such as
    /dev/null or a pipe, instead of replacing it.  `at_least`: a lower bound of the size in bytes,
    for the error on a full disk.  Raises NnefError `data/write` if the file cannot be written.
    """
    name = os.fspath(path)
    place = Place(printable(name))
    if name.endswith(_SEPARATORS):  # Path drops trailing separators
        raise NnefError.of(
            "data/write",
            "cannot write a file here: this names a folder",
            place,
            "name a file in it",
        )
    if is_stream(path):
        with _written_to_stream(path, place) as file:
            yield file
        return
    try:
        target = Path(path).resolve()
        permissions = _permissions(target, place)
        beside = _beside(target)
        file = beside.open("xb", buffering=WRITE_BUFFER_BYTES)
    except (OSError, ValueError, RuntimeError) as error:
        raise _failed(error, place) from None
    try:
        with file:
            if permissions is not None:
                os.fchmod(file.fileno(), permissions)
            yield file
        beside.replace(target)
    except OSError as error:
        raise _failed(error, place, _room(error, beside, at_least)) from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


@contextmanager
def _written_to_stream(path: FilePath, place: Place) -> Generator[BinaryIO, None, None]:
    """A temporary file, whose content is written to a stream at the end of the block.

    A pipe that no process reads is an error, because opening it would wait without end.
    """
    import tempfile

    try:
        with (
            os.fdopen(_stream_descriptor(path, place), "wb") as stream,
            tempfile.TemporaryFile() as file,
        ):
            yield file
            file.seek(0)
            shutil.copyfileobj(file, stream)
    except OSError as error:
        raise _failed(error, place) from None


def _stream_descriptor(path: FilePath, place: Place) -> int:
    """A new descriptor of a stream; raises OSError, and NnefError for a pipe without a reader."""
    known = descriptor_of(path)
    if known is not None:
        return os.dup(known)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        hint = "start the reader first, or name a file"
        raise NnefError.of("data/write", "no process reads this pipe", place, hint) from None
    os.set_blocking(descriptor, True)
    return descriptor


@contextmanager
def replace_folder(path: FilePath, *, merge: bool = False) -> Generator[Path, None, None]:
    """A temporary folder beside `path` that replaces `path` at the end of the block.

    `path` must not exist, or be an empty folder.  `merge`: it is a folder, and each of the new
    files replaces the one of its name; others stay.  Raises NnefError `data/write` otherwise.
    """
    place = Place(printable(os.fspath(path)))
    try:
        target = Path(path).resolve()
        beside = _beside(target)
        beside.mkdir()
    except (OSError, ValueError, RuntimeError) as error:
        raise _failed(error, place) from None
    try:
        yield beside
        if merge:
            for file in sorted(beside.iterdir()):
                file.replace(target / file.name)
        else:
            beside.rename(target)
    except OSError as error:
        raise _failed(error, place, _room(error, beside)) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def require_writable(path: FilePath) -> None:
    """Raise NnefError `data/write` unless `replace_file` can write here; for use before long work.

    A file beside `path` is created and removed.
    """
    if is_stream(path):
        return
    place = Place(printable(os.fspath(path)))
    try:
        target = Path(path).resolve()
        _permissions(target, place)
        _probe(target)
    except (OSError, ValueError, RuntimeError) as error:
        raise _failed(error, place) from None


def _probe(target: Path) -> None:
    """Raise OSError unless the folder of a path is writable."""
    beside = _beside(target)
    beside.touch(exist_ok=False)
    beside.unlink()


def require_new_folder(path: FilePath) -> None:
    """Raise NnefError `data/write` unless `replace_folder` can create this folder."""
    place = Place(printable(os.fspath(path)))
    try:
        target = Path(path).resolve()
        if not target.parent.is_dir():
            message, hint = "its parent folder does not exist", "create it first"
        elif os.path.lexists(target) and not (target.is_dir() and not any(target.iterdir())):
            message, hint = "this exists and is not an empty folder", "name a new folder"
        else:
            _probe(target)
            return
    except (OSError, ValueError, RuntimeError) as error:
        raise _failed(error, place) from None
    raise NnefError.of("data/write", message, place, hint)


def _beside(target: Path) -> Path:
    import secrets  # takes 4 ms, which readers of files do not need

    return target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")


def _permissions(target: Path, place: Place) -> int | None:
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if describe(mode) != "a file":
        raise NnefError.of(
            "data/write", f"cannot write a file here: this is {describe(mode)}", place
        )
    return mode & 0o777


def _room(error: OSError, partial: Path, at_least: int = 0) -> str:
    """The end of a message about a full disk: the bytes that were written; "" for other errors."""
    if error.errno not in _FULL:
        return ""
    room = 0
    with suppress(OSError):
        room = sum(each.stat().st_size for each in (partial, *partial.rglob("*")) if each.is_file())
    more = f", at least {at_least:,} are needed" if at_least > room else ""
    return f": there is room for {room:,} bytes{more}"


def _failed(error: Exception, place: Place, room: str = "") -> NnefError:
    hint = "make room, or write to another disk" if room else ""
    if isinstance(error, FileNotFoundError):
        hint = "the folder of the file must exist"
    return NnefError.of("data/write", f"cannot write: {reason(error)}{room}", place, hint)
