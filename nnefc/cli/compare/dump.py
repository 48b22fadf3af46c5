"""Write the values of a comparison to a folder: an .npy file for each, and an index."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nnefc.cli.support.printing import count, json_value, size
from nnefc.cli.support.turns import turn_name

if TYPE_CHECKING:
    import numpy as np

    from nnefc.cli.compare.row import Row
    from nnefc.formats.paths import FileNames

    Array = np.ndarray[Any, Any]

INDEX: Final = "index.json"
"""The file that lists the values."""

REFERENCE: Final = "reference"
"""The folder of the float64 reference, with folders like those of `FOLDERS`."""

FOLDERS: Final = {"input": "inputs", "tensor": "tensors", "output": "outputs", "state": "states"}
"""Folders of compiled values by kind; those of the calls of a session have folders `turn_N`."""


@dataclass(slots=True, eq=False)
class Dump:
    """Writes values to a folder as they are compared."""

    path: Path
    """The folder as the user named it."""
    folder: Path
    """The folder that is written, which gets the name `path` at the end."""
    tolerance: float
    values: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The entries of the index, in the order of writing."""
    nbytes: int = 0
    """The size of the arrays, in bytes."""
    _names: dict[str, FileNames] = field(default_factory=dict[str, Any])
    """The names of files that are used, by folder."""

    def write_inputs(self, arrays: Mapping[str, Array], call: int | None) -> None:
        """Write the inputs of a call, which is counted from 1."""
        of_call = {} if call is None else {"call": call}
        for name, array in arrays.items():
            file = self._file("input", name, call)
            self._write(file, array)
            facts = {"shape": list(array.shape), "dtype": str(array.dtype), "file": file}
            self.values.append({**of_call, "name": name, "kind": "input", **facts})

    def write(self, row: Row, actual: Array, expected: Array) -> None:
        """Write a compared value and its reference; `row` has their differences."""
        file = self._file(row.kind, row.tensor, row.call)
        reference = f"{REFERENCE}/{file}"
        self._write(file, actual)
        self._write(reference, expected)
        facts = row.facts(self.tolerance)
        more = {"dtype": str(actual.dtype), "file": file, "reference_file": reference}
        self.values.append({"name": facts.pop("tensor"), **facts, **more})

    def write_index(self, model: str) -> None:
        """Write the index; `model`: the name of the graph."""
        index = {"model": model, "tolerance": self.tolerance, "values": self.values}
        text = json.dumps(json_value(index), indent=1, allow_nan=False)
        (self.folder / INDEX).write_text(f"{text}\n", encoding="utf-8")

    def facts(self) -> dict[str, Any]:
        """The size of the dump, for JSON."""
        return {"folder": str(self.path), "values": len(self.values), "bytes": self.nbytes}

    def __str__(self) -> str:
        return f"{self.path}: {count(len(self.values), 'value')}, {size(self.nbytes)}"

    def _file(self, kind: str, name: str, call: int | None) -> str:
        """A path in the folder that no other value has."""
        from nnefc.formats.paths import FileNames

        folder = FOLDERS[kind]
        used = self._names.setdefault(f"{folder} {call}", FileNames())
        file = f"{used.unique(name)}.npy"
        return f"{folder}/{file if call is None else turn_name(call - 1, file)}"

    def _write(self, file: str, array: Array) -> None:
        """Write an array; bfloat16, which .npy files cannot hold, as float32."""
        import numpy as np

        from nnefc.formats.arrays import write_npy

        stored = array if array.dtype.kind in "fiub" else array.astype(np.float32)
        target = self.folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as out:
            write_npy(out, stored)
        self.nbytes += stored.nbytes


@contextmanager
def dumping(path: Path | None, tolerance: float, model: str) -> Generator[Dump | None]:
    """A dump that becomes the folder `path` at the end of the block; None without a path.

    After an exception nothing is there.  Raises NnefError `data/write` if the folder is there
    already and not empty, or cannot be written.
    """
    if path is None:
        yield None
        return
    from nnefc.formats.atomic import replace_folder, require_new_folder

    require_new_folder(path)
    with replace_folder(path) as folder:
        dump = Dump(path, folder, tolerance)
        yield dump
        dump.write_index(model)
