"""The tables of `nnefc cache list` and `nnefc cache explain`."""

from __future__ import annotations

import time
from heapq import nlargest
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from nnefc.cli.cache.weights import open_weights, weights_record
from nnefc.cli.support.models import load
from nnefc.cli.support.options import (
    Accuracy,
    Dialect,
    Json,
    LimitOptions,
    Model,
    RandomWeights,
    Scalar,
    Shapes,
    Threads,
    parse_import,
)
from nnefc.cli.support.printing import (
    console,
    count,
    print_json,
    print_table,
    progress,
    reported_warnings,
    size,
    table,
)
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nnefc.cli.cache.models import ModelAnswer
    from nnefc.runtime.cache.folder import CacheFolder
    from nnefc.runtime.cache.survey import CacheLookup, SurveyedEntry

SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
"""Of units of time."""
_SHOWN: Final = 72
"""Characters of arguments in a table: those of long expressions are left to `--json`."""

_ROWS: Final = 100
"""Entries that are listed without --all."""


def open_cache() -> CacheFolder:
    """The folder; NnefError if there is none, or none that can be trusted."""
    from nnefc.runtime.cache.kernel_cache import open_kernel_folder

    folder = open_kernel_folder()
    if folder is None:
        raise NnefError.of(
            "internal/cache",
            "there is no cache of kernels: NNEFC_CACHE is off",
            hint="set it to a folder, or unset it",
        )
    return folder


def list_entries(
    all: Annotated[
        bool, typer.Option("--all", help=f"Show every entry, not only {_ROWS} of them.")
    ] = False,
    json: Json = False,
) -> None:
    """List the entries: kernel, arguments, instruction set, size, age, last use (to a day).

    Of many entries those used last are shown. The last line counts the cached models and weights;
    --json lists them too, and all entries.

    Examples:

        nnefc cache list

        nnefc cache list --all

        nnefc cache list --json
    """
    from nnefc.runtime.cache.survey import survey

    folder, weights = open_cache(), open_weights()
    files = list(folder.entries())
    shown = files if all or json else nlargest(_ROWS, files, key=lambda file: file.used)
    with progress("reading") as advance:
        entries = sorted(survey(folder, advance, shown), key=_order)
    kept = [] if weights is None else sorted(weights.entries())
    if json:
        print_json([*map(_record, entries), *map(weights_record, kept)])
        return
    numeric = ["size", "age", "last use"]
    view = table(
        "kernel", "arguments", "instructions", *numeric, numeric=numeric, fold=["arguments"]
    )
    now = time.time()
    for entry in entries:
        facts = _facts_of(entry)
        view.add_row(
            facts.get("family", f"({entry.state})"),
            _short(facts.get("arguments", "")),
            facts.get("instruction set: name", ""),
            size(entry.file.size),
            age(now - entry.header.created) if entry.header else "",
            age(now - entry.file.used),
        )
    out = console()
    if entries:
        print_table(out, view)
    if len(files) > len(shown):
        out.print(f"… and {len(files) - len(shown):,} more: --all shows them")
    total = sum(file.size for file in files)
    out.print(
        f"{count(len(files), 'entry', 'entries')}, {size(total)} of at most "
        f"{size(folder.limit)} in {folder.path}"
    )
    if weights is not None and kept:
        total = sum(file.size for file in kept)
        out.print(
            f"{count(len(kept), 'entry', 'entries')} of models and weights, {size(total)} of "
            f"at most {size(weights.limit)} in {weights.path}"
        )


def _order(entry: SurveyedEntry) -> tuple[str, str, str]:
    facts = _facts_of(entry)
    return facts.get("family", ""), facts.get("arguments", ""), entry.file.name


def _facts_of(entry: SurveyedEntry) -> Mapping[str, str]:
    return entry.header.facts if entry.header is not None else {}


def _record(entry: SurveyedEntry) -> dict[str, Any]:
    header = entry.header
    return {
        "kind": "kernel",
        "name": entry.file.name,
        "state": entry.state,
        "bytes": entry.file.size,
        "used": entry.file.used,
        "created": header and header.created,
        "machine": header and header.machine,
        "facts": header and dict(header.facts),
    }


def explain(
    model: Model,
    random_weights: RandomWeights = None,
    shape: Shapes = None,
    dialect: Dialect = "auto",
    scalar: Scalar = "float32",
    threads: Threads = None,
    accuracy: Accuracy = "fast",
    json: Json = False,
    limit: LimitOptions = None,
) -> None:
    """Show for each kernel of a model whether it is in the cache, and if not, why.

    A missing kernel is compared with the nearest entry of the same kernel: another source, another
    processor, another version of numba. The same is shown for the whole compiled model, which needs
    none of its kernels if nnefc.compile has stored it. Nothing is compiled, and nothing is written.
    Artifacts contain their kernels, and need no cache.

    Examples:

        nnefc cache explain net.nnef.tgz

        nnefc cache explain graph.nnef --random-weights 1 --json
    """
    from nnefc.cli.cache.models import explain_model
    from nnefc.driver.lower import lower_graph
    from nnefc.kernels.target.isa import host
    from nnefc.options.compile_config import CompileConfig
    from nnefc.runtime.cache.survey import EntryIndex, survey
    from nnefc.runtime.compile import support_code
    from nnefc.runtime.compile.unit import key_of

    with progress("reading") as advance:
        index = EntryIndex.of(survey(open_cache(), advance))
    importing = parse_import(
        shapes=shape,
        random_weights=random_weights,
        scalar=scalar,
        limits=limit,
        dialect=dialect,
    )
    graph = load(model, importing)
    config = CompileConfig.of(threads, accuracy)
    with reported_warnings():
        program = lower_graph(graph, config)
    isa = host()
    sources = [*dict.fromkeys(program.kernels), *support_code.functions("executor")]
    keys = [key_of(source, isa) for source in sources]
    answers = [index.explain(key) for key in keys if key is not None]
    whole = explain_model(model, importing, config)
    if json:
        print_json([*map(_answer, answers), _model_record(whole)])
        return
    view = table("kernel", "arguments", "in the cache", fold=["arguments", "in the cache"])
    for answer in answers:
        found = "yes" if answer.hit else f"no: {'; '.join(answer.reasons)}"
        view.add_row(answer.key.family, _short(answer.key.arguments), found)
    out = console()
    print_table(out, view)
    hits = sum(answer.hit for answer in answers)
    out.print(f"{hits} of {count(len(answers), 'kernel')} in the cache")
    if alone := len(keys) - len(answers):
        out.print(f"{count(alone, 'kernel')} of other packages, which are not kept on disk")
    out.print(
        f"the compiled model is not there: {'; '.join(whole.reasons)}"
        if whole.reasons
        else "the compiled model is there, and needs none of them"
    )


def _model_record(whole: ModelAnswer) -> dict[str, Any]:
    return {
        "kind": "model",
        "family": None,
        "arguments": None,
        "name": whole.name,
        "hit": not whole.reasons,
        "reasons": list(whole.reasons),
    }


def _answer(answer: CacheLookup) -> dict[str, Any]:
    return {
        "kind": "kernel",
        "family": answer.key.family,
        "arguments": answer.key.arguments,
        "name": answer.key.name,
        "hit": answer.hit,
        "reasons": list(answer.reasons),
    }


def age(seconds: float) -> str:
    """A duration in the largest unit that fits: 3 d."""
    if seconds < 0:
        return "to come"
    unit = max((u for u in SECONDS if seconds >= SECONDS[u]), key=SECONDS.__getitem__, default="s")
    return f"{seconds / SECONDS[unit]:.0f} {unit}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
