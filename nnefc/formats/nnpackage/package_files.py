"""Packages as files by path: folders and zip archives, recognised by their manifest."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from nnefc.formats.archives.open_archive import ArchiveMembers, open_zip
from nnefc.formats.files import FilePath, is_folder, open_regular, printable
from nnefc.formats.folder import FolderMembers
from nnefc.formats.nnpackage.manifest import RULE, Manifest, parse_manifest
from nnefc.formats.paths import DOCUMENT, MANIFEST
from nnefc.support.errors import Diagnostics, NnefError, Place
from nnefc.support.limits import Limits

CUSTOM_OPERATORS: Final = "custom_op/"
METADATA: Final = "metadata/"


def root_in_archive(paths: Iterable[str]) -> str | None:
    """The folder of the manifest: "", or "top/" for one folder at the top; None without one."""
    tops = {path.removesuffix(MANIFEST) for path in paths if path.endswith(f"/{MANIFEST}")}
    tops |= {"" for path in paths if path == MANIFEST}
    if "" in tops:
        return ""
    nearest = [top for top in tops if top.count("/") == 1]
    return nearest[0] if len(nearest) == 1 else None


def is_nnpackage(path: FilePath) -> bool:
    """Whether a path is a folder or zip archive with a manifest, and without `graph.nnef`."""
    if is_folder(path):
        return _is_file(path, MANIFEST) and not _is_file(path, DOCUMENT)
    try:
        with open_regular(path) as stream:
            if stream.read(4) != b"PK\x03\x04":
                return False
            with zipfile.ZipFile(stream) as archive:
                paths = {each.replace("\\", "/") for each in archive.namelist()}
    except Exception:  # whatever is wrong with an archive is reported when it is opened
        return False
    root = root_in_archive(paths)
    return root is not None and root + DOCUMENT not in paths


def _is_file(folder: FilePath, path: str) -> bool:
    return Path(folder, path).is_file()


class PackageFiles:
    """The files of a package; a context manager.  Contents stay valid after it is closed."""

    def __init__(
        self, name: str, members: FolderMembers | ArchiveMembers, root: str, limits: Limits
    ) -> None:
        self.name = name
        self._members = members
        self._root = root
        self._limits = limits

    def __enter__(self) -> PackageFiles:
        return self

    def __exit__(self, *error: object) -> None:
        if isinstance(self._members, ArchiveMembers):
            self._members.close()

    def display_name(self, path: str) -> str:
        """The name of a file in messages."""
        return self._members.display_name(self._root + path)

    def manifest_text(self) -> bytes:
        """The manifest, undecoded; raises NnefError `limit/size`."""
        found = self._members.find(self._root + MANIFEST)
        assert found is not None
        return self._members.read(found, self._limits.document_bytes)

    def content(self, path: str) -> memoryview | None:
        """The content of a file, mapped where possible; None without one."""
        found = self._members.find(self._root + path)
        return None if found is None else memoryview(self._members.content(found))

    def names_in(self, folder: str) -> list[str]:
        """Sorted names of the files directly in a folder, such as `custom_op/`."""
        return list(self._members.names_in(self._root + folder))


def open_package(path: FilePath, limits: Limits) -> PackageFiles:
    """Open a package that `is_nnpackage` recognised.

    Raises NnefError `container/...` or `limit/...` for damaged and hostile archives.
    """
    name = printable(os.fspath(path))
    if is_folder(path):
        return PackageFiles(name, FolderMembers(Path(path), limits), "", limits)
    file = open_regular(path, "container/file")
    try:
        members = open_zip(file, name, limits)
    except BaseException:
        file.close()
        raise
    root = root_in_archive(members.paths)
    if root is None:
        members.close()
        raise NnefError.of(RULE, f"there is no {MANIFEST}", Place(name))
    return PackageFiles(name, members, root, limits)


def read_manifest(files: PackageFiles, diagnostics: Diagnostics) -> Manifest:
    """The manifest of a package; raises NnefError with all errors, missing models included.

    Custom operators and missing configurations are warnings.
    """
    file = files.display_name(MANIFEST)
    manifest = parse_manifest(files.manifest_text(), file, diagnostics)
    for name in manifest.configs:
        if files.content(METADATA + name) is None:
            message = f"'configs' names '{printable(name)}', but there is no such file in metadata"
            diagnostics.warn(RULE, message, Place(file))
    custom = files.names_in(CUSTOM_OPERATORS)
    if custom:
        listed = ", ".join(printable(name) for name in custom[:4])
        message = f"the package has code of custom operators, which is not executed: {listed}"
        diagnostics.warn(RULE, message, Place(files.display_name(CUSTOM_OPERATORS)))
    return manifest
