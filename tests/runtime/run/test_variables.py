"""Variables of `CompiledModel` that the graph updates: values, concurrent calls, forks."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import numpy as np
import pytest

from nnefc.ir import DType, Graph, Op, TensorType, Variable
from nnefc.lower import lower
from nnefc.runtime.run.compiled_model import CompiledModel
from nnefc.support.errors import NnefError

I32 = DType.INT32


def counter() -> CompiledModel:
    """A model that adds its input to variable N, and returns the new N plus variable w."""
    graph = Graph("counter")
    x = graph.add_input(TensorType(I32, (4,)), "x")
    type_ = TensorType(I32, (4,))
    graph.variables["n"] = Variable("N", type_, np.zeros(4, np.int32))
    graph.variables["w"] = Variable("w", type_, np.arange(4, dtype=np.int32))
    n = graph.insert(Op("variable", [], {"label": "N", "shape": (4,)}, [type_])).output
    w = graph.insert(Op("variable", [], {"label": "w", "shape": (4,)}, [type_])).output
    total = graph.insert(Op("add", [n, x], {}, [type_])).output
    graph.insert(Op("update", [n, total], {}, [type_]))
    graph.add_output(graph.insert(Op("add", [total, w], {}, [type_])).output, "y")
    return CompiledModel.of(lower(graph), graph, threads=1)


def test_variables_can_be_read_and_assigned() -> None:
    model = counter()
    one = np.ones(4, np.int32)
    np.testing.assert_array_equal(model(one), [1, 2, 3, 4])
    np.testing.assert_array_equal(model(one), [2, 3, 4, 5])
    assert dict(model.variables).keys() == {"N", "w"}
    np.testing.assert_array_equal(model.variables["n"], [2] * 4)
    model.variables["n"][:] = 99  # a copy
    np.testing.assert_array_equal(model.variables["n"], [2] * 4)
    model.variables["N"] = np.full(4, 10, np.int32)
    np.testing.assert_array_equal(model(one), [11, 12, 13, 14])
    model.reset()
    np.testing.assert_array_equal(model(one), [1, 2, 3, 4])
    np.testing.assert_array_equal(model.variables["w"], range(4))
    assert "nothing" not in model.variables
    with pytest.raises(KeyError, match="no variable 'nothing'; the variables are 'N', 'w'"):
        model.variables["nothing"]
    wrong: list[tuple[Any, str]] = [
        (np.zeros(4), "^error: variable 'n' is float64"),
        (np.zeros(3, np.int32), "^error: variable 'n' has shape"),
        ([1], "^error: variable 'n' is a list"),
    ]
    for value, message in wrong:
        with pytest.raises(NnefError, match=message) as caught:
            model.variables["n"] = value
        assert "shapes={" not in caught.value.errors[0].hint
    with pytest.raises(NnefError, match="compiled in"):
        model.variables["w"] = one
    with pytest.raises(NnefError):
        del model.variables["n"]


def test_the_initial_data_is_never_written() -> None:
    data = np.zeros(4, np.int32)
    data.flags.writeable = False
    model = counter()
    model.graph.variables["n"].data = data
    model.reset()
    model(np.ones(4, np.int32))
    assert not data.any()


def test_concurrent_runs_of_a_model_with_states_are_serialised() -> None:
    model = counter()
    one = np.ones(4, np.int32)
    callers = [threading.Thread(target=lambda: [model(one) for _ in range(200)]) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    np.testing.assert_array_equal(model.variables["n"], [1200] * 4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_another_thread_uses_the_state() -> None:
    model = counter()
    one = np.ones(4, np.int32)
    stop = threading.Event()
    held = threading.Event()

    def hold() -> None:
        with model.variables.lock:
            held.set()
            stop.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        model.reset()
        os._exit(0 if (model(one) == [1, 2, 3, 4]).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    stop.set()
    holder.join()
    np.testing.assert_array_equal(model(one), [1, 2, 3, 4])
