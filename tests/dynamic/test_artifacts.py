"""Models with symbols and states in artifacts: loaded ones compute the same, without a compiler."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import nnefc
from nnefc import NnefError
from nnefc.dynamic.artifact_content import requests_in
from nnefc.dynamic.dynamic_model import DynamicModel
from nnefc.runtime.artifact.artifact_file import open_file
from nnefc.runtime.artifact.artifact_file_writer import with_changes
from nnefc.runtime.artifact.read_dynamic import DynamicArtifact
from nnefc.support.errors import NnefWarning
from nnefc.symbolic.straight_line import Step
from tests.dynamic.test_plans import MOVES, NUMBERS, PRODUCTS, TWO, W, compare, moves, numbers, two
from tests.dynamic.test_plans import products as attention
from tests.helpers.artifacts.saved import python
from tests.helpers.examples import examples
from tests.helpers.graphs.dynamic_models import items, model, rows, symbolic_model

Array = np.ndarray[Any, Any]

CACHE = """graph g(x) -> (all, total) {
  x = tract_core_external(shape = [1, S, 4], datum_type = 'f32');
  all = tract_transformers_dyn_kv_cache(x, name = 'kept', axis = 1, datum_type = 'f32',
    past_sequence_shape = [1, P, 4], input_sequence_shape = [1, S, 4]);
  total = sum_reduce(all, axes = [1]);
}"""
DECODER = """extension tract_registry tract_transformers;
extension tract_symbol S;
extension tract_symbol P;
"""


def loaded(path: Path, **options: Any) -> DynamicModel:
    """The model in a file, which issues no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = nnefc.load(path, **options)
    assert isinstance(found, DynamicModel)
    return found


@pytest.fixture
def quiet() -> Iterator[None]:
    """Warnings are errors: no plan is compiled."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", NnefWarning)
        yield


CASES = [(MOVES, moves), (NUMBERS, numbers), (PRODUCTS, attention)]


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(("body", "formula"), CASES, ids=["moves", "numbers", "products"])
def test_loaded_models_are_right_within_their_patterns(
    body: str, formula: Any, tmp_path: Path
) -> None:
    compiled = symbolic_model(tmp_path, body, w=W)
    path = tmp_path / "net.nnefc"
    compiled.save(path, shapes=[{"B": 2, "S": 20}, {"B": 1, "S": 5}, {"B": 2, "S": 5}])
    found = loaded(path, threads=1)
    assert (found.inputs, found.outputs) == (compiled.inputs, compiled.outputs)
    assert (found.symbols, repr(found)) == (compiled.symbols, repr(compiled))

    @examples(0.1, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.sampled_from([(2, 20), (2, 24), (2, 17), (1, 5), (2, 5)]))
    def check(extents: tuple[int, int]) -> None:
        x = items(*extents, 6)
        results = found(x)
        compare(results, formula(x))
        for y, expected in zip(results, compiled(x), strict=True):
            np.testing.assert_array_equal(y, expected)

    check()


@pytest.mark.usefixtures("quiet")
def test_shapes_of_several_inputs(tmp_path: Path) -> None:
    path = tmp_path / "net.nnefc"
    symbolic_model(tmp_path, TWO).save(path, shapes={"x": (2, 20, 6), "t": (2, 33, 6)})
    found = loaded(path)
    for lengths in ((20, 33), (30, 50), (21, 40)):
        x, t = (items(2, length, 6) for length in lengths)
        compare(found(x, t), two(x, t))


def test_calls_so_far_are_saved_without_shapes(tmp_path: Path) -> None:
    compiled = symbolic_model(tmp_path, PRODUCTS, w=W)
    with pytest.raises(NnefError, match="no call has made a plan yet") as caught:
        compiled.save(tmp_path / "net.nnefc")
    assert "shapes={'B': 16, 'S': 16}" in caught.value.errors[0].hint
    x = items(1, 21, 6)
    expected = compiled(x)
    compiled.save(tmp_path / "net.nnefc")
    for y, z in zip(loaded(tmp_path / "net.nnefc")(x), expected, strict=True):
        np.testing.assert_array_equal(y, z)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("later", ["loaded", "saved again"])
def test_a_decoder_continues_token_by_token(tmp_path: Path, later: str) -> None:
    compiled = model(tmp_path, CACHE, DECODER)
    path = tmp_path / "net.nnefc"
    compiled.save(path, shapes=[{"S": 7}, {"S": 1}])
    found = loaded(path)
    if later == "saved again":
        found.save(tmp_path / "again.nnefc")
        assert (tmp_path / "again.nnefc").read_bytes() == path.read_bytes()
        found = loaded(tmp_path / "again.nnefc")
    for session, other in ((found, compiled), (found.session(), compiled.session())):
        parts = [rows(n)[None] for n in (9, *[1] * 30, 5, 1)]
        for i, part in enumerate(parts):
            whole = np.concatenate(parts[: i + 1], axis=1)
            every, total = session(part)
            np.testing.assert_array_equal(every, whole)
            np.testing.assert_array_equal(total, other(part)[1])
            np.testing.assert_allclose(total, whole.sum(1, keepdims=True), rtol=1e-4, atol=1e-4)


def test_other_shapes_are_compiled_with_one_warning(tmp_path: Path) -> None:
    path = tmp_path / "net.nnefc"
    symbolic_model(tmp_path, PRODUCTS, w=W).save(path, shapes={"B": 1, "S": 20})
    found = loaded(path)
    with pytest.warns(NnefWarning, match="no plan in the file fits x:") as caught:
        compare(found(x := items(2, 3, 6)), attention(x))
    assert len(caught) == 1
    said = str(caught[0].message)
    assert "x: [2,3,6]: compiling it now" in said
    assert "the file has plans for B = 1, S = " in said
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(found(x := items(3, 4, 6)), attention(x))
    found.save(tmp_path / "more.nnefc")
    assert len(open_file(tmp_path / "more.nnefc").content["requests"]) == 3


_ALONE = """
import sys
for heavy in ("numba", "llvmlite"):
    sys.modules[heavy] = None
