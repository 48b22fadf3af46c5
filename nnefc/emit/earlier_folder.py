"""A folder for C programs that is written again: its model is replaced, changed examples stay.

The first line of an example has a checksum of the others, which tells whether somebody changed it.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nnefc.formats.files import FilePath, printable
from nnefc.support.errors import Diagnostic, NnefError, Place, warn
from nnefc.support.package import VERSION

WRITTEN: Final = "Written by nnefc"
"""In the first line of each text that nnefc writes."""
_CHECKSUM: Final = re.compile(rf"{WRITTEN} .*, checksum ([0-9a-f]{{8}})", re.ASCII)


@dataclass(frozen=True, slots=True)
class EarlierFolder:
    """What a path has before a model is written there."""

    path: Path
    place: Place
    models: tuple[str, ...]
    """The names of the models that nnefc wrote there."""

    @classmethod
    def of(cls, path: FilePath) -> EarlierFolder:
        """The models in a folder; none if it does not exist or cannot be read."""
        place, folder = Place(printable(os.fspath(path))), Path(path)
        try:
            headers = [each for each in sorted(folder.glob("*.h")) if WRITTEN in _first(each)]
        except (OSError, ValueError):
            headers = []
        return cls(folder, place, tuple(each.stem for each in headers))

    @property
    def has_model(self) -> bool:
        """Whether a model can be replaced."""
        return bool(self.models)

    def check(self, name: str) -> None:
        """Raise NnefError `data/write` if the folder has another model."""
        if self.models and name not in self.models:
            message = f"this folder has the model {', '.join(self.models)}, not {name}"
            hint = "name a new folder, or give the model the same name"
            raise NnefError.of("data/write", message, self.place, hint)

    def leave_changed(self, new: Path, examples: Iterable[str]) -> None:
        """Remove the examples from a folder that replaces this one whose files were changed."""
        for name in examples:
            if self.models and _is_changed(self.path / name):
                (new / name).unlink()
                message = f"{name} was changed and stays as it is"
                hint = "remove it to get the example of this model"
                warn(Diagnostic("artifact/c-folder", message, self.place, "warning", hint=hint))

    def remove_others(self, name: str, names: Sequence[str]) -> None:
        """Remove files of the earlier model that the new one does not have."""
        for other in (f"{name}.weights", f"lib{name}.so", f"{name}_openvx.c"):
            if self.models and other not in names:
                (self.path / other).unlink(missing_ok=True)


def marked(text: str, *, is_c: bool) -> str:
    """An example with a first line that tells whether the others were changed."""
    line = f"{WRITTEN} {VERSION}, checksum {_checksum(text)}: a changed file is not overwritten."
    return f"/* {line} */\n{text}" if is_c else f"# {line}\n{text}"


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def _is_changed(path: Path) -> bool:
    """Whether a file exists that is not as nnefc wrote it."""
    try:
        first, _, text = path.read_bytes().decode(errors="replace").partition("\n")
    except FileNotFoundError:
        return False
    found = _CHECKSUM.search(first)
    return found is None or found[1] != _checksum(text)


def _first(path: Path) -> str:
    """The first line of a file, or its begin."""
    with path.open("rb") as file:
        return file.readline(1000).decode(errors="replace")
