"""Decision tree ensembles, against a reference node by node and, where installed, tract."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import nnefc
from nnefc import Limits, NnefError, write_tensor
from tests.helpers.examples import examples

Array = np.ndarray[Any, Any]
DOCUMENT = """version 1.0;
extension tract_registry tract_core;
extension tract_registry tract_onnx;
extension tract_symbol N;
graph net( x ) -> ( y )
{{
    x = tract_core_external(shape = {shape}, datum_type = '{dtype}');
    t = variable<scalar>(label = 't', shape = {trees});
    n = variable<scalar>(label = 'n', shape = {nodes});
    v = variable<scalar>(label = 'v', shape = {votes});
    y = tract_onnx_ml_tree_ensemble_classifier(x, t, n, v, max_used_feature = {most},
        n_classes = {classes}, aggregate_fn = '{aggregate}');
}}
"""
NAN_HOLDS = 0x100
EQUAL, NOT_EQUAL, LESS, GREATER, AT_MOST, AT_LEAST = range(1, 7)
AGGREGATES = ("SUM", "AVERAGE", "MAX", "MIN")
LEAST = float(np.finfo(np.float32).min)
TINY = 1e-45
SPECIAL = (-1.0, -0.5, -TINY, -0.0, 0.0, TINY, 0.5, 1.0, -np.inf, np.inf, LEAST, -LEAST, np.nan)


def bits(number: float) -> int:
    return int(np.array(number, np.float32).view(np.uint32))


class Forest(NamedTuple):
    trees: list[int]
    nodes: list[list[int]]
    votes: list[list[int]]


def written(
    folder: Path,
    forest: Forest,
    *,
    classes: int,
    aggregate: str = "SUM",
    shape: str = "[N, 4]",
    dtype: str = "f32",
    most: int = 0,
) -> Path:
    arrays = [np.array(part, np.uint32) for part in forest]
    for name, array in zip("tnv", arrays, strict=True):
        write_tensor(folder / f"{name}.dat", array)
    text = DOCUMENT.format(
        **dict(zip(("trees", "nodes", "votes"), (list(a.shape) for a in arrays), strict=True)),
        classes=classes,
        aggregate=aggregate,
        shape=shape,
        dtype=dtype,
        most=most,
    )
    (folder / "graph.nnef").write_text(text)
    return folder


def is_true(kind: int, x: float, y: float) -> bool:
    results = (x == y, x != y, x < y, x > y, x <= y, x >= y)
    return bool(results[(kind & 0xFF) - 1])


def expected(x: Array, forest: Forest, classes: int, aggregate: str) -> Array:
    """Scores computed row by row and tree by tree from tract's arrays."""
    scores = np.zeros((len(x), classes))
    for row, score in zip(x.astype(np.float32), scores, strict=True):
        counts = np.zeros(classes)
        for node in forest.trees:
            while forest.nodes[node][4] & 0xFF:
                feature, holds, fails, word, kind = forest.nodes[node]
                value = float(row[feature])
                threshold = float(np.array(word, np.uint32).view(np.float32))
                if np.isnan(value):
                    node = holds if kind & NAN_HOLDS else fails
                else:
                    node = holds if is_true(kind, value, threshold) else fails
            begin, end, *_ = forest.nodes[node]
            for which, word in forest.votes[begin:end]:
                vote = float(np.array(word, np.uint32).view(np.float32))
                before = score[which]
                score[which] = {"MAX": max(before, vote), "MIN": min(before, vote)}.get(
                    aggregate, before + vote
                )
                counts[which] += 1
        if aggregate == "AVERAGE":
            score /= np.maximum(counts, 1)
    return scores


def grown(
    seed: int, *, trees: int, depth: int, classes: int, most: int, kinds: tuple[int, ...]
) -> Forest:
    """Random trees over four features whose leaves have up to `most` votes."""
    random = np.random.default_rng(seed)
    forest = Forest([], [], [])

    def grow(left: int) -> int:
        number = len(forest.nodes)
        forest.nodes.append([])
        if left == 0 or random.random() < 0.2:
            begin = len(forest.votes)
            for _ in range(random.integers(0 if most > 1 else 1, most + 1)):
                forest.votes.append([int(random.integers(classes)), bits(random.normal())])
            forest.nodes[number] = [begin, len(forest.votes), 0, 0, 0]
            return number
        threshold = float(random.choice(SPECIAL) if random.random() < 0.3 else random.normal())
        kind = int(random.choice(kinds)) | (NAN_HOLDS if random.random() < 0.5 else 0)
        feature, below = int(random.integers(4)), [grow(left - 1), grow(left - 1)]
        forest.nodes[number] = [feature, *below, bits(threshold), kind]
        return number

    forest.trees.extend(grow(depth) for _ in range(trees))
    if not forest.votes:
        forest.votes.append([0, 0])
    return forest


