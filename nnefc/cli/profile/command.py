"""`nnefc profile`: where the time of an inference goes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnefc.cli.profile.measure import ModelProfile, profile_model
from nnefc.cli.profile.report import call_facts, print_report, row_facts
from nnefc.cli.profile.rows import GroupBy, SortBy, arrange
from nnefc.cli.support.measurements import require_seconds
from nnefc.cli.support.opened_model import open_model
from nnefc.cli.support.option_groups import CompileOptions, DocumentOptions
from nnefc.cli.support.options import Duration, Json, ModelOrArtifact, Threads
from nnefc.cli.support.outputs import check_suffix
from nnefc.cli.support.printing import console, count, print_json
from nnefc.cli.support.symbols import naming_chosen, print_symbols, symbol_facts

Sort = Annotated[
    SortBy, typer.Option(help="By time, by order of execution, or by time above the limit.")
]
By = Annotated[GroupBy, typer.Option(help="A row for each launch, kind of operation, or kernel.")]
Top = Annotated[int | None, typer.Option(metavar="N", min=1, help="Show only the first N rows.")]
Trace = Annotated[
    Path | None,
    typer.Option(
        readable=False,
        metavar="FILE.json",
        help="Write when and on which thread each tile ran: a trace for ui.perfetto.dev or "
        "chrome://tracing.",
    ),
]
Picture = Annotated[
    Path | None,
    typer.Option(readable=False, metavar="FILE.svg", help="Draw where the time goes."),
]
Best = Annotated[
    bool,
    typer.Option(
        "--best",
        help="Show the shortest times instead of the medians: for machines with other load.",
    ),
]


Call = Annotated[
    int | None,
    typer.Option(
        "--call",
        metavar="N",
        min=1,
        help="Profile call N of a session of a model with states (default: 2, the first one that "
        "finds states).",
    ),
]


def profile(
    context: typer.Context,
    model: ModelOrArtifact,
    sort: Sort = SortBy.TIME,
    by: By = GroupBy.LAUNCH,
    top: Top = None,
    trace: Trace = None,
    picture: Picture = None,
    best: Best = False,
    call: Call = None,
    seconds: Duration = 1.0,
    threads: Threads = None,
    json: Json = False,
    *,
    compiling: CompileOptions,
    document: DocumentOptions,
) -> None:
    """Show the time of each launch of a compiled model, and how close it is to the machine's limit.

    The limit is the least time that the multiply-adds and the bytes of a launch can take, at the
    peak speed of this machine as measured in the same run. Times are medians over runs on random
    inputs; reading the clock adds some 50 ns to each.

    Examples:

        nnefc profile net.nnef.tgz

        nnefc profile net.nnef.tgz --by kernel --threads 1

        nnefc profile net.nnef.tgz --sort order --trace trace.json --picture profile.svg

        nnefc profile text.nnef.tgz --symbol S=128

        nnefc profile decoder.nnef.tgz --symbol S=128 --call 1
    """
    require_seconds("--duration", seconds)
    check_suffix("--trace", trace, ".json")
    check_suffix("--picture", picture, ".svg")
    opened = open_model(context, model, document, compiling, chooses=True)
    with naming_chosen(opened):
        measured = profile_model(opened, threads, seconds, best=best, call=call)
    _write_files(measured, trace, picture)
    facts = call_facts(measured)
    rows = arrange(measured.rows, by, sort)
    if json:
        facts |= symbol_facts(opened)
        print_json({"model": model, **facts, "rows": [row_facts(row) for row in rows[:top]]})
    else:
        print_symbols(console(), symbol_facts(opened))
        print_report(measured, rows[:top], len(rows) - len(rows[:top]), by, facts)


def _write_files(measured: ModelProfile, trace: Path | None, picture: Path | None) -> None:
    """Write the trace and the picture that were asked for."""
    from nnefc.formats.atomic import replace_file

    if trace is not None:
        from nnefc.cli.profile.trace_events import trace_text

        with replace_file(trace) as file:
            file.write(trace_text(measured.name, measured.launches, measured.profile))
    if picture is not None:
        from nnefc.cli.profile.icicle import draw

        with replace_file(picture) as file:
            title = f"{measured.name}, {count(measured.threads, 'thread')}"
            file.write(draw(title, measured.rows).encode())
