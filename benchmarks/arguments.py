"""Parse and check arguments of the benchmarks, before anything is measured."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import artifacts
from benchmarks.engines import ENGINES
from benchmarks.zoo import ZOO

Engines = Annotated[str, typer.Option(help="Engines; commas between.")]
ThreadCounts = Annotated[str, typer.Option(help="Numbers of threads; commas between.")]
Rounds = Annotated[int, typer.Option(help="Turns of each engine.", min=1)]
Turn = Annotated[float, typer.Option(help="Seconds of a turn.", min=0.0)]
Json = Annotated[Path | None, typer.Option(help="Write all results as JSON.")]
ModelsDir = Annotated[
    Path | None, typer.Option(help="Folder for network files (default: in the user's cache).")
]


def run(main: Callable[..., None]) -> None:
    """Call `main` with the command-line arguments; wrong ones are errors without traceback."""
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
    app.command()(main)
    app()


def fail(message: str) -> typer.Exit:
    """Print an error to standard error; returns an exception that exits with status 1."""
    Console(stderr=True).print(f"error: {message}", highlight=False, markup=False, soft_wrap=True)
    return typer.Exit(1)


def items_of(text: str, option: str) -> list[str]:
    """The distinct items between commas; an error if there are none."""
    items = list(dict.fromkeys(item.strip() for item in text.split(",") if item.strip()))
    if not items:
        raise typer.BadParameter(f"{option} is empty")
    return items


def known_of(text: str, option: str, known: Collection[str]) -> list[str]:
    """The distinct names between commas; an error if one is not in `known`."""
    names = items_of(text, option)
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"{option}: {name!r} is not one of {', '.join(known)}")
    return names


def counts_of(text: str, option: str) -> list[int]:
    """Positive integers between commas."""
    items = items_of(text, option)
    for item in items:
        if not item.isdecimal() or int(item) < 1:
            raise typer.BadParameter(f"{option}: {item!r} is not a positive integer")
    return [int(item) for item in items]


def engines_of(text: str) -> list[str]:
    """Names of engines between commas; an error for unknown ones."""
    names = items_of(text, "--engines")
    for name in names:
        if name not in ENGINES:
            raise typer.BadParameter(f"unknown engine {name!r}; one of {', '.join(ENGINES)}")
    return names


def check_networks(names: Iterable[str], batches: Sequence[int], folder: Path) -> None:
    """Raise an error for names that are neither in the zoo nor readable with each batch."""
    from nnefc import NnefError, NnefWarning

    for name in names:
        if name in ZOO:
            continue
        if not name or not Path(name).exists():
            raise typer.BadParameter(
                f"{name!r} is neither a network nor a file; networks: {', '.join(ZOO)}"
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NnefWarning)
                for batch in batches:
                    network = artifacts.prepare(name, folder, batch)
                    artifacts.import_graph(network, data=False)
        except (NnefError, OSError) as error:
            raise fail(str(error)) from None


def models_folder(option: Path | None) -> Path:
    """The folder for network files, which is created; an error if it cannot be written to."""
    folder = (option or artifacts.default_folder()).expanduser().resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise typer.BadParameter(f"--models-dir: {folder}: {error.strerror}") from None
    return folder


def check_writable(path: Path | None, option: str) -> None:
    """Raise an error unless a file can be written; an existing file is not changed."""
    if path is None:
        return
    is_new = not path.exists()
    try:
        with path.open("a"):
            pass
        if is_new:
            path.unlink()
    except OSError as error:
        raise typer.BadParameter(f"{option}: {path}: {error.strerror}") from None
