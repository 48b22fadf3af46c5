"""Write a package of one model, as a zip archive or a folder."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Final

from nnefc.formats.atomic import replace_file, replace_folder
from nnefc.formats.paths import MANIFEST

ZIP: Final = ".zip"
_BEGIN: Final = (1980, 1, 1, 0, 0, 0)
"""The time of all members, so that equal models make equal archives."""
_ALIGNED: Final = 16
_EXTRA_HEADER: Final = 4
_LOCAL_HEADER: Final = 30


def write_package(path: Path, model: str, kind: str, content: memoryview) -> None:
    """Write an archive if the name ends in .zip, else a folder; whole, or not at all.

    `model`: the name of the file of the model; `kind`: its type, `tflite` or `circle`.  Raises
    NnefError `data/write`.
    """
    manifest = {
        "major-version": "1",
        "minor-version": "3",
        "patch-version": "1",
        "configs": list[str](),
        "models": [model],
        "model-types": [kind],
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False).encode() + b"\n"
    if path.suffix.lower() != ZIP:
        with replace_folder(path) as folder:
            (folder / MANIFEST).parent.mkdir()
            (folder / MANIFEST).write_bytes(text)
            (folder / model).write_bytes(content)
        return
    with replace_file(path, len(content)) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr(_member(MANIFEST, 0), text)
        with archive.open(_member(model, file.tell()), "w", force_zip64=False) as member:
            member.write(content)


def _member(name: str, offset: int) -> zipfile.ZipInfo:
    """An uncompressed member at an offset, whose content is aligned as FlatBuffers need it."""
    info = zipfile.ZipInfo(name, _BEGIN)
    info.external_attr = 0o100644 << 16
    begin = offset + _LOCAL_HEADER + len(name.encode())
    padding = -(begin + _EXTRA_HEADER) % _ALIGNED
    info.extra = b"\0\0" + padding.to_bytes(2, "little") + bytes(padding)
    return info
