"""The progress bar of commands that measure several networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Job = TypeVar("Job")


def with_progress(
    jobs: Sequence[Job], label: Callable[[Job], str], console: Console
) -> Iterator[tuple[Job, Callable[[str], None]]]:
    """Each job with a function that shows a step in the progress bar."""
    columns = [
        TextColumn("{task.fields[what]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    ]
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(jobs), what="")
        for job in jobs:

            def tell(what: str, name: str = label(job)) -> None:
                progress.update(task, what=f"{name}: {what}")

            yield job, tell
            progress.advance(task)
