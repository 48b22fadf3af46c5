"""Adds files to a wheel, with the same bytes for the same content."""

from __future__ import annotations

import base64
import hashlib
import os
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

_RECORD = ".dist-info/RECORD"


def add_files(wheel: Path, files: Mapping[str, bytes]) -> None:
    """Add `files` (content by path in the wheel), and list them in its RECORD.

    All members get the time of SOURCE_DATE_EPOCH.
    """
    with zipfile.ZipFile(wheel) as archive:
        content = {item.filename: archive.read(item) for item in archive.infolist()}
        modes = {item.filename: item.external_attr for item in archive.infolist()}
    (record,) = (name for name in content if name.endswith(_RECORD))
    lines = content.pop(record).decode().splitlines(keepends=True)
    # the last line is that of RECORD itself
    lines[-1:-1] = [f"{name},sha256={_hash(data)},{len(data)}\n" for name, data in files.items()]
    content |= files
    content[record] = "".join(lines).encode()
    date = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    written = wheel.with_suffix(".partial")
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in content.items():
            item = zipfile.ZipInfo(name, date)
            item.external_attr = modes.get(name, 0o100644 << 16)
            item.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(item, data)
    written.replace(wheel)


def _hash(data: bytes) -> str:
    """A digest as RECORD has it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
