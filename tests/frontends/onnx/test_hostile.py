"""Damaged and hostile ONNX files give NnefErrors with all errors, and cost nothing that they claim.

See `nnefc.support.limits` for the bounds.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper

import nnefc
from nnefc.support.errors import NnefError
from tests.helpers.examples import examples
from tests.helpers.onnx.hostile import (
    alterations,
    import_or_refuse,
    mutations,
    rich_model,
    write_external,
)
from tests.helpers.onnx.models import model, node, tensor, weight


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_external(tmp_path)
    return tmp_path / "net.onnx"


@pytest.fixture(scope="module", autouse=True)
def imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import the modules of the front end, whose memory no test is to count."""
    folder = tmp_path_factory.mktemp("imported")
    write_external(folder)
    (folder / "net.onnx").write_bytes(rich_model().SerializeToString())
    assert import_or_refuse(folder / "net.onnx") is None


def refused(path: Path, made: ModelProto) -> NnefError:
    path.write_bytes(made.SerializeToString())
    error = import_or_refuse(path)
    assert error is not None
    return error


def rules(error: NnefError) -> list[str]:
    return [each.rule for each in error.errors]


def test_the_undamaged_model_is_valid(path: Path) -> None:
    path.write_bytes(rich_model().SerializeToString())
    assert import_or_refuse(path) is None


def test_truncated_at_every_byte(path: Path) -> None:
    whole = rich_model().SerializeToString()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert import_or_refuse(path) is not None, length


def scaled(count: int) -> int:
    """A number of trials, relative to the hypothesis profile of the run."""
    return round(count * examples(1.0).max_examples / 100)


@pytest.mark.parametrize("seed", range(4))
def test_mutated_bytes(path: Path, seed: int) -> None:
    whole = rich_model().SerializeToString()
    for data in mutations(whole, seed, scaled(250)):
        path.write_bytes(data)
        import_or_refuse(path)


@pytest.mark.parametrize("seed", range(4))
def test_altered_fields(path: Path, seed: int) -> None:
    refusals = 0
    for made in alterations(rich_model(), seed, scaled(250)):
        path.write_bytes(made.SerializeToString())
        refusals += import_or_refuse(path) is not None
    assert refusals > scaled(100)


