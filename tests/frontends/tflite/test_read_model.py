"""Reading models through the public functions: names, shapes, states, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.frontends.read_model import read_graph, read_model
from nnefc.ir.verify import verify
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits
from tests.frontends.tflite.test_operators import lstm_inputs, real, reals
from tests.helpers.tflite.hostile import alterations, mutations, rich_model, rich_tables
from tests.helpers.tflite.one_operator import (
    Case,
    content_of,
    inputs_of,
    litert_results,
    reference_results,
)
from tests.helpers.tflite.write import (
    model,
    operator,
    operator_code,
    subgraph,
    tensor,
    write,
)


def save(folder: Path, content: bytes, name: str = "net.tflite") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def sequence_layer() -> Case:
    kinds = {"cifg": False, "peephole": False, "projection": False, "normalized": False}
    options = "UnidirectionalSequenceLSTMOptions"
    inputs = [reals(2, 5, 3), *lstm_inputs(**kinds)]
    values = {"fused_activation_function": 4}
    return Case("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [real(2, 5, 4)], options, values)


def test_names_are_those_of_the_signature(tmp_path: Path) -> None:
    graph = read_graph(save(tmp_path, rich_model()))
    assert [each.name for each in graph.inputs] == ["image"]
    assert graph.output_names == ["scores"]


def test_names_of_tensors_without_a_signature(tmp_path: Path) -> None:
    tables = rich_tables()
    del tables["signature_defs"]
    graph = read_graph(save(tmp_path, write(tables)))
    assert ([each.name for each in graph.inputs], graph.output_names) == (["x"], ["out"])


def test_files_are_known_by_their_content(tmp_path: Path) -> None:
    assert read_graph(save(tmp_path, rich_model(), "model.bin")).output_names == ["scores"]


def test_weights_are_not_copied(tmp_path: Path) -> None:
    tables = rich_tables()
    tables["buffers"] = (*tables["buffers"], {"data": bytes(1 << 17)})
    graph = read_graph(save(tmp_path, write(tables)))
    matrix = graph.variables["matrix"].data
    assert matrix is not None
    owner: Any = matrix
    while isinstance(owner, np.ndarray):
        owner = owner.base
    assert type(owner.obj).__name__ == "mmap"


def test_tensors_may_share_a_name(tmp_path: Path) -> None:
    tables = rich_tables()
    matrix = np.random.default_rng(1).standard_normal((6, 6)).astype(np.float32)
    main = tables["subgraphs"][0]
    main["tensors"] = (
        *main["tensors"],
        tensor((6, 6), name="matrix", buffer=6),
        tensor((6, 6), name="matrix", buffer=7),
        tensor((1, 6), name="out"),
        tensor((1, 6), name="last"),
    )
    tables["buffers"] = (
        *tables["buffers"],
        {"data": matrix.tobytes()},
        {"data": (2 * matrix).tobytes()},
    )
    more = (operator(2, (8, 10, -1), (12,)), operator(2, (12, 11, -1), (13,)))
    main["operators"] = (*main["operators"], *more)
    main["outputs"] = (13,)
    del tables["signature_defs"]
    content = write(tables)
    x = reals(1, 5, 5, 2)
    ((expected,),) = litert_results(content, [[x]])
    (actual,) = reference_results(content, [x])
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    assert verify(read_graph(save(tmp_path, content))) == []


def test_shapes_replace_those_of_the_file(tmp_path: Path) -> None:
    case = Case("ADD", [reals(1, 4), reals(1, 4)], [real(1, 4)], "AddOptions")
    path = save(tmp_path, content_of(case))
    graph = read_graph(path, ImportConfig(shapes={"t0": (3, 4), "t1": (3, 1)}))
    assert graph.outputs[0].type.dims == (3, 4)
    with pytest.raises(NnefError, match="no input 'other'"):
        read_graph(path, ImportConfig(shapes={"other": (3, 4)}))


def test_sessions_keep_states(tmp_path: Path) -> None:
    case = sequence_layer()
    content = content_of(case)
    calls = [inputs_of(case), [reals(2, 5, 3)], [reals(2, 5, 3)]]
    expected = litert_results(content, calls)
    model: Any = nnefc.compile(save(tmp_path, content), keep=False)
    session = model.session()
    for inputs, (wanted,) in zip(calls, expected, strict=True):
        np.testing.assert_allclose(session(*inputs), wanted, rtol=1e-5, atol=1e-6)
    saved = tmp_path / "net.nnefc"
    model.save(saved)
    loaded: Any = nnefc.load(saved)
    again = loaded.session()
    np.testing.assert_allclose(again(*calls[0]), expected[0][0], rtol=1e-5, atol=1e-6)


# -- errors


def error_of(folder: Path, content: bytes, config: ImportConfig | None = None) -> NnefError:
    with pytest.raises(NnefError) as caught:
        read_model(save(folder, content), config or ImportConfig())
    return caught.value


def test_unknown_operators_are_counted(tmp_path: Path) -> None:
    codes = [
        operator_code("SKIP_GRAM"),
        operator_code("CUSTOM", custom_code="own"),
        operator_code("RELU", version=99),
        operator_code("RSQRT"),
    ]
    tensors = [tensor((2,), name="x"), *(tensor((2,), name=f"y{i}") for i in range(4))]
    tensors.append(tensor((2,), "BOOL", "z"))
    operators = [operator(0, (0,), (1,)), operator(0, (1,), (2,)), operator(1, (2,), (3,))]
    operators += [operator(2, (3,), (4,)), operator(3, (4,), (5,))]
    content = write(model(codes, [subgraph(tensors, operators, (0,), (5,))]))
    error = error_of(tmp_path, content)
    assert [each.rule for each in error.errors] == ["tflite/operator"] * 3
    assert "operator SKIP_GRAM, used 2 times, is not supported" in str(error)
    assert "operator CUSTOM 'own', used once" in str(error)
    assert "operator RELU of version 99, used once" in str(error)
    assert "known in versions 1 to 3" in str(error)


def test_item_types_are_refused_by_name(tmp_path: Path) -> None:
    case = Case("RSQRT", [np.zeros(3, np.int64)], [((3,), "INT64")])
    message = str(error_of(tmp_path, content_of(case)))
    assert "operator RSQRT, used once, is not supported for items of INT64" in message
    assert "known for FLOAT32" in message


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (Case("ADD", [reals(2)], [real(2)], "AddOptions"), "its input 'y' is missing"),
        (Case("RELU", [reals(2), reals(2)], [real(2)]), "takes at most 1 inputs, not 2"),
        (
            Case("ADD", [reals(2), reals(2)], [real(2)], "MulOptions"),
            "it has MulOptions, not AddOptions",
        ),
        (
            Case(
                "ADD",
                [reals(2), reals(2)],
                [real(2)],
                "AddOptions",
                {"fused_activation_function": 77},
            ),
            "fused activation 77",
        ),
        (Case("ADD", [reals(2), reals(3)], [real(2)], "AddOptions"), "argument/add"),
        (
            Case(
                "LOGISTIC",
                [np.zeros(2, np.int8)],
                [real(2)],
                codes={i: {"scale": (1.0,), "zero_point": (0,)} for i in range(2)},
            ),
            "tensor 1 't1' has items of float32, not codes",
        ),
        (
            Case("RNN", [reals(), *(reals(3, 3) for _ in range(4))], [real(3, 3)], "RNNOptions"),
            "rank at least 1",
        ),
        (Case("AVERAGE_POOL_2D", [reals(1, 2, 2, 1)], [real(1)]), "no Pool2DOptions"),
        (Case("CONV_2D", [reals(2), reals(2)], [real(2)], "Conv2DOptions"), "rank 4 is expected"),
        (
            Case("CONV_2D", [reals(1, 2, 2, 1), reals(1, 1, 1, 1)], [real(1)], "Conv2DOptions"),
            "the stride of the window",
        ),
    ],
)
def test_errors_name_the_operator(case: Case, message: str, tmp_path: Path) -> None:
    error = error_of(tmp_path, content_of(case))
    assert message in str(error)
    assert f"subgraph 0 'main', operator 0 ({case.name})" in str(error)


def test_a_dialect_is_refused(tmp_path: Path) -> None:
    error = error_of(tmp_path, rich_model(), ImportConfig(dialect="tract"))
    assert error.errors[0].rule == "input/option"


def import_or_refuse(path: Path) -> bool:
    """Whether a model is valid; errors that report a bug of nnefc are failures."""
    config = ImportConfig(chosen_limits=Limits(tensor_bytes=1 << 22, steps=5000))
    try:
        graph = read_graph(path, config)
    except NnefError as error:
        for each in error.errors:
            assert not each.rule.startswith("internal"), str(error)
        return False
    assert verify(graph) == []
    return True


def test_mutated_bytes(tmp_path: Path) -> None:
    contents = [rich_model(), content_of(sequence_layer())]
    mutated = [each for content in contents for each in mutations(content, 5, 150)]
    valid = [import_or_refuse(save(tmp_path, each)) for each in mutated]
    assert 10 < sum(valid) < 290


def test_altered_fields(tmp_path: Path) -> None:
    altered = alterations(rich_tables(), 5, 200)
    valid = [import_or_refuse(save(tmp_path, each)) for each in altered]
    assert 10 < sum(valid) < 190
