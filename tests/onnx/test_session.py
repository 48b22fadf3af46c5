"""`nnefc.onnx.InferenceSession` has the methods of onnxruntime's, and its results."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc import NnefError
from nnefc.onnx import InferenceSession, SessionOptions, get_available_providers
from tests.helpers.onnx.models import model, node, save, tensor, weight
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results
from tests.helpers.onnx.text_models import parsed

W = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)


def product() -> Any:
    return model(
        [node("MatMul", ["x", "w"], ["y"]), node("Shape", ["y"], ["s"])],
        [tensor("x", ["N", 16])],
        [tensor("y", ["N", 8]), tensor("s", [2], 7)],
        [weight("w", W)],
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return save(product(), tmp_path / "net.onnx")


def facts(arguments: Any) -> list[tuple[str, list[Any], str]]:
    return [(each.name, list(each.shape), each.type) for each in arguments]


def test_it_is_used_as_a_session_of_onnxruntime(path: Path) -> None:
    ort: Any = pytest.importorskip("onnxruntime")
    theirs, ours = ort.InferenceSession(str(path)), InferenceSession(str(path))
    assert facts(ours.get_inputs()) == facts(theirs.get_inputs())
    assert facts(ours.get_outputs()) == facts(theirs.get_outputs())
    x = np.random.default_rng(1).standard_normal((5, 16)).astype(np.float32)
    for names in (None, [], ["y"], ["s", "y"]):
        results, expected = ours.run(names, {"x": x}), theirs.run(names, {"x": x})
        assert len(results) == len(expected)
        for result, want in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-5)
            assert result.dtype == want.dtype


def test_options_choose_threads_and_dimensions(path: Path) -> None:
    options = SessionOptions(intra_op_num_threads=1)
    options.graph_optimization_level = 99
    options.add_free_dimension_override_by_name("N", 3)
    session = InferenceSession(path, options, providers=["CPUExecutionProvider"])
    assert session.get_session_options() is options
    assert session.model.threads == 1
    assert session.get_inputs()[0].shape == [3, 16]
    (y,) = session.run(["y"], {"x": np.ones((3, 16), np.float32)})
    np.testing.assert_allclose(y, np.ones((3, 16)) @ W.astype(np.float64), rtol=1e-5, atol=1e-5)


def test_models_in_memory(path: Path) -> None:
    session = InferenceSession(path.read_bytes())
    (y,) = session.run(["y"], {"x": np.eye(16, dtype=np.float32)})
    np.testing.assert_allclose(y, W, rtol=1e-6)
    data = save(product(), path, external="w.bin").read_bytes()
    with pytest.raises(NnefError, match="a model in memory has no folder"):
        InferenceSession(data)


def test_results_are_cut_to_size(tmp_path: Path) -> None:
    made = model([node("NonZero", ["x"], ["i"])], [tensor("x", [2, 4])], [tensor("i", None, 7)])
    session = InferenceSession(save(made, tmp_path / "net.onnx"))
    assert session.get_outputs()[0].shape == [2, None]
    for count in (0, 1, 5):
        x = np.zeros((2, 4), np.float32)
        x.flat[:count] = 1
        (result,) = session.run(None, {"x": x})
        np.testing.assert_array_equal(result, np.nonzero(x))


def test_providers(path: Path) -> None:
    assert get_available_providers() == InferenceSession(path).get_providers()
    InferenceSession(path, providers=[("CPUExecutionProvider", {"a": 1})])
    wrong: Any = [
        "CUDAExecutionProvider",
        ("TensorrtExecutionProvider", {}),
        "CPUExecutionProvider",
    ]
    with pytest.raises(NnefError) as caught:
        InferenceSession(path, providers=wrong)
    assert [each.rule for each in caught.value.errors] == ["input/argument"] * 2
    assert "CUDAExecutionProvider" in str(caught.value)


def test_errors_of_calls(path: Path) -> None:
    session = InferenceSession(path)
    x = np.ones((2, 16), np.float32)
    with pytest.raises(NnefError, match="no output 'z'; there are y, s"):
        session.run(["z"], {"x": x})
    with pytest.raises(NnefError, match="x"):
        session.run(None, {})
    with pytest.raises(NnefError, match="typo"):
        session.run(None, {"x": x, "typo": x})


def test_metadata_is_that_of_onnxruntime(tmp_path: Path) -> None:
    ort: Any = pytest.importorskip("onnxruntime")
    rich = product()
    rich.producer_name, rich.producer_version, rich.domain = "maker", "9", "org.example"
    rich.model_version, rich.doc_string, rich.graph.doc_string = -7, "a model", "its graph"
    for key, value in (("a", "1"), ("ß", ""), ("", "2")):
        entry = rich.metadata_props.add()
        entry.key, entry.value = key, value
    for made in (product(), rich):
        path = save(made, tmp_path / "net.onnx")
        theirs = ort.InferenceSession(str(path)).get_modelmeta()
        for given in (path, path.read_bytes()):
            ours = InferenceSession(given).get_modelmeta()
            for name in dir(ours):
                if not name.startswith("_"):
                    assert getattr(ours, name) == getattr(theirs, name), name


@pytest.mark.parametrize(
    ("elem_type", "lists"),
    [
        (1, [[1, 2], [1.5, True], [np.float64(3), 2], [2**40, -1], []]),
        (7, [[1, -2], [2.0, 3], [True], []]),
        (10, [[1.1, -2]]),
        (9, [[True, 0], [0, 2]]),
        (2, [[0, 255]]),
    ],
)
def test_lists_of_numbers_are_arrays(
    tmp_path: Path, elem_type: int, lists: list[list[Any]]
) -> None:
    ort: Any = pytest.importorskip("onnxruntime")
    made = model(
        [node("Identity", ["x"], ["y"])],
        [tensor("x", ["N"], elem_type)],
        [tensor("y", ["N"], elem_type)],
    )
    path = save(made, tmp_path / "net.onnx")
    theirs, ours = ort.InferenceSession(str(path)), InferenceSession(path)
    for given in lists:
        (expected,), (result,) = theirs.run(None, {"x": given}), ours.run(None, {"x": given})
        np.testing.assert_array_equal(result, expected)
        assert result.dtype == expected.dtype
    nested = [[1, 2], [3]]
    wrong = [nested, ["a"], [None]] + ([] if elem_type in (1, 9, 10) else [[1.5], [2**70]])
    for given in wrong:
        with pytest.raises(NnefError, match="input 'x' is a list that makes no array of"):
            ours.run(None, {"x": given})


def test_arguments_of_other_types_are_refused(path: Path) -> None:
    opened, x = InferenceSession(path), np.ones((1, 16), np.float32)
    wrong: Any = None
    for call, message in (
        (lambda: opened.run(None, wrong), "input_feed is a NoneType, expected arrays by name"),
        (lambda: opened.run(wrong, [x]), "input_feed is a list"),  # pyright: ignore
        (lambda: opened.run("y", {"x": x}), "output_names = 'y': expected a list"),
        (lambda: InferenceSession(wrong), "the model is a NoneType, expected a path or bytes"),
        (lambda: InferenceSession(product()), r"a ModelProto, .*\n.*SerializeToString\(\)"),
        (lambda: InferenceSession(path, 3.5), "threads = 3.5: must be an integer"),  # pyright: ignore
        (lambda: InferenceSession(path, SessionOptions(-1)), "threads = -1"),
        (lambda: InferenceSession(path, providers="CPU"), "providers = 'CPU': expected a list"),
        (lambda: InferenceSession(path, providers=[3]), "provider '3' is not"),  # pyright: ignore
    ):
        with pytest.raises(NnefError, match=message):
            call()


@pytest.mark.parametrize("module", ["onnxruntime", "nnefc.onnx"])
def test_programs_for_onnxruntime_run(path: Path, module: str) -> None:
    """With another import only."""
    ort: Any = pytest.importorskip(module)
    ort.set_default_logger_severity(3)
    assert ort.get_device() == "CPU"
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.add_session_config_entry("session.dynamic_block_base", "4")
    assert options.get_session_config_entry("session.dynamic_block_base") == "4"
    session = ort.InferenceSession(path, sess_options=options, providers=["CPUExecutionProvider"])
    session.disable_fallback()
    session.set_providers(["CPUExecutionProvider"])
    assert session.get_provider_options() == {"CPUExecutionProvider": {}}
    assert session.get_overridable_initializers() == []
    (argument,) = session.get_inputs()
    assert str(argument) == "NodeArg(name='x', type='tensor(float)', shape=['N', 16])"
    run_options = ort.RunOptions()
    run_options.log_severity_level = 3
    run_options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    x = np.ones((2, 16), np.float32)
    (y,) = session.run(output_names=["y"], input_feed={"x": x}, run_options=run_options)
    np.testing.assert_allclose(y, x @ W.astype(np.float64), rtol=1e-5, atol=1e-5)


def test_methods_that_sessions_lack_name_others(path: Path) -> None:
    session: Any = InferenceSession(path)
    with pytest.raises(AttributeError, match=r"'io_binding': session\.model\(x, out=y\) writes"):
        session.io_binding()
    with pytest.raises(AttributeError, match=r"no attribute 'other'$"):
        session.other()
    with pytest.raises(NnefError, match="provider 'CUDAExecutionProvider' is not available"):
        session.set_providers(["CUDAExecutionProvider"])


@pytest.mark.parametrize("module", ["onnxruntime", "nnefc.onnx"])
def test_programs_ask_about_the_library(module: str) -> None:
    ort: Any = pytest.importorskip(module)
    ort.disable_telemetry_events()
    assert ort.get_version_string() == ort.__version__
    assert set(ort.get_available_providers()) <= {
        *ort.get_all_providers(),
        "AzureExecutionProvider",
    }


def test_names_that_are_missing_name_others() -> None:
    ours: Any = importlib.import_module("nnefc.onnx")
    for name, text in (("OrtValue", "arrays of NumPy"), ("capi", "nnefc.NnefError"), ("x", "")):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'.*{text}$"):
            getattr(ours, name)
    options: Any = SessionOptions()
    with pytest.raises(AttributeError, match="function of the model can define an operator"):
        options.register_custom_ops_library("custom.so")
    with pytest.raises(AttributeError, match=r"no attribute 'intra_op_threads'$"):
        options.intra_op_threads = 2


@pytest.mark.parametrize("name", ["net.pb", "net", "net.onnx.bin", "net.gz.model"])
def test_files_of_other_names(tmp_path: Path, name: str) -> None:
    """The content tells that they are models; the cache knows their external data, too."""
    saved = save(product(), tmp_path / "other.onnx", external="weights")
    path, x = saved.rename(tmp_path / name), np.ones((2, 16), np.float32)
    for factor in (1, 1, 3):
        (tmp_path / "weights").write_bytes((W * np.float32(factor)).tobytes())
        (y,) = InferenceSession(path).run(["y"], {"x": x})
        np.testing.assert_allclose(y, x @ (W * factor), rtol=1e-4, atol=1e-5)


def test_dimensions_without_a_name() -> None:
    ort: Any = pytest.importorskip("onnxruntime")
    made = model([node("Abs", ["x"], ["y"])], [tensor("x", None)], [tensor("y", None)])
    for extent in ("N", "", -1, 4):
        dim = made.graph.input[0].type.tensor_type.shape.dim.add()
        if isinstance(extent, str):
            dim.dim_param = extent
        else:
            dim.dim_value = extent
    content = made.SerializeToString()
    theirs, ours = ort.InferenceSession(content), InferenceSession(content)
    assert facts(ours.get_inputs()) == facts(theirs.get_inputs())
    assert ours.get_outputs()[0].shape == ["N", None, None, 4]


def test_options_of_onnxruntime(path: Path) -> None:
    """Its own class, and each attribute that it has."""
    ort: Any = pytest.importorskip("onnxruntime")
    theirs = ort.SessionOptions()
    theirs.intra_op_num_threads = 1
    assert InferenceSession(path, theirs).model.threads == 1
    ours = SessionOptions()
    for name in dir(theirs):
        value = getattr(theirs, name)
        if not name.startswith("_") and not callable(value):
            setattr(ours, name, value)
    assert ours.intra_op_num_threads == 1


def test_strings() -> None:
    """The model of a call has its strings as constants; other strings are another model."""
    made = parsed(
        """(string[N,2] s, float[N,2] x) => (float[N,2] y) <string[1] a = {"a"}> {
          e = Equal(s, a)  none = Sub(x, x)  y = Where(e, x, none)
        }""",
        opset=21,
    )
    session, x = InferenceSession(made.SerializeToString()), np.ones((2, 2), np.float32)
    for strings in ([["a", "b"], ["c", "a"]], [["x", "a"], ["a", "a"]]):
        array = np.array(strings, object)
        (want,) = onnxruntime_results(made, [array, x])
        for given in (array, strings, array.astype(str)):
            (y,) = session.run(None, {"s": given, "x": x})
            np.testing.assert_array_equal(y, want)
    with pytest.raises(NnefError, match="input 's' holds strings, and 1 is none"):
        session.run(None, {"s": [[1, 2]], "x": x})
    assert str(session.get_inputs()[0].type) == "tensor(string)"


def overridable() -> Any:
    """A product whose weight and bias are inputs with initializers, the bias without a shape."""
    return model(
        [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["y"])],
        [tensor("x", ["N", 16]), tensor("w", [16, 8]), tensor("b", None)],
        [tensor("y", ["N", 8])],
        [weight("w", W), weight("b", np.arange(8, dtype=np.float32))],
    )


def test_initializers_that_are_inputs_can_be_overridden(tmp_path: Path) -> None:
    ort: Any = pytest.importorskip("onnxruntime")
    made = overridable()
    theirs = ort.InferenceSession(made.SerializeToString())
    sessions = [InferenceSession(made.SerializeToString())]
    sessions += [InferenceSession(save(made, tmp_path / "net.onnx"))]
    x = np.random.default_rng(1).standard_normal((5, 16)).astype(np.float32)
    for ours in sessions:
        assert facts(ours.get_inputs()) == facts(theirs.get_inputs())
        found = facts(ours.get_overridable_initializers())
        assert found[0] == facts(theirs.get_overridable_initializers())[0]
        assert [name for name, _, _ in found] == ["w", "b"]
        for more in ({}, {"w": 2 * W}, {"b": np.ones(8, np.float32)}, {"w": W, "b": [7.0] * 8}):
            given = {name: np.asarray(value, np.float32) for name, value in more.items()}
            (y,) = ours.run(None, {"x": x, **more})
            (expected,) = theirs.run(None, {"x": x, **given})
            np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
        with pytest.raises(NnefError, match="'w'"):
            ours.run(None, {"x": x, "w": W[:3]})
        with pytest.raises(NnefError, match="'q'"):
            ours.run(None, {"x": x, "q": W})


def test_overridden_values_may_decide_shapes() -> None:
    made = model(
        [node("Tile", ["x", "n"], ["y"])],
        [tensor("x", [2]), tensor("n", [1], 7)],
        [tensor("y", None)],
        [weight("n", np.array([2], np.int64))],
    )
    session = InferenceSession(made.SerializeToString())
    x = np.array([1, 2], np.float32)
    assert session.run(None, {"x": x})[0].tolist() == [1, 2] * 2
    for n in (3, 1):
        assert session.run(None, {"x": x, "n": [n]})[0].tolist() == [1, 2] * n


def test_the_backend_is_imported_at_its_first_use() -> None:
    code = (
        "import sys, nnefc.onnx; before = 'nnefc.onnx.backend' in sys.modules or 'onnx' in "
        "sys.modules; print(before, nnefc.onnx.backend.supports_device('CPU'))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["False", "True"]
