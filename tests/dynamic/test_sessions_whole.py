"""Calls of a session are atomic under interrupts, other threads and forks."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import nnefc.dynamic.states
from nnefc.dynamic.dynamic_model import DynamicModel, Session
from nnefc.runtime.run.executable import session_layout
from tests.helpers.graphs.dynamic_models import model, rows

Array = np.ndarray[Any, Any]

IN_CALLS = {"memory_for", "store", "_with_capacity", "_grown", "_leading_items"}
"""Functions of `nnefc.dynamic.states` that a call goes through, with the lock of the session."""


@pytest.fixture
def several(tmp_path: Path) -> Iterator[DynamicModel]:
    """A model with two growing states, and one that each call replaces."""
    yield model(
        tmp_path,
        """graph g(x) -> (all, y, twice) {
          x = tract_core_external(shape = [S, 4], datum_type = 'f32');
          all = tract_transformers_dyn_kv_cache(x, name = 'kept', axis = 0);
          y = tract_extra_exp_mean_norm(x, [0.0, 0.0, 0.0, 0.0], axis = 0, alpha = 0.5);
          twice = tract_transformers_dyn_kv_cache(2.0 * x, name = 'twice', axis = 0);
        }""",
        "extension tract_registry tract_transformers;\nextension tract_registry tract_extra;\n"
        "extension tract_symbol S;\n",
    )


def states_after(x: Array) -> dict[str, Array]:
    mean = np.zeros(4)
    for row in x:
        mean = 0.5 * row + 0.5 * mean
    return {"kept": x, "twice": 2 * x, "running_mean_1": mean}


def holds(session: Session, x: Array) -> bool:
    """Whether a session has the states expected after these rows."""
    wanted, states = states_after(x), dict(session.states)
    assert session.shapes == {name: array.shape for name, array in states.items()}
    return all(
        states[name].shape == array.shape and np.allclose(states[name], array, rtol=1e-4, atol=1e-5)
        for name, array in wanted.items()
    )


def interrupted_at(number: int, call: Callable[[], object]) -> bool:
    """Run `call` with an interrupt at bytecode `number` of `IN_CALLS`; whether it was reached."""
    left = number

    def instruction(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        frame.f_trace_opcodes = True
        left -= event == "opcode"
        if left == 0:
            left = -1
            raise KeyboardInterrupt
        return instruction

    def function(frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        ours = code.co_filename == nnefc.dynamic.states.__file__ and code.co_name in IN_CALLS
        return instruction(frame, event, argument) if ours else None

    before = sys.gettrace()
    sys.settrace(function)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("count", [30, 31])
def test_interrupted_calls_are_atomic(several: DynamicModel, count: int) -> None:
    """One count of rows leaves spare capacity, the other does not."""
    session, first, x = several.session(), rows(count), rows(3)
    session(first)
    session(x[:1])
    begin = dict(session.states)
    both, every = np.concatenate([first, x[:1]]), np.concatenate([first, x])
    outcomes: set[bool] = set()
    number = 1
    while True:
        session.states.update(begin)
        if number % 2:
            session(x[1:2])  # the discarded items of this call remain in memory
            session.states.update(begin)
        if not interrupted_at(number, lambda: session(x[1:2])):
            break
        was_made = holds(session, every[:-1])
        assert was_made or holds(session, both), number
        outcomes.add(was_made)
        session(x[2:] if was_made else x[1:])
        assert holds(session, every), number
        number += 1
    assert outcomes == {False, True}
    assert number > 40


def test_memory_of_states_outlives_the_call(several: DynamicModel) -> None:
    """A running call keeps the memory of its states alive, even if the session is deleted."""
    session = several.session()
    session(rows(3))
    plan = several.plan_for([(1, 4)], session.shapes)
    given = session.states.memory_for(plan.inputs, session_layout(plan).states)
    session.states.clear()
    for array, address in zip(given.arrays, given.addresses, strict=True):
        assert array.ctypes.data == address
    np.testing.assert_array_equal(given.arrays[0][:3], rows(3))


@pytest.mark.parametrize("change", ["set", "delete", "clear", "reset"])
def test_nobody_changes_states_while_a_call_runs(several: DynamicModel, change: str) -> None:
    session = several.session()
    session(rows(3))
    states = session.states
    changes: dict[str, Callable[[], object]] = {
        "set": lambda: states.update(kept=rows(7)),
        "delete": lambda: states.pop("kept"),
        "clear": states.clear,
        "reset": session.reset,
    }
    thread = threading.Thread(target=changes[change])
    with states.lock:
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
        assert session.shapes["kept"] == (3, 4)
    thread.join()
    assert session.shapes.get("kept") == ((7, 4) if change == "set" else None)


def test_calls_of_a_model_without_states_do_not_wait_for_each_other(
    several: DynamicModel, tmp_path: Path
) -> None:
    """Those with states do, at the first call already."""
    stateless = model(
        tmp_path,
        "graph g(x) -> (y) { x = tract_core_external(shape = [S, 4], datum_type = 'f32');"
        " y = x + 1.0; }",
        "extension tract_symbol S;\n",
    )
    for called, waits in ((stateless, False), (several, True)):
        session, x = called.session(), rows(3)
        for _ in range(2):
            thread = threading.Thread(target=session, args=(x,))
            with session.states.lock:
                thread.start()
                thread.join(0.2 if waits else 30)
                assert thread.is_alive() == waits
            thread.join(30)
            assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_other_threads_call_and_plan(several: DynamicModel) -> None:
    session, held, stop = several.session(), threading.Event(), threading.Event()
    session(rows(3))
    plans = several._plans  # pyright: ignore[reportPrivateUsage]

    def hold() -> None:
        with session.states.lock, plans._making, plans._lock:  # pyright: ignore[reportPrivateUsage]
            held.set()
            stop.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        session(rows(2))
        os._exit(0 if holds(session, np.concatenate([rows(3), rows(2)])) else 1)
    assert os.waitpid(child, 0)[1] == 0
    stop.set()
    holder.join()
    session(rows(4))
    assert holds(session, np.concatenate([rows(3), rows(4)]))


def test_assigned_arrays_may_change_their_shape(several: DynamicModel) -> None:
    session, array = several.session(), rows(3)
    session.states["kept"] = array
    setattr(array, "shape", (12,))  # noqa: B010 - deprecated, and done
    assert session.shapes == {"kept": (3, 4)}
    np.testing.assert_array_equal(session(rows(1))[0], np.concatenate([rows(3), rows(1)]))
