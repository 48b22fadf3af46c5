"""`nnefc compile --emit c`: a folder for programs in C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnefc.cli.support.options import usage
from nnefc.cli.support.printing import size
from nnefc.formats.files import printable
from nnefc.support.errors import NnefError, Place

if TYPE_CHECKING:
    from rich.console import Console

    from nnefc.cli.compile.results import CompileResult

Emit = Annotated[
    str | None,
    typer.Option(
        "--emit",
        metavar="c",
        help="Write a folder for programs in C instead of an artifact: object, header, weights, "
        "example; -o names the folder, which must not be there, or be empty.",
        autocompletion=lambda: ["c"],
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="With --emit: what the names of functions and files begin with (default: the name of "
        "the graph).",
    ),
]


@dataclass(frozen=True, slots=True)
class Emission:
    """The options of `--emit`, checked."""

    folder: Path
    name: str | None
    target: str


def check_emit(
    emit: str | None, output: Path | None, name: str | None, targets: Sequence[str] | None
) -> Emission | None:
    """The checked options of `--emit`; None without it.  Errors are raised before compiling."""
    from nnefc.driver.targets import check_targets
    from nnefc.emit.names import check_name
    from nnefc.kernels.target.isa import NATIVE

    if emit is None:
        if name is not None:
            raise usage(f"--name {name}: nothing gets a name", "add --emit c -o FOLDER")
        return None
    if emit != "c":
        raise usage(f"--emit {emit}: this is not known", "--emit c")
    if output is None:
        raise usage("--emit c: there is no folder to write into", "add -o FOLDER")
    if name is not None:
        check_name(name)
    place = Place(printable(str(output)))
    if not output.absolute().parent.is_dir():
        raise NnefError.of("data/write", "its folder is not there", place, "make it first")
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise NnefError.of("data/write", "this is there, and no empty folder", place)
    wanted = check_targets([each for text in targets or [NATIVE] for each in text.split(",")])
    if len(wanted) > 1:
        raise usage(
            f"--target {','.join(wanted)}: an object has code for one", "give each a folder"
        )
    return Emission(output, name, wanted[0])


def write_folder(made: CompileResult, emission: Emission) -> dict[str, Any]:
    """Write the folder; its files with their sizes, as plain data."""
    folder = emission.folder
    names = made.emit_c(folder, emission.name)
    return {
        "path": str(folder),
        "target": emission.target,
        "files": {name: (folder / name).stat().st_size for name in names},
    }


def show_emitted(out: Console, facts: dict[str, Any]) -> None:
    """Print the folder and its files in a line."""
    files = [f"{name} ({size(nbytes)})" for name, nbytes in facts["files"].items()]
    out.print(f"{facts['path']}: {', '.join(files)}")
