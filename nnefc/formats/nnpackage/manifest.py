"""The manifest of a package: which models it has, and how they are connected."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from nnefc.formats.files import printable
from nnefc.formats.json_text import parse_json
from nnefc.formats.paths import CIRCLE_IDENTIFIER, TFLITE_IDENTIFIER, normal_path
from nnefc.support.errors import Diagnostics, Place

RULE: Final = "tflite/package"
TYPE_OF: Final[dict[bytes, str]] = {TFLITE_IDENTIFIER: "tflite", CIRCLE_IDENTIFIER: "circle"}
"""The types of models in a manifest by the identifier of their files."""
NEWEST_MAJOR: Final = 1
_END: Final = re.compile(r"(\d{1,9}):(\d{1,9}):(\d{1,9})", re.ASCII)
_VERSION: Final = re.compile(r"\d{1,9}", re.ASCII)


class End(NamedTuple):
    """An input or output of a model; a manifest writes `model:subgraph:position`."""

    model: int
    subgraph: int
    position: int

    def __str__(self) -> str:
        return f"{self.model}:{self.subgraph}:{self.position}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The attributes of a package."""

    file: str
    """The name of the manifest in messages."""
    models: tuple[str, ...]
    """Normalised paths from the root of the package; the first is the default."""
    types: tuple[str, ...]
    """`tflite` or `circle` for each model; empty if the manifest has none."""
    configs: tuple[str, ...] = ()
    """Names of files in `metadata`."""
    inputs: tuple[End, ...] = ()
    outputs: tuple[End, ...] = ()
    connections: tuple[tuple[End, End], ...] = ()
    """An output of a model, and the input of another one that takes it."""

    @property
    def is_connected(self) -> bool:
        """Whether the models are one network, of which the manifest lists the ends."""
        return bool(self.inputs or self.outputs or self.connections)


def parse_manifest(content: bytes, file: str, diagnostics: Diagnostics) -> Manifest:
    """The manifest with the name `file` in messages; raises NnefError with all errors."""
    reader = _Reader(Place(file), diagnostics)
    value: Any = None
    try:
        value = parse_json(content, reader.unique_keys)
    except ValueError as error:
        reader.error(f"this is not valid JSON: {error}")
    else:
        if not isinstance(value, dict):
            reader.error(f"an object is expected, not {_shown(value)}")
    diagnostics.raise_errors()
    manifest = reader.manifest(cast(Mapping[str, Any], value), file)
    diagnostics.raise_errors()
    return manifest


