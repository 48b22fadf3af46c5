"""Subgraphs as branches and turns, and variables by handle, compared with LiteRT."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.support.errors import NnefError
from tests.helpers.tflite.one_operator import litert_results, reference_results, source_of
from tests.helpers.tflite.write import model, operator, operator_code, subgraph, tensor, write

RNG = np.random.default_rng(5)
NAMES = (
    *("IF", "WHILE", "ADD", "MUL", "LESS", "SUM", "CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE"),
    *("ASSIGN_VARIABLE", "TANH"),
)
CODE = {name: i for i, name in enumerate(NAMES)}
ROUNDING = 5e-7
"""A turn adds to a result of tanh, which is below 1: where both cancel, its rounding stays."""
START = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def numbers() -> None:
    """Each test draws the same numbers, whichever ran before."""
    RNG.bit_generator.state = START


def node(name: str, inputs: Sequence[int], outputs: Sequence[int], options: str = "", **v: Any):
    return operator(CODE[name], inputs, outputs, options, **v)


def file_of(subgraphs: Sequence[Any], buffers: Sequence[Any] = ()) -> bytes:
    codes = [operator_code(name) for name in NAMES]
    return write(model(codes, subgraphs, [np.asarray(each).tobytes() for each in buffers]))


def reals(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def check(content: bytes, calls: Sequence[Sequence[Any]]) -> None:
    """Compare calls that do not depend on each other."""
    for inputs, expected in zip(calls, litert_results(content, calls), strict=True):
        for ours, theirs in zip(reference_results(content, inputs), expected, strict=True):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=ROUNDING)


def in_calls(path: Path, content: bytes, calls: Sequence[Sequence[Any]]) -> None:
    """Compare calls of a compiled model, which follow each other."""
    file = path / "net.tflite"
    file.write_bytes(content)
    compiled = nnefc.compile(file)
    for inputs, expected in zip(calls, litert_results(content, calls), strict=True):
        actual: Any = compiled(*inputs)
        several = len(expected) > 1
        for ours, theirs in zip(actual if several else [actual], expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=ROUNDING)


BRANCHES = [
    subgraph(
        [tensor((2, 3)), tensor((2, 3), buffer=1, name="w"), tensor((2, 3))],
        [node(name, (0, 1), (2,), options)],
        (0,),
        (2,),
        name,
    )
    for name, options in (("ADD", "AddOptions"), ("MUL", "MulOptions"))
]


def test_if_runs_the_branch_that_the_condition_chooses(tmp_path: Path) -> None:
    main = subgraph(
        [tensor((), "BOOL", "c"), tensor((2, 3), name="x"), tensor((2, 3), name="y")],
        [node("IF", (0, 1), (2,), "IfOptions", then_subgraph_index=1, else_subgraph_index=2)],
        (0, 1),
        (2,),
    )
    content = file_of([main, *BRANCHES], [reals(2, 3)])
    calls = [(np.array(c), reals(2, 3)) for c in (True, False)]
    check(content, calls)
    in_calls(tmp_path, content, calls)
    names = [op.name for op in source_of(content).graph({}).ops]
    assert [name for name in names if name != "variable"] == ["if"]


def test_a_known_condition_leaves_one_branch() -> None:
    main = subgraph(
        [
            tensor((2,), "INT32", buffer=2),
            tensor((), "BOOL"),
            tensor((2, 3), name="x"),
            tensor((2, 3), name="y"),
            tensor((), "INT32", buffer=3),
            tensor((), "INT32"),
            tensor((1,), "INT32", buffer=4),
        ],
        [
            node("SUM", (0, 6), (5,), "ReducerOptions"),
            node("LESS", (4, 5), (1,), "LessOptions"),
            node("IF", (1, 2), (3,), "IfOptions", then_subgraph_index=1, else_subgraph_index=2),
        ],
        (2,),
        (3,),
    )
    numbers = [np.array(each, np.int32) for each in ([4, 5], 9, [0])]
    content = file_of([main, *BRANCHES], [reals(2, 3), *numbers])
    check(content, [(reals(2, 3),)])
    assert "mul" in {op.name for op in source_of(content).graph({}).ops}


def loop_of(bound: Any) -> bytes:
    """x = tanh(x + w) + i while i < bound, from i = 0; the bound is an input if it is None."""
    fixed = bound is not None
    main = subgraph(
        [
            tensor((), "INT32", "i", 1),
            tensor((), "INT32", "bound", 2 if fixed else 0),
            tensor((2, 3), name="x"),
            tensor((2, 3), name="w", buffer=3),
            *(tensor((), "INT32"), tensor((), "INT32"), tensor((2, 3), name="y"), tensor((2, 3))),
        ],
        [
            node(
                *("WHILE", (0, 1, 2, 3), (4, 5, 6, 7), "WhileOptions"),
                cond_subgraph_index=1,
                body_subgraph_index=2,
            )
        ],
        (2,) if fixed else (1, 2),
        (6, 4),
    )
    states = [tensor((), "INT32"), tensor((), "INT32"), tensor((2, 3)), tensor((2, 3))]
    condition = subgraph(
        [*states, tensor((), "BOOL")],
        [node("LESS", (0, 1), (4,), "LessOptions")],
        (0, 1, 2, 3),
        (4,),
        "condition",
    )
    body = subgraph(
        [
            *states,
            tensor((), "INT32", buffer=4),
            tensor((), "INT32"),
            tensor((2, 3)),
            tensor((2, 3)),
        ],
        [
            node("ADD", (0, 4), (5,), "AddOptions"),
            node("ADD", (2, 3), (6,), "AddOptions"),
            node("TANH", (6,), (7,)),
        ],
        (0, 1, 2, 3),
        (5, 1, 7, 3),
        "body",
    )
    numbers = [np.array(each, np.int32) for each in (0, bound or 0)]
    buffers = [*numbers, reals(2, 3), np.array(1, np.int32)]
    return file_of([main, condition, body], buffers)


@pytest.mark.parametrize("turns", [0, 1, 2, 7])
def test_while_of_a_known_number_of_turns(turns: int) -> None:
    content = loop_of(turns)
    check(content, [(reals(2, 3),)])
    loops = [op.name for op in source_of(content).graph({}).ops if op.name == "scan"]
    assert loops == (["scan"] if turns > 1 else [])


def test_while_decides_when_it_runs(tmp_path: Path) -> None:
    content = loop_of(None)
    calls = [(np.array(n, np.int32), reals(2, 3)) for n in (0, 1, 5, -2)]
    check(content, calls)
    in_calls(tmp_path, content, calls)


def variables(*, in_branch: bool) -> bytes:
    """y = v + x; v = y.  v begins as w.  The addition is in the branch of an `IF`, or not."""
    handle = node("VAR_HANDLE", (), (0,), "VarHandleOptions", shared_name="v")
    step = [
        node("READ_VARIABLE", (0,), (2,)),
        node("ADD", (1, 2), (3,), "AddOptions"),
        node("ASSIGN_VARIABLE", (0, 3), ()),
    ]
    resource = tensor((), "RESOURCE")
    tensors = [resource, tensor((2, 3), name="x"), tensor((2, 3)), tensor((2, 3), name="y")]
    once = node("CALL_ONCE", (), (), "CallOnceOptions", init_subgraph_index=1)
    initial = subgraph(
        [resource, tensor((2, 3), buffer=1)],
        [handle, node("ASSIGN_VARIABLE", (0, 1), ())],
        (),
        (),
        "initial",
    )
    if not in_branch:
        main = subgraph(tensors, [once, handle, *step], (1,), (3,))
        return file_of([main, initial], [reals(2, 3)])
    choice = node("IF", (2, 0, 1), (3,), "IfOptions", then_subgraph_index=2, else_subgraph_index=3)
    main = subgraph(
        [*tensors[:2], tensor((), "BOOL", "c"), tensors[3]], [once, handle, choice], (1, 2), (3,)
    )
    then = subgraph(tensors, step, (0, 1), (3,), "then")
    other = subgraph(tensors, step[:2], (0, 1), (3,), "else")
    return file_of([main, initial, then, other], [reals(2, 3)])


def test_variables_keep_their_values_from_call_to_call(tmp_path: Path) -> None:
    in_calls(tmp_path, variables(in_branch=False), [(reals(2, 3),) for _ in range(3)])


def test_a_branch_assigns_a_variable(tmp_path: Path) -> None:
    calls = [(reals(2, 3), np.array(c)) for c in (True, False, True, True, False)]
    in_calls(tmp_path, variables(in_branch=True), calls)


def test_a_variable_that_only_call_once_assigns_is_a_constant(tmp_path: Path) -> None:
    handle = node("VAR_HANDLE", (), (0,), "VarHandleOptions", shared_name="v")
    once = node("CALL_ONCE", (), (), "CallOnceOptions", init_subgraph_index=1)
    resource = tensor((), "RESOURCE")
    main = subgraph(
        [resource, tensor((2, 3), name="x"), tensor((2, 3)), tensor((2, 3), name="y")],
        [
            once,
            handle,
            node("READ_VARIABLE", (0,), (2,)),
            node("ADD", (1, 2), (3,), "AddOptions"),
        ],
        (1,),
        (3,),
    )
    initial = subgraph(
        [resource, tensor((2, 3), buffer=1)],
        [handle, node("ASSIGN_VARIABLE", (0, 1), ())],
        (),
        (),
        "initial",
    )
    content = file_of([main, initial], [reals(2, 3)])
    in_calls(tmp_path, content, [(reals(2, 3),) for _ in range(2)])
    assert not source_of(content).graph({}).states


@pytest.mark.parametrize(
    ("index", "message"), [(0, "reaches itself"), (7, "calls subgraph 7 of 3")]
)
def test_wrong_subgraphs_are_refused(index: int, message: str) -> None:
    main = subgraph(
        [tensor((), "BOOL", "c"), tensor((2, 3), name="x"), tensor((2, 3), name="y")],
        [node("IF", (0, 1), (2,), "IfOptions", then_subgraph_index=1, else_subgraph_index=index)],
        (0, 1),
        (2,),
    )
    with pytest.raises(NnefError, match=message):
        source_of(file_of([main, *BRANCHES], [reals(2, 3)]))


def test_a_variable_without_a_value_is_refused() -> None:
    handle = node("VAR_HANDLE", (), (0,), "VarHandleOptions", shared_name="v")
    main = subgraph(
        [tensor((), "RESOURCE"), tensor((2, 3), name="y")],
        [handle, node("READ_VARIABLE", (0,), (1,))],
        (),
        (1,),
    )
    with pytest.raises(NnefError, match="the variable 'v' is read before it is assigned"):
        source_of(file_of([main])).graph({})
