"""Compare the calls of a model that updates variables, call by call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnefc.cli.compare.tensors import compare_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from nnefc.cli.compare.comparison import Comparison
    from nnefc.cli.support.opened_model import OpenedModel

    Array = np.ndarray[Any, Any]


def compare_cycles(
    comparison: Comparison,
    opened: OpenedModel,
    inputs: Sequence[Mapping[str, Array]],
    threads: int | None,
) -> None:
    """Add the rows of calls, one for each of `inputs`.

    As in `compare_session`, the variables of the reference are carried in float64, and the tensors
    of a call are computed from them.  Several calls have rows for the variables after each.
    """
    graph, config, compiled = opened.graph, opened.config(threads), opened.compile(threads)
    variables: Mapping[str, Array] = {}
    for step, arrays in enumerate(inputs):
        if len(inputs) > 1:
            comparison.call = step + 1
        after = compare_model(comparison, graph, arrays, compiled, config, variables)
        variables = {label: after[label] for label in graph.updated_labels if label in after}
        if len(inputs) > 1:
            for label, expected in variables.items():
                comparison.add(label, "state", compiled.variables[label], expected)
