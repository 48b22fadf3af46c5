"""The Python interface: options, arguments and errors of its functions."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.kernels.executor.team_state import MAX_WORKERS
from nnefc.runtime.run.team import supports_threads

MOST_THREADS = MAX_WORKERS + 1 if supports_threads() else 1

TEXT = """\
version 1.0;
graph g( x ) -> ( y )
{
    x = external(shape = [2]);
    w = variable(shape = [2], label = 'w');
    y = mul(x, w);
}
"""


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "graph.nnef"
    path.write_text(TEXT)
    return path


def test_compile_accepts_the_options_of_import(document: Path) -> None:
    options = nnefc.ImportOptions(shapes={"x": (1,)}, scalar="float64", random_weights=1)
    model = nnefc.compile(document, threads=1, **options)
    assert str(model.inputs[0]) == "x: float64[1]"
    graph = nnefc.import_model(document, **options)
    x = np.array([3.0])
    np.testing.assert_array_equal(nnefc.compile(graph, threads=1)(x), model(x))


def test_unknown_options(document: Path) -> None:
    with pytest.raises(
        TypeError, match=r"compile\(\) got .* 'shapse': options are threads, .* shapes, symbols"
    ):
        nnefc.compile(document, shapse={})  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"import_model\(\) .* 'batch': .*; shapes={'input'"):
        nnefc.import_model(document, batch=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"tune\(\) .* 'accuracy'"):
        nnefc.tune(document, accuracy="fast")  # type: ignore[call-arg]


def test_import_options_do_not_apply_to_a_graph(document: Path) -> None:
    graph = nnefc.import_model(document, random_weights=1)
    with pytest.raises(nnefc.NnefError, match="scalar, shapes, strict cannot apply") as caught:
        nnefc.compile(graph, scalar="float32", shapes={"x": (3,)}, strict=True)
    assert caught.value.errors[0].rule == "input/option"


@pytest.mark.parametrize("shape", [(3,), (1,), (2, 1)])
def test_data_of_another_shape_than_its_variable(document: Path, shape: tuple[int, ...]) -> None:
    graph = nnefc.import_model(document, random_weights=1)
    graph.variables["w"].data = np.ones(shape, np.float32)
    with pytest.raises(nnefc.NnefError, match="'w'") as caught:
        nnefc.compile(graph)
    assert caught.value.errors[0].rule == "data/shape"
    graph.variables["w"].data = np.ones(2)
    with pytest.raises(nnefc.NnefError, match="float64, not float32"):
        nnefc.compile(graph)


@pytest.mark.parametrize(
    ("options", "rule", "message"),
    [
        ({"threads": "2"}, "input/threads", "threads = '2'"),
        ({"threads": 1.5}, "input/threads", "threads = 1.5"),
        ({"threads": True}, "input/threads", "threads = True"),
        ({"threads": 0}, "input/threads", "threads = 0"),
        ({"limits": {"errors": 1}}, "input/argument", "expected nnefc.Limits"),
        ({"limits": {}}, "input/argument", "expected nnefc.Limits"),
        ({"progress": 3}, "input/argument", "progress = 3: expected a function"),
        ({"shapes": 8}, "input/argument", "shapes = 8: expected shapes by name"),
        ({"shapes": [2]}, "input/argument", "shapes = [2]: expected shapes by name"),
        ({"shapes": {"x": 8}}, "input/argument", "shapes['x'] = 8: expected integers"),
        ({"shapes": {"x": "ab"}}, "input/argument", "shapes['x'] = 'ab': expected integers"),
        ({"shapes": {"x": (1.5,)}}, "input/argument", "shapes['x'] = (1.5,): expected integers"),
        ({"shapes": {3: (1,)}}, "input/argument", "shapes[3] = (1,)"),
        ({"shapes": {"x": (0,)}}, "input/shape", "positive"),
        ({"random_weights": "a"}, "input/argument", "random_weights = 'a': expected an integer"),
        ({"random_weights": -1}, "input/argument", "random_weights = -1"),
        ({"random_weights": 1.5}, "input/argument", "random_weights = 1.5"),
        ({"scalar": 3}, "input/dtype", "scalar = 3"),
        ({"accuracy": ["fast"]}, "input/argument", "accuracy = ['fast']: must be 'fast' or"),
        ({"precision": "float8"}, "input/argument", "precision = 'float8': must be 'float32', "),
        ({"strict": "no"}, "input/argument", "strict = 'no': must be True or False"),
        ({"tuned": None}, "input/argument", "tuned = None: must be True or False"),
        ({"quantize": 0}, "input/argument", "quantize = 0: must be True or False"),
    ],
)
def test_arguments_of_the_wrong_kind(
    document: Path, options: dict[str, Any], rule: str, message: str
) -> None:
    given: Any = {"random_weights": 1, **options}
    with pytest.raises(nnefc.NnefError) as caught:
        nnefc.compile(document, **given)
    (error,) = caught.value.errors
    assert error.rule == rule
    assert message in error.message


def test_the_environment_is_checked_even_if_nothing_is_compiled(
    document: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nnefc.compile(document, random_weights=1)
    monkeypatch.setenv("NNEFC_JOBS", "abc")
    for source in (document, nnefc.import_model(document, random_weights=1)):
        given: Any = {"random_weights": 1} if source is document else {}
        with pytest.raises(nnefc.NnefError, match="NNEFC_JOBS is 'abc'") as caught:
            nnefc.compile(source, **given)
        assert caught.value.errors[0].rule == "input/environment"


def test_too_many_threads_are_a_warning(document: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        most = nnefc.compile(document, random_weights=1, threads=MOST_THREADS)
    assert most.threads == MOST_THREADS
    most.save(tmp_path / "net.nnefc")
    for make in (
        lambda: nnefc.compile(document, random_weights=1, threads=MOST_THREADS + 1),
        lambda: nnefc.load(tmp_path / "net.nnefc", threads=MOST_THREADS + 1),
    ):
        with pytest.warns(nnefc.NnefWarning) as caught:
            assert make().threads == MOST_THREADS
        (warning,) = caught
        expected = f"threads = {MOST_THREADS + 1}: only {MOST_THREADS} can be used here"
        assert expected in str(warning.message)
        assert warning.filename == __file__


def test_integers_of_numpy_are_integers(document: Path) -> None:
    model = nnefc.compile(
        document,
        threads=np.int64(1),  # type: ignore[arg-type]
        shapes={"x": np.array([1])},  # type: ignore[dict-item]
        random_weights=np.uint8(3),  # type: ignore[arg-type]
    )
    assert str(model.inputs[0]) == "x: float32[1]"
    assert model.threads == 1


@pytest.mark.parametrize("path", [None, 3, b"graph.nnef", ["graph.nnef"]])
def test_paths_of_the_wrong_kind(document: Path, path: Any) -> None:
    graph = nnefc.import_model(document, random_weights=1)
    for call in (
        lambda: nnefc.compile(path),
        lambda: nnefc.import_model(path),
        lambda: nnefc.save_archive(path, graph),
        lambda: nnefc.save_archive(document.with_name("n.tgz"), path),
        lambda: nnefc.read_tensor(path),
        lambda: nnefc.write_tensor(path, np.ones(1)),
    ):
        with pytest.raises(nnefc.NnefError, match=type(path).__name__) as caught:
            call()
        assert [e.rule for e in caught.value.errors] == ["input/argument"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "an empty path"),
        ("a" * 300, "File name too long"),
        ("a" * 5000, "File name too long"),
        ("a" * 300 + "/b", "File name too long"),
        ("a\0b", "null"),
    ],
)
def test_paths_that_the_system_refuses(
    path: str, message: str, document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = nnefc.compile(document, random_weights=1, threads=1)

    def suffixed(suffix: str) -> str:
        return path and path + suffix

    for call in (
        lambda: nnefc.compile(path),
        lambda: nnefc.import_model(path),
        lambda: nnefc.load(suffixed(".nnefc")),
        lambda: model.save(suffixed(".nnefc")),
        lambda: model.emit_c(path),
        lambda: nnefc.save_archive(suffixed(".tgz"), model.graph),
    ):
        with pytest.raises(nnefc.NnefError, match=message):
            call()
    assert not list(tmp_path.glob("a*"))


def test_a_document_without_data_can_be_printed(document: Path) -> None:
    with pytest.raises(nnefc.NnefError, match="no data"):
        nnefc.import_model(document)
    graph = nnefc.import_model(document, load_data=False)
    assert "variable" in str(graph)
    with pytest.raises(nnefc.NnefError) as caught:
        nnefc.compile(graph)
    assert {e.rule for e in caught.value.errors} == {"data/missing"}


def test_no_memory_to_import_or_compile(document: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise MemoryError("Unable to allocate 1. TiB")

    graph = nnefc.import_model(document, random_weights=1)
    for place, source, what in (
        ("nnefc.passes.pipeline.run_pipeline", graph, "compile"),
        ("nnefc.frontends.read_model.run_front_end", document, "import"),
    ):
        monkeypatch.setattr(place, fail)
        with pytest.raises(nnefc.NnefError, match=f"memory to {what} .*1. TiB") as caught:
            nnefc.compile(source)
        assert caught.value.errors[0].rule == "limit/memory"
