"""`nnefc cache`: list, explain, verify, clear and warm the cache."""

from __future__ import annotations

import re
import time
from typing import Annotated, Final

import typer

from nnefc.cli.cache.explain import explain
from nnefc.cli.cache.folders import open_all, open_kernels, open_weights
from nnefc.cli.cache.listing import SECONDS, list_entries
from nnefc.cli.cache.weights import survey_weights
from nnefc.cli.support.option_groups import CompileOptions, DocumentOptions, expand_groups
from nnefc.cli.support.options import Json, Threads, usage
from nnefc.cli.support.printing import count, print_json, progress, size

cache = typer.Typer(
    help="The cache of compiled kernels and models on disk, shared by all processes.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

_SECONDS: Final = {**SECONDS, "w": 7 * SECONDS["d"]}


def parse_age(text: str) -> float:
    """Seconds of an age such as "30d", "12h" or "1.5w"."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhdw])", text.strip(), re.IGNORECASE)
    if match is None:
        raise usage(
            f"--older-than {text}: not an age",
            "write a number and a unit: s, m, h, d or w, as in 30d",
        )
    return float(match[1]) * _SECONDS[match[2].lower()]


@cache.command("path")
def path(json: Json = False) -> None:
    """Print the folder of the cache.

    NNEFC_CACHE names another folder; NNEFC_CACHE=off turns the cache off. NNEFC_CACHE_LIMIT=512MB
    limits the size of the kernels (default 1 GB), and that of compiled models and their weights in
    a subfolder (default 8 GB).

    Examples:

        nnefc cache path

        du -sh $(nnefc cache path)
    """
    from nnefc.runtime.cache.kernel_cache import kernels_path, size_limit

    folder = kernels_path()
    if json:
        print_json({"path": folder, "limit_bytes": size_limit()})
    elif folder is None:
        open_kernels()  # raises the error
    else:
        typer.echo(folder)


cache.command("list", short_help="List the entries.")(list_entries)
cache.command("explain", short_help="Show which kernels of a model are cached, and why not.")(
    expand_groups(explain)
)


@cache.command("verify", short_help="Compare the checksums of all entries.")
def verify(
    repair: Annotated[bool, typer.Option("--repair", help="Remove damaged entries.")] = False,
    json: Json = False,
) -> None:
    """Compare the checksums of all entries; status 1 if a damaged entry remains.

    Damaged kernels are never used, so models need no verified cache: this finds disks that lose
    data. No other command verifies the weights of cached models.

    Examples:

        nnefc cache verify

        nnefc cache verify --repair
    """
    from nnefc.runtime.cache.report import survey

    kernels, weights = open_kernels(), open_weights()
    with progress("reading") as advance:
        entries = [(kernels, entry.file, entry.status) for entry in survey(kernels, advance)]
        if weights is not None:
            for file, is_whole in survey_weights(weights, advance):
                entries.append((weights, file, "whole" if is_whole else "damaged"))
    damaged = [(folder, file) for folder, file, state in entries if state == "damaged"]
    whole = sum(state == "whole" for _, _, state in entries)
    other = len(entries) - whole - len(damaged)
    removed = sum(folder.remove([file]) for folder, file in damaged) if repair else 0
    if json:
        facts = {"entries": len(entries), "whole": whole, "other_format": other}
        names = [file.name for _, file in damaged]
        print_json({**facts, "damaged": names, "removed": removed})
    else:
        for folder, file in damaged:
            typer.echo(f"damaged: {folder.path_of(folder.file_name(file.name))}")
        notes = [f"{whole:,} whole"]
        notes += [f"{len(damaged):,} damaged"] if damaged else []
        notes += [f"{other:,} of another format"] if other else []
        notes += [f"{removed:,} removed"] if removed else []
        typer.echo(f"{count(len(entries), 'entry', 'entries')}: {', '.join(notes)}")
    if len(damaged) > removed:
        typer.echo("hint: nnefc cache verify --repair removes damaged entries", err=True)
        raise typer.Exit(1)


@cache.command("clear", short_help="Remove entries.")
def clear(
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="Remove only entries not used for this long: 30d, 12h (units: s, m, h, d, w).",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Remove all entries, or those not used lately, but not the results of tuning.

    Compiled models in the cache are removed too. Running processes are not affected.

    Examples:

        nnefc cache clear

        nnefc cache clear --older-than 30d
    """
    min_age = None if older_than is None else parse_age(older_than)
    now = time.time()
    total = removed = nbytes = 0
    for folder in open_all():
        entries = list(folder.entries())
        chosen = [entry for entry in entries if min_age is None or now - entry.used > min_age]
        total += len(entries)
        removed += folder.remove(chosen)
        folder.sweep()
        nbytes += sum(entry.size for entry in chosen)
    if json:
        print_json({"removed": removed, "removed_bytes": nbytes, "left": total - removed})
        return
    left = f", {total - removed:,} left" if total > removed else ""
    typer.echo(f"removed {count(removed, 'entry', 'entries')}, {size(nbytes)}{left}")


Models = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL",
        help="Models whose kernels to compile, instead of the common ones.",
        show_default=False,
    ),
]
MoreModels = Annotated[list[str] | None, typer.Option("--models", "-m", hidden=True)]


@cache.command("warm", short_help="Compile kernels and models ahead of time.")
@expand_groups
def warm(
    models: Models = None,
    more_models: MoreModels = None,
    threads: Threads = None,
    json: Json = False,
    *,
    compiling: CompileOptions,
    document: DocumentOptions,
) -> None:
    """Compile kernels ahead of time; by default, the kernels that most networks need.

    For a model, kernels for --threads and for one thread are compiled, and the compiled model is
    stored where nnefc.compile with the same path, shapes, symbols, dialect and number of threads
    finds it. Artifacts contain their kernels and need no cache.

    For inputs with symbolic extents (in the dialect of tract), kernels are compiled for the shapes
    of --shape and --symbol; symbols without a value get small ones, which a note names.

    Examples:

        nnefc cache warm

        nnefc cache warm net.nnef.tgz other.nnef.tgz

        nnefc cache warm text.nnef.tgz --symbol S=128
    """
    from nnefc.cli.cache.models import store_model
    from nnefc.cli.cache.warm import compile_missing, graphs_to_warm, kernels_of

    names = [*(models or ()), *(more_models or ())]
    if not names and (options := document.changed()):
        raise usage(f"{options[0]} needs a model", "name one: nnefc cache warm net.nnef.tgz")
    folder, config = open_kernels(), compiling.config(threads)
    start = time.perf_counter()
    importing = {name: document.config_of(name) for name in names}
    report = compile_missing(kernels_of(graphs_to_warm(importing), config))
    stored = sum(store_model(name, each, config) for name, each in importing.items())
    seconds = time.perf_counter() - start
    if json:
        facts = {"kernels": report.kernels, "compiled": report.compiled, "models_kept": stored}
        print_json({**facts, "seconds": seconds})
        return
    of_models = f"; {count(stored, 'model')} stored" if stored else ""
    typer.echo(
        f"{count(report.kernels, 'kernel')}: {report.compiled:,} compiled, "
        f"{report.kernels - report.compiled:,} available before{of_models}; {seconds:.1f} s, "
        f"in {folder.path}"
    )
