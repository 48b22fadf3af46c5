"""Members of a container that is a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from nnefc.formats.files import (
    map_file,
    open_regular,
    printable,
    read_at_most,
    read_whole,
    size_of,
)
from nnefc.formats.item_encodings import Array
from nnefc.formats.paths import TENSOR_SUFFIX, CaselessIndex
from nnefc.formats.tensor_file import Buffer, StoredTensor, read_stored, read_tensor
from nnefc.support.errors import NnefError, Place
from nnefc.support.limits import Limits, how_to_raise


class FolderMembers:
    """The regular files below a folder.

    Links are followed, since model caches consist of links.  That is no risk: a person who can
    create a link in the folder can create the file as well.
    """

    def __init__(self, root: Path, limits: Limits) -> None:
        self._root = root
        self._limits = limits
        self._listings: dict[str, CaselessIndex] = {}

    def display_name(self, path: str) -> str:
        """The name of a file in messages."""
        return printable(str(self._root / path))

    def find(self, path: str) -> str | None:
        """The path of the file that equals `path`, exactly or ignoring case; None without one."""
        if os.path.lexists(self._root / path):
            return path
        folder = ""
        for name in path.split("/"):
            actual = self._listing(folder).find(name, printable(str(self._root / folder)))
            if actual is None:
                return None
            folder = f"{folder}/{actual}" if folder else actual
        return folder

    def read(self, path: str, limit: int) -> bytes:
        """The content of a file; NnefError `limit/size` if it exceeds `limit` bytes."""
        return read_whole(self._root / path, limit, "container/file")

    def tensor(self, path: str, limits: Limits) -> Array:
        """The tensor in a file, mapped where possible."""
        return read_tensor(self._root / path, limits=limits)

    def stored(self, path: str, limits: Limits) -> StoredTensor:
        """The tensor in a file, in a standard or vendor format."""
        return read_stored(self._root / path, limits=limits)

    def content(self, path: str) -> Buffer:
        """The content of a file, mapped where possible."""
        with open_regular(self._root / path) as file:
            mapped = map_file(file)
            if mapped is not None:
                return mapped
            return read_at_most(
                file, size_of(file), self._limits.archive_bytes, self.display_name(path)
            )

    def names_in(self, folder: str) -> Iterable[str]:
        """Sorted names of the regular files directly in a folder, "" or "sub/"."""
        try:
            entries = list(os.scandir(self._root / folder))
        except OSError:
            return ()
        return sorted(entry.name for entry in entries if entry.is_file())

    def tensor_paths(self) -> Iterator[str]:
        """The paths of all tensor files; each folder is visited once, despite links.

        Raises NnefError `limit/members` beyond the number of files that an archive may have.
        """
        seen: set[tuple[int, int]] = set()
        left = self._limits.archive_members
        folders = [""]
        while folders:
            folder = folders.pop()
            try:
                status = (self._root / folder).stat()
                entries = sorted(os.scandir(self._root / folder), key=lambda entry: entry.name)
            except OSError:
                continue
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            left -= len(entries)
            if left < 0:
                raise NnefError.of(
                    "limit/members",
                    f"more than the {self._limits.archive_members} files allowed",
                    Place(printable(str(self._root))),
                    how_to_raise("archive_members", what="the folder"),
                )
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir():
                    folders.append(path)
                elif entry.name.lower().endswith(TENSOR_SUFFIX):
                    yield path

    def close(self) -> None:
        """Do nothing: no file is held open."""

    def _listing(self, folder: str) -> CaselessIndex:
        if folder not in self._listings:
            try:
                names = [path.name for path in (self._root / folder).iterdir()]
            except OSError:
                names = []
            self._listings[folder] = CaselessIndex(names)
        return self._listings[folder]
