"""Products of codes with known matrices: exact sums, and epilogues rounded as NumPy rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from nnefc.ir import DType, Graph, TensorType, Value
from nnefc.ir.graph import walk
from nnefc.ops.tools.build import build
from nnefc.passes.pipeline import run_pipeline
from tests.helpers.kernels.blocked_op import constant
from tests.helpers.kernels.one_op import run_graph
from tests.helpers.onnx.evaluate import graph_for
from tests.helpers.onnx.onnxruntime_oracle import node_model, onnxruntime_results

Array = np.ndarray[Any, Any]


def codes(dtype: str, *shape: int, seed: int = 0) -> Array:
    """Codes of the whole range; the first row and the last column have the extremes."""
    info = np.iinfo(dtype)
    items = np.random.default_rng([seed, *shape]).integers(
        info.min, info.max, shape, np.dtype(dtype), endpoint=True
    )
    items[..., 0, :], items[..., -1] = info.max, info.min
    return items


@dataclass(frozen=True)
class Case:
    """The operands of a product; `a_zero` is an input of the graph if it is `computed`."""

    a: Array
    b: Array
    a_zero: Array
    b_zero: Array
    transposed: tuple[bool, bool] = (False, False)
    computed: bool = False

    def sums(self) -> Array:
        """The product by NumPy, in int64."""
        x, y = (
            codes.astype(np.int64) - zero.astype(np.int64)
            for codes, zero in ((self.a, self.a_zero), (self.b, self.b_zero))
        )
        x, y = (
            z.swapaxes(-1, -2) if turned else z
            for z, turned in zip((x, y), self.transposed, strict=True)
        )
        return (x @ y).astype(np.int32)

    def graph(self) -> tuple[Graph, Value]:
        """A graph with the product, and its sums."""
        graph = Graph("product")
        a = graph.add_input(TensorType(DType(self.a.dtype.name), self.a.shape), "a")
        zero_type = TensorType(DType(self.a_zero.dtype.name), self.a_zero.shape)
        a_zero = graph.add_input(zero_type, "zero") if self.computed else None
        operands = [
            a,
            constant(graph, self.b),
            a_zero or constant(graph, self.a_zero),
            constant(graph, self.b_zero),
        ]
        attributes = {"transposeA": self.transposed[0], "transposeB": self.transposed[1]}
        return graph, build(graph, "integer_matmul", operands, attributes).output

    def run(self, graph: Graph, *others: Array, threads: int = 1, kernel: bool = True) -> Array:
        """The result of the graph, compiled; `kernel`: whether a kernel must sum integers."""
        run_pipeline(graph)
        assert any("code_matmul" in op.name for op in walk(graph)) == kernel
        inputs = [self.a, *([self.a_zero] if self.computed else []), *others]
        (result,) = run_graph(graph, *inputs, threads=threads)
        return result


def zero(number: int, dtype: str) -> Array:
    return np.array(number, dtype)


CASES = {
    "rows that end within a word": Case(
        codes("uint8", 9, 23), codes("int8", 19, 23), zero(7, "uint8"), zero(0, "int8"),
        (False, True),
    ),
    "signed codes": Case(
        codes("int8", 21, 8), codes("int8", 8, 100), zero(-3, "int8"), zero(0, "int8")
    ),
    "a batch, unsigned weights": Case(
        codes("uint8", 2, 3, 7, 12), codes("uint8", 1, 1, 12, 33) // 2 + 64, zero(255, "uint8"),
        np.arange(100, 133, dtype=np.uint8).reshape(1, 1, 1, 33),
    ),
    "transposed signed codes of a batch": Case(
        codes("int8", 2, 30, 9), codes("int8", 1, 30, 16), zero(5, "int8"), zero(0, "int8"),
        (True, False),
    ),
    "a computed zero point": Case(
        codes("uint8", 3, 768), codes("int8", 768, 40), zero(131, "uint8"), zero(0, "int8"),
        computed=True,
    ),
    "codes of 16 bits, an odd depth": Case(
        codes("int16", 9, 23), codes("int8", 19, 23), zero(0, "int16"), zero(0, "int8"),
        (False, True),
    ),
    "codes of 16 bits without sign, a computed zero point": Case(
        codes("uint16", 3, 768), codes("int8", 768, 40), zero(40000, "uint16"), zero(0, "int8"),
        computed=True,
    ),
    "a transposed batch of 16 bits, weights that exceed int8": Case(
        codes("int16", 2, 24, 7), codes("uint8", 1, 24, 20), zero(-3, "int16"),
        np.arange(0, 200, 10, dtype=np.uint8).reshape(1, 1, 20), (True, False),
    ),
    "weights that exceed int8": Case(
        codes("uint8", 2, 4, 24), codes("uint8", 1, 24, 20), zero(3, "uint8"),
        np.arange(0, 200, 10, dtype=np.uint8).reshape(1, 1, 20),
    ),
    "signed weights that exceed int8": Case(
        codes("int8", 5, 24), codes("int8", 20, 24), zero(3, "int8"), zero(-7, "int8"),
        (False, True), computed=True,
    ),
    "zero points of rows": Case(
        codes("int8", 5, 24), codes("int8", 24, 20), codes("int8", 5, 1), zero(0, "int8"),
        computed=True,
    ),
    "zero points of rows, weights that exceed int8": Case(
        codes("uint8", 2, 4, 24), codes("uint8", 1, 24, 20), codes("uint8", 2, 4, 1),
        zero(77, "uint8"),
    ),
    "a batch of weights": Case(
        codes("uint8", 2, 3, 8), codes("int8", 2, 8, 5), zero(1, "uint8"), zero(0, "int8")
    ),
    "weights of a batch that exceed int8": Case(
        codes("int8", 1, 3, 7, 10), codes("uint8", 2, 1, 20, 10), zero(-9, "int8"),
        np.arange(0, 40, 2, dtype=np.uint8).reshape(1, 1, 20, 1), (False, True), computed=True,
    ),
    "zero points of rows, a batch of weights": Case(
        codes("int8", 2, 5, 24), codes("int8", 2, 24, 20), codes("int8", 2, 5, 1), zero(7, "int8"),
    ),
    "one row of transposed signed codes": Case(
        codes("int8", 1, 30), codes("int8", 1, 5), zero(5, "int8"), zero(0, "int8"), (True, False)
    ),
    "one column": Case(
        codes("uint8", 17, 64), codes("int8", 64, 1), zero(128, "uint8"), zero(0, "int8")
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_sums_are_exact(name: str) -> None:
    case = CASES[name]
    graph, sums = case.graph()
    graph.add_output(sums, "y")
    np.testing.assert_array_equal(case.run(graph), case.sums())


@pytest.mark.parametrize("at", ["uint8", "int8"])
@pytest.mark.parametrize("threads", [1, 2])
def test_requantized_sums(at: str, threads: int) -> None:
    """round(sum * factor per column) + zero point, clamped; the same for any number of threads."""
    case = Case(
        codes("uint8", 150, 40), codes("int8", 40, 200), zero(120, "uint8"), zero(0, "int8")
    )
    factor = np.random.default_rng(1).uniform(1e-4, 4e-3, (1, 200)).astype(np.float32)
    info = np.iinfo(at)
    graph, value = case.graph()
    value = build(graph, "cast", [value], dtype=DType.FLOAT32).output
    value = build(graph, "mul", [value, constant(graph, factor)]).output
    value = build(graph, "round_even", [value]).output
    value = build(graph, "add", [value, constant(graph, np.array(3, np.float32))]).output
    bounds = [constant(graph, np.array(x, np.float32)) for x in (info.min, info.max)]
    value = build(graph, "clamp", [value, *bounds]).output
    graph.add_output(build(graph, "cast", [value], dtype=DType(at)).output, "y")
    got = case.run(graph, threads=threads)
    assert [op.name for op in graph.ops if op.name != "constant"] == ["fused_code_matmul"]
    want = np.rint(case.sums().astype(np.float32) * factor) + np.float32(3)
    np.testing.assert_array_equal(got, np.clip(want, info.min, info.max).astype(at))
    assert {info.min, info.max} <= set(got.flat)


def test_sums_become_reals_and_are_added() -> None:
    """Operands per row and column, and of the whole shape."""
    case = CASES["rows that end within a word"]
    factor = np.float32(2) ** -np.arange(1, 20, dtype=np.float32)[None]
    rows, x = (
        np.float32(1.5) * np.arange(9, dtype=np.float32)[:, None],
        case.sums().astype(np.float32) / np.float32(7),
    )
    graph, value = case.graph()
    value = build(graph, "cast", [value], dtype=DType.FLOAT32).output
    value = build(graph, "mul", [value, constant(graph, factor)]).output
    value = build(graph, "add", [value, constant(graph, rows)]).output
    other = graph.add_input(TensorType(DType.FLOAT32, x.shape), "x")
    graph.add_output(build(graph, "add", [value, other]).output, "y")
    want = case.sums().astype(np.float32) * factor + rows + x
    np.testing.assert_array_equal(case.run(graph, x), want)


@pytest.mark.parametrize(
    "case",
    [
        Case(
            codes("uint8", 8, 3), codes("int8", 8, 5), codes("uint8", 1, 3), zero(0, "int8"),
            (True, False),
        ),
    ],
    ids=["zero points along a transposed matrix"],
)  # fmt: skip
def test_other_products_are_computed_in_floats(case: Case) -> None:
    graph, sums = case.graph()
    graph.add_output(sums, "y")
    np.testing.assert_array_equal(case.run(graph, kernel=False), case.sums())


def test_weights_may_be_views_of_constants() -> None:
    case = Case(codes("uint8", 2, 3, 8), codes("int8", 1, 8, 5), zero(1, "uint8"), zero(0, "int8"))
    graph, sums = case.graph()
    (product,) = [op for op in graph.ops if op.name == "integer_matmul"]
    a, b, *zeros = product.inputs
    flat = constant(graph, case.b.reshape(8, 5))
    view = build(graph, "reshape", [flat], {"shape": b.type.dims}).output
    graph.add_output(build(graph, product.name, [a, view, *zeros], product.attributes).output, "y")
    assert not graph.is_output(sums)
    np.testing.assert_array_equal(case.run(graph), case.sums())


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_results_are_those_of_onnxruntime(dtype: str) -> None:
    a, b = codes(dtype, 2, 3, 40), codes("int8", 40, 5, seed=1) // 2
    zeros = [zero(3, dtype), zero(2, "int8")]
    scales = [np.array(x, np.float32) for x in (0.02, 0.03, 1.5)]
    inputs = [a, scales[0], zeros[0], b, scales[1], zeros[1], scales[2], zero(10, dtype)]
    model = node_model("QLinearMatMul", inputs, known=range(1, 8))
    (want,) = onnxruntime_results(model, [a])
    got = Case(a, b, zeros[0], zeros[1]).run(graph_for(model, [a]))
    np.testing.assert_array_equal(got, want)
