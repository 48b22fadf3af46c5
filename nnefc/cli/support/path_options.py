"""Paths of options, checked as typed: as a `Path`, an empty one is the folder `.`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from nnefc.cli.support.options import usage

_FILES: Final = (
    ".nnefc",
    ".npz",
    ".npy",
    ".dat",
    ".tgz",
    ".tar",
    ".html",
    ".svg",
    ".json",
    ".onnx",
)
"""Suffixes of files that are no names of folders."""


def check_paths(command: Any, annotations: Mapping[str, Any]) -> None:
    """Let a command refuse empty paths, and files that end with /.

    `annotations`: types of its options by name; those that contain `Path` are paths.
    """
    for parameter in command.params:
        if "Path" in str(get_args(annotations.get(parameter.name))[:1]):
            _check(parameter)


def _check(parameter: Any) -> None:
    process_value = parameter.process_value

    def checked(context: Any, value: Any) -> Any:
        if isinstance(value, str):
            check_path(max(parameter.opts, key=len), value)
        return process_value(context, value)

    parameter.process_value = checked


def check_path(option: str, path: str) -> None:
    """Raise NnefError `input/option` for an empty path, and for a file that ends with /."""
    if not path:
        raise usage(f"{option} '': the path is empty")
    name = path.rstrip("/")
    if name != path and name.lower().endswith(_FILES):
        raise usage(f"{option} {path}: a path that ends with / is a folder", f"{option} {name}")
