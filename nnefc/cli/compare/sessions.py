"""Compare the calls of a session, call by call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnefc.cli.compare.tensors import compare_tensors
from nnefc.cli.support.session_calls import ReferenceSession

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from nnefc.cli.compare.comparison import Comparison
    from nnefc.cli.support.opened_model import DocumentModel
    from nnefc.cli.support.session_calls import SessionCalls
    from nnefc.ir import Graph

    Array = np.ndarray[Any, Any]


def compare_session(
    comparison: Comparison,
    opened: DocumentModel,
    calls: SessionCalls,
    inputs: Sequence[Mapping[str, Array]],
    threads: int | None,
) -> None:
    """Add the rows of calls, one for each of `inputs`.

    The rows of a call are its tensors, its results cut to size, and the states; or only its results
    where those of another engine replace the reference.

    The states of the reference are carried in float64.  The tensors of a call are computed from
    them, so they differ from their reference by the errors of this call only; results and states
    are those of the compiled session, whose errors may add up.
    """
    session = opened.compile_session(calls, threads).session()
    config = opened.config(threads)
    reference = ReferenceSession(calls.source, config.check_indices)
    for step, arrays in enumerate(inputs):
        comparison.call = step + 1
        comparison.add_inputs(arrays)
        if not comparison.needs_reference:
            comparison.add_against(session.run(arrays))
            continue
        graph = reference.graph(calls.call(step).shapes)
        states = _in_types_of(graph, reference.state_inputs(graph))
        compare_tensors(comparison, graph, {**arrays, **states}, config)
        found = session.run(arrays)
        expected = reference.run(graph, arrays)
        for name, array in found.items():
            comparison.add(name, "output", array, expected[name])
        for name, array in session.states.items():
            comparison.add(name, "state", array, reference.states[name])
        comparison.add_against(found)


def _in_types_of(graph: Graph, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays converted to the item types of the inputs that they are for."""
    types = {value.name: value.type.dtype.numpy for value in graph.inputs}
    return {name: array.astype(types[name]) for name, array in arrays.items()}
