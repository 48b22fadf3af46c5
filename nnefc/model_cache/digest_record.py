"""Records of the digests of documents: a later start compares the status of files, not the content.

A record holds the status of all files of a document, and the digest of their contents, as the index
of git does.  It is valid while every device, inode, size and time is the same.  Documents are only
recorded if each later modification of a file will change its status
(`formats.fingerprints.settled_files`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nnefc.formats.files import FilePath, absolute_path
from nnefc.formats.fingerprints import Fingerprint, Stamp
from nnefc.model_cache.facts import formats_digest
from nnefc.support.digests import blake2b
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from nnefc.runtime.cache.lru_folder import LruFolder

_SUFFIX: Final = ".document"
"""Files of a cache folder with a digest as name and another suffix are removed when they have not
been used for a day, and the folder needs space."""
_NAME_BYTES: Final = 32
_LARGE: Final = 1 << 20
"""Bytes; smaller documents are read faster than a record is written."""


class DigestRecord(NamedTuple):
    """The status of the files of a document, and the digest of their contents."""

    stamp: Stamp
    digest: str

    @classmethod
    def load(cls, folder: LruFolder, source: FilePath) -> DigestRecord | None:
        """The record for the path of a document; None if it is missing or damaged."""
        data = folder.read(_file_name(source))
        try:
            facts: Any = json.loads(data or b"")
            stamp = [
                (str(name), int(device), int(inode), int(size), int(modified), int(changed))
                for name, device, inode, size, modified, changed in facts["stamp"]
            ]
            return cls(stamp, str(facts["digest"]))
        except (ValueError, TypeError, KeyError, RecursionError):
            return None

    def store(self, folder: LruFolder, source: FilePath) -> None:
        """Write the record; a folder that cannot be written to is no error."""
        with suppress(OSError, NnefError):
            folder.write(_file_name(source), json.dumps(self._asdict()).encode())


def begin_digest(
    document: Fingerprint, record: DigestRecord | None, source: FilePath, folder: LruFolder
) -> Callable[[], str]:
    """Begin to compute the digest of a document unless its record has it.

    The function returns the digest, or raises as `Fingerprint.digest` does, and writes the record.
    """
    if record is not None and record.stamp == document.stamp:
        digest = record.digest
        return lambda: digest
    settled = False
    if document.nbytes > _LARGE:
        from nnefc.formats.fingerprints.settled_files import is_settled

        settled = is_settled(document)
    digesting = document.digesting()

    def finish() -> str:
        digest = digesting()
        if settled and document.is_unchanged and folder.exists():
            DigestRecord(document.stamp, digest).store(folder, source)
        return digest

    return finish


def _file_name(source: FilePath) -> str:
    """The name of the record's file.

    It also depends on the sources that define the files of a document and their digest.
    """
    text = f"{formats_digest()}\0{absolute_path(os.fspath(source))}"
    name = blake2b(text.encode(errors="surrogatepass"), digest_size=_NAME_BYTES)
    return name.hexdigest() + _SUFFIX
