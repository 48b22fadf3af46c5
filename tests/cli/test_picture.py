"""Pictures of graphs: texts of boxes, edges, layout."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from nnefc.cli.inspect.layered_drawing import layout
from nnefc.cli.inspect.picture import draw_svg
from nnefc.frontends.read_model import read_graph
from nnefc.ir import DType, Graph, Op, TensorType
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import NnefError
from tests.helpers.command_line import DIGITS, ROOT, SMALL

SVG = "{http://www.w3.org/2000/svg}"


def drawn(path: Path) -> ElementTree.Element:
    graph = read_graph(path, ImportConfig(load_data=False))
    return ElementTree.fromstring(draw_svg(graph))


def boxes(root: ElementTree.Element) -> list[tuple[str, ...]]:
    return [tuple(t.text or "" for t in group.iter(f"{SVG}text")) for group in root.iter(f"{SVG}g")]


def lines(root: ElementTree.Element) -> int:
    return sum(1 for _ in root.iter(f"{SVG}path"))


def test_boxes_name_tensors_and_weights(tmp_path: Path) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text(SMALL)
    root = drawn(path)
    assert boxes(root) == [
        ("x", "float32[1,3,8,8]"),
        ("conv1", "conv", "1x4x8x8", "filter 4x3x3x3, bias 1x4"),
        ("relu1", "relu", "1x4x8x8"),
        ("y", "mean_reduce", "1x4x1x1"),
        ("y", "float32[1,4,1,1]"),
    ]
    assert lines(root) == 4


def test_states_have_boxes() -> None:
    root = drawn(ROOT / "examples" / "lstm" / "graph.nnef")
    found = boxes(root)
    assert ("lstm/hidden", "state", "float32[1,32]") in found
    assert ("lstm/cell", "state", "float32[1,32]") in found
    assert ("hidden", "update", "1x32", "of lstm/hidden") in found
    assert ("concat_1", "concat", "1x48") in found
    assert any(box[-1] == "filter 128x48, bias 1x128" for box in found)
    # into concat, linear and split; the four gates; mul, mul, add, tanh, mul; updates; outputs
    assert lines(root) == (2 + 1 + 1) + 4 + (2 + 2 + 2 + 1 + 2) + 2 + 2


def test_stored_operands_and_stored_outputs(tmp_path: Path) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text(
        "version 1.0;\ngraph g( x ) -> ( y, w )\n{\n x = external(shape = [2]);\n"
        "w = variable(shape = [2], label = 'w');\n y = max(mul(x, 2.5), w);\n}\n"
    )
    root = drawn(path)
    found = boxes(root)
    assert ("w", "variable", "float32[2]") in found
    assert any(box[-1] == "y = 2.5" for box in found)
    assert lines(root) == 5


def test_labels_are_compared_without_case(tmp_path: Path) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text(
        "version 1.0;\ngraph g( x ) -> ( y )\n{\n x = external(shape = [2]);\n"
        "v = variable(shape = [2], label = 'V');\n w = variable(shape = [2], label = 'v');\n"
        "y = add(x, v);\n u = update(w, y);\n}\n"
    )
    assert ("V", "state", "float32[2]") in boxes(drawn(path))


def test_chains_are_vertical() -> None:
    root = drawn(DIGITS)
    assert len({text.get("x") for text in root.iter(f"{SVG}text")}) == 1
    assert not any("C" in path.get("d", "") for path in root.iter(f"{SVG}path"))


def test_neighbouring_chains_are_vertical() -> None:
    chains = {f"{c}{i}": 20.0 + 37 * ((i + ord(c)) % 4) for c in "abc" for i in range(6)}
    edges = [(f"{c}{i}", f"{c}{i + 1}") for c in "abc" for i in range(5)]
    ends = [("in", f"{c}0") for c in "abc"] + [(f"{c}5", "out") for c in "abc"]
    drawing = layout({"in": 50.0, **chains, "out": 60.0}, [*edges, *ends], 10.0)
    x = {str(node): place[0] for node, place in drawing.nodes.items()}
    for c in "abc":
        assert len({round(x[f"{c}{i}"], 6) for i in range(6)}) == 1
    assert x["in"] == pytest.approx(x["out"])
    for i in range(6):
        row = sorted((x[f"{c}{i}"], chains[f"{c}{i}"]) for c in "abc")
        for (left, wide), (right, next_) in itertools.pairwise(row):
            assert right - left >= (wide + next_) / 2 + 10 - 1e-6


def test_boxes_lie_within_the_picture() -> None:
    root = drawn(ROOT / "examples" / "lstm" / "graph.nnef")
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for rect in root.iter(f"{SVG}rect"):
        x, y, w, h = (float(rect.get(key, 0)) for key in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width
        assert 0 <= y <= y + h <= height
    for path in root.iter(f"{SVG}path"):
        assert max(map(float, re.findall(r"[\d.]+", path.get("d", "")))) <= max(width, height)


def test_huge_graphs_are_not_drawn() -> None:
    type_ = TensorType(DType.FLOAT32, (2,))
    graph = Graph("long")
    value = graph.add_input(type_, "x")
    for _ in range(5000):
        value = graph.insert(Op("exp", [value], {}, [type_])).output
    graph.add_output(value, "y")
    with pytest.raises(NnefError, match=r"5,002 boxes, more than 5,000") as failure:
        draw_svg(graph)
    assert failure.value.errors[0].rule == "limit/picture"


def test_the_picture_in_the_documentation_is_current() -> None:
    """To update it: `nnefc inspect examples/digits/digits.nnef.tgz --svg docs/digits.svg`."""
    graph = read_graph(DIGITS, ImportConfig(load_data=False))
    assert (ROOT / "docs" / "digits.svg").read_text() == draw_svg(graph)
