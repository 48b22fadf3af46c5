"""`nnefc cache`: list, explain, verify, clear and warm the cache."""

from __future__ import annotations

import re
import time
from typing import Annotated, Final

import typer

from nnefc.cli.cache.tables import SECONDS, explain, list_entries, open_cache
from nnefc.cli.cache.weights import folders, open_weights, survey_weights
from nnefc.cli.support.options import (
    Dialect,
    Json,
    RandomWeights,
    Shapes,
    Threads,
    parse_import,
    usage,
)
from nnefc.cli.support.printing import count, print_json, progress, reported_warnings, size

cache = typer.Typer(
    help="The cache of compiled kernels and models on disk, shared by all processes.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
cache.command("list")(list_entries)
cache.command("explain")(explain)

_SECONDS: Final = {**SECONDS, "w": 7 * SECONDS["d"]}


def parse_age(text: str) -> float:
    """Seconds of "30d", "12h", "1.5w"."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhdw])", text.strip(), re.IGNORECASE)
    if found is None:
        raise usage(
            f"--older-than {text}: no age",
            "a number and s, m, h, d or w: seconds, minutes, hours, days, weeks",
        )
    return float(found[1]) * _SECONDS[found[2].lower()]


@cache.command("path")
def path(json: Json = False) -> None:
    """Print the folder of the cache.

    NNEFC_CACHE names another folder; NNEFC_CACHE=off turns the cache off. NNEFC_CACHE_LIMIT=512MB
    limits the size of the kernels (default 1 GB), and that of compiled models and their weights in
    the folder below (default 8 GB).

    Examples:

        nnefc cache path

        du -sh $(nnefc cache path)
    """
    from nnefc.runtime.cache.kernel_cache import kernels_path, size_limit

    where = kernels_path()
    if json:
        print_json({"path": where, "limit_bytes": size_limit()})
    elif where is None:
        open_cache()  # which says so
    else:
        typer.echo(where)


@cache.command("verify")
def verify(
    repair: Annotated[
        bool, typer.Option("--repair", help="Remove the entries that are damaged.")
    ] = False,
    json: Json = False,
) -> None:
    """Compare the checksums of all entries; status 1 if a damaged entry remains.

    Damaged kernels are never used, so this is not needed before running models: it finds disks that
    lose data. The weights of cached models are compared nowhere else.

    Examples:

        nnefc cache verify

        nnefc cache verify --repair
    """
    from nnefc.runtime.cache.survey import survey

    kernels, weights = open_cache(), open_weights()
    with progress("reading") as advance:
        entries = [(kernels, entry.file, entry.state) for entry in survey(kernels, advance)]
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
            typer.echo(f"damaged: {folder.where(folder.file_name(file.name))}")
        notes = [f"{whole:,} whole"]
        notes += [f"{len(damaged):,} damaged"] if damaged else []
        notes += [f"{other:,} of another format"] if other else []
        notes += [f"{removed:,} removed"] if removed else []
        typer.echo(f"{count(len(entries), 'entry', 'entries')}: {', '.join(notes)}")
    if len(damaged) > removed:
        typer.echo("hint: nnefc cache verify --repair removes what is damaged", err=True)
        raise typer.Exit(1)


@cache.command("clear")
def clear(
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="Remove only entries that were not used for this long: 30d, 12h (s, m, h, d, w).",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Remove all entries, or those not used lately; the results of tuning stay.

    Running processes are not affected. Compiled models in the cache are removed too.

    Examples:

        nnefc cache clear

        nnefc cache clear --older-than 30d
    """
    at_least = None if older_than is None else parse_age(older_than)
    now = time.time()
    there = removed = nbytes = 0
    for folder in folders(open_cache()):
        entries = list(folder.entries())
        chosen = [entry for entry in entries if at_least is None or now - entry.used > at_least]
        there += len(entries)
        removed += folder.remove(chosen)
        folder.sweep()
        nbytes += sum(entry.size for entry in chosen)
    if json:
        print_json({"removed": removed, "removed_bytes": nbytes, "left": there - removed})
        return
    left = f", {there - removed:,} left" if there > removed else ""
    typer.echo(f"removed {count(removed, 'entry', 'entries')}, {size(nbytes)}{left}")


@cache.command("warm")
def warm(
    named: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL",
            help="Models whose kernels to compile, instead of the common ones.",
            show_default=False,
        ),
    ] = None,
    also: Annotated[list[str] | None, typer.Option("--models", "-m", hidden=True)] = None,
    shape: Shapes = None,
    random_weights: RandomWeights = None,
    dialect: Dialect = "auto",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Compile kernels ahead of time: by default those that most networks need.

    For a model, kernels for --threads and for one thread are compiled, and the compiled model is
    stored where nnefc.compile with the same path, shapes, dialect and number of threads finds it.
    Artifacts contain their kernels: there is nothing to warm.

    If inputs have symbols for extents (in the dialect of tract), kernels are compiled for the
    shapes of --shape; symbols without a value get small values, which a note names.

    Examples:

        nnefc cache warm

        nnefc cache warm net.nnef.tgz other.nnef.tgz

        nnefc cache warm text.nnef.tgz --shape tokens=1,128
    """
    from nnefc.cli.cache.models import store_model
    from nnefc.cli.cache.warm import GraphToWarm, graphs_of_models, kernels_of, warm_up
    from nnefc.driver import typical_graphs
    from nnefc.options.compile_config import CompileConfig

    models = [*(named or ()), *(also or ())]
    if shape and not models:
        raise usage("--shape is for models", "name one: nnefc cache warm net.nnef.tgz")
    folder = open_cache()
    start = time.perf_counter()
    importing = parse_import(shapes=shape, random_weights=random_weights, dialect=dialect)
    config = CompileConfig.of(threads)
    graphs = (
        graphs_of_models(models, importing) if models else map(GraphToWarm, typical_graphs.graphs())
    )
    with reported_warnings():
        done = warm_up(kernels_of(graphs, threads))
    kept = sum(store_model(model, importing, config) for model in models)
    seconds = time.perf_counter() - start
    if json:
        facts = {"kernels": done.kernels, "compiled": done.compiled, "models_kept": kept}
        print_json({**facts, "seconds": seconds})
        return
    whole = f"; {count(kept, 'model')} kept" if kept else ""
    typer.echo(
        f"{count(done.kernels, 'kernel')}: {done.compiled:,} compiled, "
        f"{done.kernels - done.compiled:,} were there{whole}; {seconds:.1f} s, in {folder.path}"
    )