class _Reader:
    """Reads attributes; reports those that are wrong."""

    def __init__(self, place: Place, diagnostics: Diagnostics) -> None:
        self._place = place
        self._diagnostics = diagnostics

    def error(self, message: str, hint: str = "") -> None:
        self._diagnostics.error(RULE, message, self._place, hint=hint)

    def unique_keys(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """An object; reports keys that occur twice."""
        table: dict[str, Any] = {}
        for key, value in pairs:
            if key in table:
                self.error(f"key '{printable(key)}' occurs more than once")
            table[key] = value
        return table

    def manifest(self, table: Mapping[str, Any], file: str) -> Manifest:
        self._check_versions(table)
        models = self._models(table)
        types = self._texts(table, "model-types")
        if types and len(types) != len(models):
            self.error(f"'model-types' has {len(types)} items, but there are {len(models)} models")
        for i, each in enumerate(types):
            if each not in TYPE_OF.values():
                message = f"'model-types'[{i}] is {_shown(each)}"
                self.error(
                    f"{message}, which nnefc does not read", f"known: {', '.join(TYPE_OF.values())}"
                )
        configs = self._texts(table, "configs")
        for i, each in enumerate(configs):
            self._check_path(f"'configs'[{i}]", each)
        return Manifest(
            file,
            tuple(models),
            tuple(types),
            tuple(configs),
            self._ends(table, "pkg-inputs"),
            self._ends(table, "pkg-outputs"),
            self._connections(table),
        )

    def _check_versions(self, table: Mapping[str, Any]) -> None:
        for key in ("major-version", "minor-version", "patch-version"):
            value = table.get(key, "0")
            text = str(value) if type(value) is int else value
            if not isinstance(text, str) or not _VERSION.fullmatch(text):
                self.error(f"'{key}' is {_shown(value)}; a number is expected")
            elif key == "major-version" and int(text) > NEWEST_MAJOR:
                self.error(f"'{key}' is {text}; packages up to version {NEWEST_MAJOR} are known")

    def _models(self, table: Mapping[str, Any]) -> list[str]:
        """The normalised paths of `models`, or of `main-model`, which came before it."""
        key, paths = "models", list[str]()
        if table.get(key) is not None:
            paths = self._texts(table, key)
            if table[key] == []:
                self.error(f"'{key}' is empty; a package has a model at least")
        elif "main-model" not in table:
            self.error("there is neither 'models' nor 'main-model'")
        elif isinstance(table["main-model"], str):
            key, paths = "main-model", [table["main-model"]]
        else:
            value = _shown(table["main-model"])
            self.error(f"'main-model' is {value}; the path of a model is expected")
        wheres = (
            ["'main-model'"]
            if key == "main-model"
            else [f"'models'[{i}]" for i in range(len(paths))]
        )
        return [self._check_path(where, path) for where, path in zip(wheres, paths, strict=True)]

    def _check_path(self, where: str, path: str) -> str:
        """The normalised path; reports one that leads out of the package."""
        normal, fault = normal_path(path)
        if fault or not normal:
            fault = fault.replace("archive", "package") or "it is empty"
            self.error(f"{where} is {_shown(path)}: {fault}")
        return normal

    def _list(self, table: Mapping[str, Any], key: str) -> list[Any]:
        value = table.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.error(f"'{key}' is {_shown(value)}; a list is expected")
            return []
        return cast(list[Any], value)

    def _texts(self, table: Mapping[str, Any], key: str) -> list[str]:
        values = self._list(table, key)
        for i, each in enumerate(values):
            if not isinstance(each, str):
                self.error(f"'{key}'[{i}] is {_shown(each)}; a string is expected")
        return [each if isinstance(each, str) else "?" for each in values]

    def _end(self, where: str, value: Any) -> End | None:
        found = _END.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            form = "'model:subgraph:position' is expected, such as '0:0:1'"
            self.error(f"{where} is {_shown(value)}; {form}")
            return None
        return End(*(int(number) for number in found.groups()))

    def _ends(self, table: Mapping[str, Any], key: str) -> tuple[End, ...]:
        values = enumerate(self._list(table, key))
        ends = [self._end(f"'{key}'[{i}]", value) for i, value in values]
        return tuple(end for end in ends if end is not None)

    def _connections(self, table: Mapping[str, Any]) -> tuple[tuple[End, End], ...]:
        pairs: list[tuple[End, End]] = []
        for i, each in enumerate(self._list(table, "model-connect")):
            where = f"'model-connect'[{i}]"
            if not isinstance(each, dict) or not {"from", "to"} <= each.keys():
                self.error(f"{where} is {_shown(each)}; an object with 'from' and 'to' is expected")
                continue
            entry = cast(Mapping[str, Any], each)
            to: Any = entry["to"]
            targets = cast(list[Any], to) if isinstance(to, list) else [to]
            source = self._end(f"{where}, 'from'", entry["from"])
            ends = [self._end(f"{where}, 'to'[{k}]", end) for k, end in enumerate(targets)]
            pairs += [(source, end) for end in ends if source is not None and end is not None]
        return tuple(pairs)


def _shown(value: Any) -> str:
    """A value of JSON for messages, at most 60 characters of it."""
    text = printable(repr(value))
    return text if len(text) <= 60 else f"{text[:60]}..."
