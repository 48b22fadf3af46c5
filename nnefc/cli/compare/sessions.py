"""Compare the calls of a session with the float64 reference, call by call."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nnefc.cli.compare.tensors import row, tensor_rows
from nnefc.cli.support.session_calls import ReferenceSession

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from nnefc.cli.support.opened_model import DocumentModel
    from nnefc.cli.support.session_calls import SessionCalls
    from nnefc.ir import Graph

    Array = np.ndarray[Any, Any]


def compare_session(
    opened: DocumentModel,
    calls: SessionCalls,
    given: Mapping[str, Array],
    seed: int,
    steps: int,
    threads: int | None,
) -> list[dict[str, Any]]:
    """The rows of `steps` calls: the tensors of each, its results cut to size, and its states.

    The states of the reference are carried in float64.  The tensors of a call are computed from
    them, so they differ from their reference by the errors of this call only; results and states
    are those of the compiled session, whose errors may add up.  `given`: arrays of inputs,
    which serve all calls that take their shape; others are random.
    """
    if given and not opened.later:
        calls = replace(calls, later=calls.first)
    session = opened.compile_session(calls, threads).session()
    reference = ReferenceSession(calls.source)
    rows: list[dict[str, Any]] = []
    for step in range(steps):
        graph = reference.graph(calls.call(step).shapes)
        arrays = _arrays(graph, calls, given, seed + step)
        states = _in_types_of(graph, reference.state_inputs(graph))
        of_call, _ = tensor_rows(graph, {**arrays, **states}, threads, opened.accuracy)
        found = session.run(arrays)
        expected = reference.run(graph, arrays)
        of_call += [row(name, "", "output", found[name], expected[name]) for name in found]
        of_call += [
            row(name, "", "state", array, reference.states[name])
            for name, array in session.states.items()
        ]
        rows += [{"call": step + 1, **each} for each in of_call]
    return rows


def _arrays(
    graph: Graph, calls: SessionCalls, given: Mapping[str, Array], seed: int
) -> dict[str, Array]:
    """The arrays of the document's inputs: `given` ones of the right shape, else random ones."""
    from nnefc.runtime.memory.tensors import random_array

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