@examples(1.0, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_random_edits(path: Path, data: st.DataObject) -> None:
    whole = bytearray(rich_model().SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        begin = data.draw(st.integers(0, len(whole)))
        end = data.draw(st.integers(begin, min(begin + 16, len(whole))))
        whole[begin:end] = data.draw(st.binary(max_size=16))
    path.write_bytes(whole)
    import_or_refuse(path)


@examples(0.5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_random_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    assert import_or_refuse(path) is not None


# -- one fault each


X = tensor("x", [2, 3])
Y = tensor("y", [2, 3])


def identity(**more: Any) -> list[Any]:
    return [node("Identity", ["x"], ["y"], **more)]


def claiming(dims: Sequence[int], **more: Any) -> TensorProto:
    return TensorProto(name="w", data_type=more.pop("data_type", 1), dims=dims, **more)


def outside(**entries: str) -> TensorProto:
    proto = claiming([8], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        proto.external_data.add(key=key, value=value)
    return proto


@pytest.mark.parametrize(
    ("proto", "rule", "text"),
    [
        (claiming([1 << 40], raw_data=b"1234"), "limit/tensor", "1099511627776"),
        (claiming([1 << 62, 1 << 62]), "limit/tensor", "4611686018427387904"),
        (claiming([4000, 1000], raw_data=b"12"), "onnx/tensor", "16,000,000 bytes, but the data 2"),
        (claiming([4000, 1000]), "onnx/tensor", "4,000,000 items, but the data 0"),
        (claiming([2], float_data=[1.0]), "onnx/tensor", "2 items, but the data 1"),
        (claiming([-1]), "onnx/tensor", "negative"),
        (claiming([1] * 30, raw_data=b"1234"), "limit/rank", "rank 30"),
        (claiming([1], data_type=99, raw_data=b"1"), "onnx/tensor", "item type 99"),
        (claiming([1], data_type=0), "onnx/tensor", "item type 0"),
        (claiming([3], data_type=22, raw_data=b"1"), "onnx/tensor", "2 bytes, but the data 1"),
        (outside(location="w.bin", offset="-1"), "onnx/external", "'-1'"),
        (outside(location="w.bin", length="1e9"), "onnx/external", "'1e9'"),
        (outside(location="w.bin", offset="1" * 25), "onnx/external", "offset"),
        (outside(location="w.bin", length="4"), "onnx/tensor", "32 bytes, but the data 4"),
        (outside(location="w.bin", length="999999999"), "onnx/external", "'w.bin' has 160 bytes"),
        (outside(location="../w.bin"), "onnx/external", "'../w.bin'"),
        (outside(location="/etc/passwd"), "onnx/external", "absolute"),
        (outside(offset="0"), "onnx/external", "without a location"),
        (outside(location=""), "onnx/external", "without a location"),
    ],
)
def test_tensors_that_lie(path: Path, proto: TensorProto, rule: str, text: str) -> None:
    tracemalloc.start()
    try:
        error = refused(path, model(identity(), [X], [Y], [proto]))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rules(error) == [rule]
    assert "'w'" in error.errors[0].message
    assert text in error.errors[0].message
    assert peak < 4 << 20


def chain(*pairs: tuple[str, str]) -> ModelProto:
    return model([node("Identity", [a], [b], name=f"{a}{b}") for a, b in pairs], [X], [Y])


def recursive() -> ModelProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    calls = [helper.make_node("F", ["a"], ["b"], domain="own")]
    function = helper.make_function("own", "F", ["a"], ["b"], calls, opsets)
    made = [node("F", ["x"], ["y"], domain="own", name="first")]
    return model(made, [X], [Y], functions=[function], domains=["own"])


def doubling(levels: int) -> ModelProto:
    """Each function calls the next one twice: 2^(levels + 1) - 1 nodes in all, without the first.

    The functions are in an order in which none is behind those that it calls.
    """
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions: list[Any] = []
    for i in range(levels):
        names = [f"F{i + 1}", f"F{i + 1}"] if i + 1 < levels else ["Neg", "Neg"]
        domain = "own" if i + 1 < levels else ""
        calls = [
            helper.make_node(name, [a], [b], domain=domain)
            for name, a, b in zip(names, "ab", "bc", strict=True)
        ]
        functions.append(helper.make_function("own", f"F{i}", ["a"], ["c"], calls, opsets))
    made = [node("F0", ["x"], ["y"], domain="own")]
    return model(made, [X], [Y], functions=functions, domains=["own"])


def nested(levels: int) -> ModelProto:
    graph = helper.make_graph([node("Identity", ["x"], ["z"])], "g", [], [tensor("z", None)])
    for _ in range(levels):
        inner = [node("If", ["c"], ["z"], then_branch=graph, else_branch=graph)]
        graph = helper.make_graph(inner, "g", [], [tensor("z", None)])
    return model(
        [node("If", ["c"], ["y"], then_branch=graph, else_branch=graph)],
        [X],
        [Y],
        [weight("c", np.bool_(True))],
    )


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (chain(("x", "a"), ("x", "a"), ("a", "y")), [("onnx/name", "Identity 'xa': 'a'")]),
        (
            chain(("b", "a"), ("a", "b"), ("b", "y")),
            [("onnx/name", "Identity 'ba' needs Identity 'ab' needs Identity 'ba'")],
        ),
        (
            chain(("p", "a"), ("q", "b"), ("x", "y")),
            [("onnx/name", "input 'p'"), ("onnx/name", "input 'q'")],
        ),
        (model(identity(), [X, X], [Y]), [("onnx/name", "input 'x' is declared twice")]),
        (model(identity(), [X], [Y, tensor("z", [1])]), [("onnx/name", "the output 'z'")]),
        (model(identity(), [X], [Y], [weight("w", [1.0])] * 2), [("onnx/name", "'w'")]),
        (model(identity(value=3), [X], [Y]), [("onnx/arguments", "attribute 'value'")]),
        (model(identity(domain="who"), [X], [Y]), [("onnx/operator", "who.Identity")]),
        (
            model(identity(), [tensor("x", [2], TensorProto.STRING)], [Y]),
            [("onnx/unsupported", "input 'x' holds items of STRING")],
        ),
        (
            model(identity(), [tensor("x", [2], 99), tensor("v", [2], 77)], [Y]),
            [("onnx/unsupported", "type 99"), ("onnx/unsupported", "type 77")],
        ),
        (
            model(identity(), [helper.make_tensor_sequence_value_info("x", 1, [2])], [Y]),
            [("onnx/unsupported", "input 'x' is of type sequence")],
        ),
        (model(identity(), [tensor("x", [1 << 40])], [Y]), [("limit/tensor", "'x' has")]),
        (model(identity(), [tensor("x", [1] * 20)], [Y]), [("limit/rank", "'x' has rank 20")]),
        (model(identity(), [X], [Y], opset=500), [("onnx/version", "version 500")]),
        (model(identity(), [X], [Y], opset=0), [("onnx/version", "needs version 0 of ai.onnx")]),
        (
            model([node("BitCast", ["x"], ["y"], to=1)], [X], [Y]),
            [("onnx/operator", "BitCast of version 17")],
        ),
        (
            model([node("Relu", [], ["y"])], [X], [Y]),
            [("onnx/arguments", "Relu with result 'y': 'X' is missing")],
        ),
        (recursive(), [("onnx/function", "function 'own.F' calls itself")]),
    ],
)
def test_faults_of_structure(
    path: Path, made: ModelProto, expected: Sequence[tuple[str, str]]
) -> None:
    error = refused(path, made)
    assert rules(error) == [rule for rule, _ in expected], str(error)
    for each, (_, text) in zip(error.errors, expected, strict=True):
        assert text in each.message


@pytest.mark.parametrize("levels", [20, 40, 60])
def test_functions_that_double_are_counted_before_they_are_expanded(
    path: Path, levels: int
) -> None:
    error = refused(path, doubling(levels))
    assert rules(error) == ["limit/steps"]
    (each,) = error.errors
    nodes = 2 ** (levels + 1) - 2
    assert f"expands to {nodes + 1:,} nodes, {nodes:,} in each call of function 'own.F0'" in (
        each.message
    )
    assert "--limit steps=N" in str(each.hint)


def test_few_doublings_are_expanded(path: Path) -> None:
    path.write_bytes(doubling(4).SerializeToString())
    assert import_or_refuse(path) is None


def test_graphs_are_nested_as_deep_as_the_parser_allows(path: Path) -> None:
    path.write_bytes(nested(4).SerializeToString())
    assert import_or_refuse(path) is None


def test_texts_are_utf_8(path: Path) -> None:
    data = model(identity(name="marked"), [X], [Y]).SerializeToString()
    path.write_bytes(data.replace(b"marked", b"mark\xff\xfe"))
    error = import_or_refuse(path)
    assert error is not None
    assert rules(error) == ["onnx/protobuf"]
    assert "onnx.NodeProto.name" in error.errors[0].message


def _folder(path: Path) -> None:
    path.mkdir()


def _missing(path: Path) -> None:
    return


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _text(path: Path) -> None:
    path.write_text("version 1.0;\ngraph g(x) -> (y) {}\n")


@pytest.mark.parametrize(
    ("write", "rule"),
    [
        (_folder, "container/file"),
        (_missing, "container/file"),
        (_empty, "onnx/protobuf"),
        (_text, "onnx/protobuf"),
    ],
)
def test_files_that_are_no_models(path: Path, write: Callable[[Path], None], rule: str) -> None:
    write(path)
    error = import_or_refuse(path)
    assert error is not None
    assert rules(error) == [rule]


def test_all_errors_of_nodes_are_reported(path: Path) -> None:
    made = model(
        [
            node("Concat", ["x", "x"], ["a"], name="one", axis=9),
            node("Reshape", ["x", "bad"], ["b"], name="two"),
            node("Identity", ["none"], ["y"], name="three"),
            node("Identity", ["a"], ["d"], name="four"),
        ],
        [X],
        [Y],
        [weight("bad", np.array([5, 5], np.int64))],
    )
    error = refused(path, made)
    names = [name for name in ("one", "two", "three", "four") if f"'{name}'" in str(error)]
    assert names == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("nodes", "weights", "rule"),
    [
        ([node("MatMulInteger", ["x", "x"], ["y"])], [], "onnx/type"),
        ([node("ConvInteger", ["x", "x"], ["y"])], [], "onnx/type"),
        ([node("Range", ["none", "one", "one"], ["y"])], ["none", "one"], "argument/range"),
        ([node("Range", ["two", "one", "one"], ["y"])], ["two", "one"], "argument/range"),
    ],
)
def test_operands_that_do_not_fit(path: Path, nodes: Any, weights: Any, rule: str) -> None:
    numbers = {"none": [], "one": 1, "two": [0, 1]}
    made = [weight(each, np.array(numbers[each], np.int64)) for each in weights]
    inputs = [tensor("x", [3, 3])]
    error = refused(path, model(nodes, inputs, [tensor("y", None)], made, opset=15))
    assert [each.rule for each in error.errors] == [rule]


def test_complex_numbers_of_rank_0_are_read(path: Path) -> None:
    number = weight("c", np.array(1 + 2j, np.complex64))
    made = model([node("Relu", ["x"], ["y"])], [tensor("x", [2])], [tensor("y", [2])], [number])
    path.write_bytes(made.SerializeToString())
    assert import_or_refuse(path) is None


def test_control_characters_of_names_are_written_out(path: Path) -> None:
    made = model([node("Foo\x1b]0;a\x07", ["x"], ["y"])], [tensor("x", [2])], [tensor("y", [2])])
    assert "Foo\\x1b]0;a\\x07" in str(refused(path, made).errors[0])


@pytest.mark.parametrize(
    ("begin", "text"),
    [
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00",
            r"Git LFS.*\n.*git lfs pull",
        ),
        (b"\n<!DOCTYPE html><html><body>404", r"a web page, or other XML.*\n.*not the page"),
        (b"PK\x03\x04 and so on", r"a zip archive.*\n.*unpack"),
        (b"\x08\x0a\x3a\xff\x01", r"field 7 at byte 2 has 255 bytes.*\n.*cut off"),
    ],
)
def test_files_that_are_no_models_are_named(tmp_path: Path, begin: bytes, text: str) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(begin)
    with pytest.raises(NnefError, match=text):
        nnefc.import_model(path)
