"""Compare the calls of a session with the float64 reference, call by call."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nnefc.cli.compare.tensors import compare_tensors
from nnefc.cli.support.session_calls import ReferenceSession

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    given: Mapping[str, Array],
    seed: int,
    steps: int,
    threads: int | None,
) -> None:
    """Add the rows of `steps` calls: the tensors of each, its results cut to size, its states.

    The states of the reference are carried in float64.  The tensors of a call are computed from
    them, so they differ from their reference by the errors of this call only; results and states
    are those of the compiled session, whose errors may add up.  `given`: arrays of inputs,
    which serve all calls that take their shape; others are random.
    """
    if given and not opened.later:
        calls = replace(calls, later=calls.first)
    session = opened.compile_session(calls, threads).session()
    reference = ReferenceSession(calls.source)
    for step in range(steps):
        comparison.call = step + 1
        graph = reference.graph(calls.call(step).shapes)
        arrays = _arrays(graph, calls, given, seed + step)
        states = _in_types_of(graph, reference.state_inputs(graph))
        compare_tensors(comparison, graph, {**arrays, **states}, threads, opened.accuracy)
        found = session.run(arrays)
        expected = reference.run(graph, arrays)
        for name, array in found.items():
            comparison.add(name, "output", array, expected[name])
        for name, array in session.states.items():
            comparison.add(name, "state", array, reference.states[name])


def _arrays(
    graph: Graph, calls: SessionCalls, given: Mapping[str, Array], seed: int
) -> dict[str, Array]:
    """The arrays of the document's inputs: `given` ones of the right shape, else random ones."""
    from nnefc.runtime.memory.caller_arrays import random_array

    return {
        value.name: given[value.name]
        if value.name in given and given[value.name].shape == value.type.dims
        else random_array(value.type, seed, value.name)
        for value in graph.inputs
        if value.name in calls.source.inputs
    }


def _in_types_of(graph: Graph, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Arrays converted to the item types of the inputs that they are for."""
    types = {value.name: value.type.dtype.numpy for value in graph.inputs}
    return {name: array.astype(types[name]) for name, array in arrays.items()}