import numpy, nnefc
model = nnefc.load(sys.argv[1])
for length in map(int, sys.argv[2].split(",")):
    y = model(numpy.ones((1, length, 4), numpy.float32))
late = ("passes", "lower", "syntax", "frontends", "ops", "symbolic.integers", "dynamic.save")
heavy = ("numba", "llvmlite", "dataclasses", "nnefc.ir", *(f"nnefc.{name}" for name in late))
print([name for name in heavy if sys.modules.get(name)])
try:
    model(numpy.ones((1, 3000, 4), numpy.float32))
except nnefc.NnefError as error:
    print(error.errors[0].rule, error.errors[0].message, "|", error.errors[0].hint)
try:
    model(numpy.ones((1, 3, 5), numpy.float32))
except nnefc.NnefError as error:
    print(error.errors[0].rule)
"""

PLAIN = """graph g(x) -> (y) {
  x = tract_core_external(shape = [1, S, 4], datum_type = 'f32');
  y = softmax(tanh(x) + x * 2.0, axes = [2]);
}"""


def test_loading_and_running_needs_neither_compiler_nor_front_end(tmp_path: Path) -> None:
    path = tmp_path / "net.nnefc"
    symbolic_model(tmp_path, PLAIN).save(path, shapes={"S": 20})
    first, second, third = python(_ALONE, path, "20,21,40,25", NNEFC_CACHE="off").splitlines()
    assert first == "[]"
    assert second.startswith("artifact/shape no plan in the file fits x: [1,3000,4], and there is")
    assert "no compiler here" in second
    assert "the file has plans for S = " in second
    assert third == "input/shape"


def test_models_without_a_pattern_for_the_processor_are_compiled(tmp_path: Path) -> None:
    path = tmp_path / "net.nnefc"
    symbolic_model(tmp_path, PRODUCTS, w=W).save(path, shapes={"B": 1, "S": 20})
    file = open_file(path)
    for target in file.content["targets"]:
        target["interface"] = "0" * 32
    path.write_bytes(b"".join(with_changes(file, {}, file.content)))
    found = loaded(path)
    with pytest.warns(NnefWarning, match="another version of nnefc"):
        compare(found(x := items(1, 20, 6)), attention(x))


@pytest.mark.slow
def test_a_file_may_hold_code_for_several_processors(tmp_path: Path) -> None:
    path = tmp_path / "net.nnefc"
    compiled = symbolic_model(tmp_path, PLAIN)
    compiled.save(path, shapes={"S": 20}, targets=["native", "x86-64-v2"])
    targets = open_file(path).content["targets"]
    assert [target["isa"] for target in targets][1:] == ["x86-64-v2"]
    first, *_ = python(_ALONE, path, "20,30", NNEFC_ISA="x86-64-v2").splitlines()
    assert first == "[]"


def test_the_calls_of_a_decoder_are_stored_once(tmp_path: Path) -> None:
    compiled = model(tmp_path, CACHE, DECODER)
    session = compiled.session()
    for length in (3, 1, 1):
        session(rows(length)[None])
    compiled.save(tmp_path / "net.nnefc")
    stored = loaded(tmp_path / "net.nnefc")
    stored._plans.requests = compiled._plans.requests  # pyright: ignore
    stored.save(tmp_path / "again.nnefc")
    requests, again = (
        requests_in(DynamicArtifact(open_file(tmp_path / name)))
        for name in ("net.nnefc", "again.nnefc")
    )
    assert requests == again == compiled._plans.requests  # pyright: ignore


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({}, "has no shape"),
        ([], "expected values of symbols or shapes"),
        ("S", "expected values of symbols or shapes"),
        ({"S": 4}, "gives 'B' no value"),
        ({"B": 1, "Q": 4}, "the model has no symbol 'Q'"),
        ({"Q": 4, "B": 1, "b": 2}, r"(?s)symbol 'Q'; .*symbol 'b'; its symbols are"),
        ({"B": -1, "S": 4}, "B = -1"),
        ({"x": (1, 4, 7)}, "has to be 6"),
        ([{"B": 1, "S": 4}, {"y": (1,)}], "no input 'y'"),
    ],
)
def test_wrong_shapes_write_no_file(tmp_path: Path, shapes: Any, words: str) -> None:
    compiled = symbolic_model(tmp_path, PRODUCTS, w=W)
    with pytest.raises(NnefError, match=words):
        compiled.save(tmp_path / "net.nnefc", shapes=shapes)
    assert not (tmp_path / "net.nnefc").exists()


def test_weights_are_stored_once(tmp_path: Path) -> None:
    weight = np.random.default_rng(0).standard_normal((600, 1024)).astype(np.float32)
    body = """graph g(x) -> (y) {
      x = tract_core_external(shape = [1, S, 1024], datum_type = 'f32');
      w = variable<scalar>(label = 'w', shape = [600, 1024]);
      y = matmul(x, unsqueeze(w, axes = [0]), transposeB = true);
    }"""
    path = tmp_path / "net.nnefc"
    symbolic_model(tmp_path, body, w=weight).save(path, shapes=[{"S": 1}, {"S": 20}])
    assert open_file(path).sizes["bytes"] < 1.2 * weight.nbytes
    found = loaded(path)
    for length in (1, 20, 31, 300):
        x = items(1, length, 1024)
        expected = x.astype(np.float64) @ weight.T.astype(np.float64)
        np.testing.assert_allclose(found(x), expected, rtol=1e-3, atol=1e-3)
    with pytest.warns(NnefWarning):
        np.testing.assert_allclose(
            found(x := items(1, 3000, 1024)),
            x.astype(np.float64) @ weight.T.astype(np.float64),
            rtol=1e-3,
            atol=1e-3,
        )


def _changed(content: Any, path: list[Any], value: Any) -> Any:
    copy = json.loads(json.dumps(content))
    target = copy
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return copy


PATTERN = ["targets", 0, "patterns", 0]


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (["source"], 5),
        (["source", "linear"], [1]),
        (["source", "linear", 0, 0, 1], [[1, [["S", 0]]]]),
        (["source", "inputs", 0, 1], "float17"),
        ([*PATTERN, "function"], [0, 0]),
        ([*PATTERN, "function"], [1 << 40, 8]),
        ([*PATTERN, "slots"], [0, 7]),
        ([*PATTERN, "sections"], []),
        ([*PATTERN, "constants"], [99]),
        ([*PATTERN, "bases"], [-4]),
        ([*PATTERN, "varying"], [[4], [0]]),
        ([*PATTERN, "conditions"], []),
        ([*PATTERN, "conditions", 3], [99]),
        ([*PATTERN, "table"], [1]),
        ([*PATTERN, "repeated"], [1]),
    ],
)
def test_wrong_facts_are_damage(tmp_path: Path, where: list[Any], value: Any) -> None:
    path = tmp_path / "net.nnefc"
    symbolic_model(tmp_path, PLAIN).save(path, shapes={"S": 20})
    file = open_file(path)
    path.write_bytes(b"".join(with_changes(file, {}, _changed(file.content, where, value))))
    with pytest.raises(NnefError) as caught:
        nnefc.load(path)
    assert caught.value.errors[0].rule == "artifact/damaged"


def test_flipped_bytes_and_cut_files_are_told(tmp_path: Path) -> None:
    path = tmp_path / "net.nnefc"
    symbolic_model(tmp_path, PLAIN).save(path, shapes={"S": 20})
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for position in rng.integers(0, len(whole), 200):
        data = bytearray(whole)
        data[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        with pytest.raises(NnefError, match="artifact/"):
            nnefc.load(path)
    for size in rng.integers(0, len(whole), 50):
        path.write_bytes(whole[:size])
        with pytest.raises(NnefError, match="artifact/"):
            nnefc.load(path)


def test_models_can_be_pickled_with_their_states(tmp_path: Path, quiet: None) -> None:
    compiled = model(tmp_path, CACHE, DECODER)
    for part in (rows(5)[None], rows(1)[None], rows(1)[None]):
        compiled(part)
    path = tmp_path / "net.nnefc"
    compiled.save(path)
    states = dict(compiled.states)
    for each in (compiled, loaded(path)):
        each.states.update(states)
        found = pickle.loads(pickle.dumps(each))
        assert found.states.shapes == each.states.shapes
        twins = copy.copy(each), copy.deepcopy(each)
        expected = each(rows(1)[None])
        for twin in (found, *twins, pickle.loads(pickle.dumps(found))):
            for y, z in zip(twin(rows(1)[None]), expected, strict=True):
                np.testing.assert_array_equal(y, z)
        assert each.states.shapes == found.states.shapes == {"kept": (1, 8, 4)}
        twins[0].reset()
        assert each.states.shapes == {"kept": (1, 8, 4)}


def test_a_model_without_calls_can_be_pickled(tmp_path: Path) -> None:
    found = pickle.loads(pickle.dumps(symbolic_model(tmp_path, PRODUCTS, w=W)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(found(x := items(1, 9, 6)), attention(x))
    assert found.threads_wanted == 1


@pytest.mark.parametrize(
    ("step", "rule"),
    [
        (("a77", "item", ("s0", 0)), "artifact/damaged"),
        (("v77", "bit_length", (0.5,)), "artifact/damaged"),
        (("v77", "<<", (1, 10**11)), None),
        (("v77", "*", (1 << 62, 1 << 62)), None),
    ],
)
def test_wrong_functions_end_a_call(
    step: tuple[Any, ...], rule: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A type error is damage; too large an integer means that the plan does not fit."""
    path = tmp_path / "net.nnefc"
    symbolic_model(tmp_path, MOVES, w=W).save(path, shapes={"B": 2, "S": 20})
    template = DynamicArtifact._template  # pyright: ignore[reportPrivateUsage]

    def changed(artifact: DynamicArtifact, facts: Any) -> Any:
        read = template(artifact, facts)
        program = read.program._replace(steps=(Step(*step), *read.program.steps))
        return read._replace(program=program)

    monkeypatch.setattr(DynamicArtifact, "_template", changed)
    x = np.zeros((2, 24, 6), np.float32)
    if rule is None:
        with pytest.warns(NnefWarning, match="no plan in the file fits"):
            nnefc.load(path, threads=1)(x)
        return
    with pytest.raises(NnefError) as caught:
        nnefc.load(path, threads=1)(x)
    assert [each.rule for each in caught.value.errors] == [rule]