def features(seed: int, count: int) -> Array:
    random = np.random.default_rng(seed)
    special = random.choice(np.array(SPECIAL, np.float32), (count, 4))
    return np.where(random.random((count, 4)) < 0.4, special, random.normal(size=(count, 4)))


@examples(0.25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 1 << 30),
    trees=st.integers(1, 7),
    depth=st.integers(0, 6),
    classes=st.integers(1, 5),
    most=st.integers(1, 3),
    aggregate=st.sampled_from(AGGREGATES),
)
def test_random_trees_match_the_reference(
    seed: int, trees: int, depth: int, classes: int, most: int, aggregate: str, tmp_path: Path
) -> None:
    forest = grown(
        seed, trees=trees, depth=depth, classes=classes, most=most, kinds=tuple(range(1, 7))
    )
    x = features(seed, 20).astype(np.float32)
    model = nnefc.compile(
        written(tmp_path, forest, classes=classes, aggregate=aggregate, most=3), threads=1
    )
    for rows in (20, 3, 1):
        y = model(x[:rows])
        assert y.dtype == np.float32
        np.testing.assert_allclose(
            y, expected(x[:rows], forest, classes, aggregate), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("kind", range(EQUAL, AT_LEAST + 1))
def test_comparisons_are_exact(kind: int, tmp_path: Path) -> None:
    """Each special number is compared with all others and with its neighbours."""
    forest = Forest([], [[0, 1, 0, 0, 0], [1, 2, 0, 0, 0]], [[0, bits(1)], [1, bits(1)]])
    for threshold in SPECIAL:
        for nan_holds in (0, NAN_HOLDS):
            forest.trees.append(len(forest.nodes))
            forest.nodes.append([0, 1, 0, bits(threshold), kind | nan_holds])
    near = [np.nextafter(np.float32(x), np.float32(to)) for x in SPECIAL for to in (-9, 9)]
    x = np.array([*SPECIAL, *near], np.float32)[:, None]
    y = nnefc.compile(written(tmp_path, forest, classes=2, shape="[N, 1]"))(x)
    assert y.tolist() == expected(x, forest, 2, "SUM").tolist()


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("most", [1, 3])
def test_random_trees_match_tract(aggregate: str, most: int, tmp_path: Path) -> None:
    """Comparison 6, "at least", is left out, because tract takes it for a leaf."""
    pytest.importorskip("tract")
    tract: Any = import_module("tract")
    forest = grown(5, trees=9, depth=5, classes=3, most=most, kinds=(1, 2, 3, 4, 5))
    x = features(6, 30).astype(np.float32)
    folder = written(tmp_path, forest, classes=3, aggregate=aggregate, shape="[30, 4]", most=3)
    runnable = tract.nnef().with_onnx().load(str(folder)).into_runnable()
    theirs = runnable.run([tract.Tensor.from_numpy(x)])[0].to_numpy()
    np.testing.assert_allclose(nnefc.compile(folder)(x), theirs, rtol=1e-5, atol=1e-6)


def test_one_row_and_other_item_types(tmp_path: Path) -> None:
    forest = grown(1, trees=4, depth=4, classes=3, most=1, kinds=(AT_MOST, LESS, EQUAL))
    x = np.array([1, 0, -1, 2], np.int16)
    folder = written(tmp_path, forest, classes=3, shape="[4]", dtype="i16", most=3)
    y = nnefc.compile(folder)(x)
    assert y.shape == (3,)
    np.testing.assert_allclose(y, expected(x[None], forest, 3, "SUM")[0], rtol=1e-5, atol=1e-6)


def test_branches_and_leaves_may_be_shared(tmp_path: Path) -> None:
    """A node may have several parents or none."""
    forest = Forest(
        [3, 2, 3],
        [[0, 1, 0, 0, 0], [1, 2, 0, 0, 0], [0, 0, 1, bits(0), LESS], [1, 2, 0, bits(0), AT_MOST],
         [99, 99, 99, 0, 77]],
        [[0, bits(1)], [1, bits(2)]],
    )  # fmt: skip
    x = features(3, 10)[:, :2].astype(np.float32)
    y = nnefc.compile(written(tmp_path, forest, classes=2, shape="[N, 2]", most=1))(x)
    assert y.tolist() == expected(x, forest, 2, "SUM").tolist()


def test_arrays_may_be_literals(tmp_path: Path) -> None:
    nodes = [[0, 1, 2, bits(0.5), AT_MOST], [0, 1, 0, 0, 0], [1, 2, 0, 0, 0]]
    text = written(tmp_path, Forest([0], nodes, [[0, 0]]), classes=2) / "graph.nnef"
    values = {"t": [0], "n": nodes, "v": [[0, bits(1)], [1, bits(3)]]}
    lines = [
        f"    {line.split()[0]} = {values[line.split()[0]]};" if "variable" in line else line
        for line in text.read_text().splitlines()
    ]
    text.write_text("\n".join(lines))
    x = np.array([[0.25, 0, 0, 0], [0.75, 0, 0, 0]], np.float32)
    assert nnefc.compile(tmp_path)(x).tolist() == [[1, 0], [0, 3]]


LEAF = [0, 1, 0, 0, 0]
VOTES = [[0, bits(1)]]


def branch(holds: int, fails: int, feature: int = 0, kind: int = AT_MOST) -> list[int]:
    return [feature, holds, fails, 0, kind]


@pytest.mark.parametrize(
    ("forest", "options", "message"),
    [
        (Forest([0], [branch(0, 0)], VOTES), {}, "form a cycle"),
        (Forest([0], [branch(1, 2), branch(0, 2), LEAF], VOTES), {}, "form a cycle"),
        (Forest([2], [branch(0, 1), LEAF, branch(0, 1)], VOTES), {}, "form a cycle"),
        (Forest([0], [branch(1, 7), LEAF], VOTES), {}, "no node 7: there are 2"),
        (Forest([9], [LEAF], VOTES), {}, "no node 9: there are 1"),
        (Forest([0], [branch(1, 1, kind=7), LEAF], VOTES), {}, "node 0 has comparison 7"),
        (Forest([0], [branch(1, 1, feature=4), LEAF], VOTES), {}, "feature 4 of 4"),
        (Forest([0], [LEAF], VOTES), {"most": 4}, "max_used_feature is 4"),
        (Forest([0], [[1, 0, 0, 0, 0]], VOTES), {}, "votes 1 to 0: there are 1"),
        (Forest([0], [[0, 2, 0, 0, 0]], VOTES), {}, "votes 0 to 2: there are 1"),
        (Forest([0], [LEAF], [[2, 0]]), {}, "class 2 of 2"),
        (Forest([0], [LEAF], VOTES), {"aggregate": "TOTAL"}, "'TOTAL' is none of SUM"),
        (Forest([0], [LEAF], VOTES), {"classes": -1}, "negative extent"),
        (Forest([0], [LEAF], VOTES), {"classes": 10**13}, "10000000000000"),
        (Forest([0], [LEAF], VOTES), {"shape": "[N, 2, 2]"}, "rank 1 or 2"),
        (Forest([0], [LEAF[:4]], VOTES), {}, "rows of 5"),
        (Forest([0], [LEAF], [[0, 0, 0]]), {}, "rows of 2"),
    ],
)  # fmt: skip
def test_invalid_ensembles_are_errors(
    forest: Forest, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"classes": 2, **options}
    folder = written(tmp_path, forest, **given)
    shape = (3, 2, 2) if "shape" in options else (3, 4)
    with pytest.raises(NnefError, match=message) as error:
        nnefc.compile(folder)(np.zeros(shape, np.float32))
    assert not error.value.errors[0].rule.startswith("internal")


@pytest.mark.slow
def test_steps_and_items_are_limited(tmp_path: Path) -> None:
    """A small file can demand many steps and items."""
    chain = [branch(i + 1, min(i + 2, 5000)) for i in range(5000)]
    with pytest.raises(NnefError, match="limit/steps"):
        written(tmp_path, Forest([0], [*chain, LEAF], VOTES), classes=2)
        nnefc.compile(tmp_path)(np.zeros((1, 4), np.float32))
    leaves = Forest([*range(500)], [[0, 500, 0, 0, 0]] * 500, VOTES * 500)
    with pytest.raises(NnefError, match="limit/items"):
        written(tmp_path, leaves, classes=2)
        nnefc.compile(tmp_path, limits=Limits(items=100_000))(np.zeros((1, 4), np.float32))


def test_computed_arrays_are_refused(tmp_path: Path) -> None:
    text = written(tmp_path, Forest([0], [LEAF], VOTES), classes=2) / "graph.nnef"
    text.write_text(text.read_text().replace("classifier(x, t, n", "classifier(x, t, x"))
    with pytest.raises(NnefError, match="nodes must be known before the model runs"):
        nnefc.compile(tmp_path)(np.zeros((1, 4), np.float32))
    text.write_text(text.read_text().replace("classifier(x, t, x", "classifier(x, [0.5], n"))
    with pytest.raises(NnefError, match="trees has items of type float32"):
        nnefc.compile(tmp_path)(np.zeros((1, 4), np.float32))
    text.write_text(text.read_text().replace("classifier(x, [0.5], n", "classifier(x, [0 - 1], n"))
    with pytest.raises(NnefError, match="trees has the item -1"):
        nnefc.compile(tmp_path)(np.zeros((1, 4), np.float32))
