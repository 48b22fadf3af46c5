"""`nnefc tune` and `nnefc compile --tune`: run the tuning and print its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnefc.cli.support.measurements import duration
from nnefc.cli.support.printing import count, print_table, progress, table

if TYPE_CHECKING:
    from rich.console import Console

    from nnefc.driver.tuning import Tuning
    from nnefc.ir import Graph
    from nnefc.options.compile_config import CompileConfig


def run_tuning(graph: Graph, config: CompileConfig) -> Tuning:
    """Measure the algorithms of each convolution, with a progress bar on standard error."""
    from nnefc.driver.tuning import tune_graph

    with progress("tuning") as advance:
        return tune_graph(graph, config.threads, advance, config.precision)


def tuning_facts(tuning: Tuning) -> dict[str, Any]:
    """The choices of a tuning, for JSON."""
    return {
        "threads": tuning.threads,
        "kept": tuning.kept,
        "before_ms": 1e3 * tuning.before_seconds,
        "after_ms": 1e3 * tuning.after_seconds,
        "choices": [
            {
                "operations": list(choice.operations),
                "key": choice.key,
                "before": choice.before,
                "after": choice.after,
                "before_ms": 1e3 * choice.before_seconds,
                "after_ms": 1e3 * choice.after_seconds,
            }
            for choice in tuning.choices
        ],
    }


def print_tuning(out: Console, tuning: Tuning) -> None:
    """Print a row for each kind of convolution whose algorithm changed, then the whole call."""
    if not tuning.choices:
        out.print("tuning: every operation has only one algorithm")
        return
    if tuning.changed:
        columns = ("convolution", "estimated", "measured", "before", "after", "gain")
        view = table(*columns, numeric=columns[3:], fold=["convolution"])
        for choice in tuning.changed:
            name, *others = choice.operations
            view.add_row(
                name + (f" and {count(len(others), 'other')} like it" if others else ""),
                choice.before,
                choice.after,
                duration(choice.before_seconds),
                duration(choice.after_seconds),
                _gain(choice.before_seconds, choice.after_seconds),
            )
        print_table(out, view)
    out.print(
        f"tuning for {count(tuning.threads, 'thread')}: {len(tuning.changed)} of "
        f"{count(len(tuning.choices), 'kind')} of convolutions changed; time of a call "
        f"{duration(tuning.before_seconds)} -> {duration(tuning.after_seconds)} "
        f"({_gain(tuning.before_seconds, tuning.after_seconds)})"
    )
    if not tuning.kept:
        out.print("the choices could not be stored: no cache can be written")


def _gain(before: float, after: float) -> str:
    return f"{100 * (after / before - 1):+.1f} %"
