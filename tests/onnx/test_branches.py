"""Branches of ONNX models run one at a time, with the results of onnxruntime."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.numpy_helper import from_array

import nnefc
from nnefc import DynamicModel
from nnefc.emit.convert.onnx.model import onnx_model
from nnefc.ir import Graph
from nnefc.ir.graph import walk
from nnefc.runtime.run.compiled_model import CompiledModel
from nnefc.support.errors import NnefError
from tests.helpers.artifacts.c_programs import LIBRARIES, compile_c, needs_compiler, run_main
from tests.helpers.onnx.evaluate import graph_for, reference_results
from tests.helpers.onnx.models import save
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results, reals
from tests.helpers.onnx.text_models import check, parsed

Array = np.ndarray[Any, Any]

HEAVY = """(float[6,48] x, bool c, int64 n) => (float[6,48] y, float[6,48] z) {
  u = MatMul(x, outer)
  limit = Constant <value = int64 {5}> ()
  k = Min(n, limit)
  y, z = If (c) <
    then_branch = heavy () => (float[6,48] p, float[6,48] q) {
      a = MatMul(u, first)
      p = Relu(a)
      q = Identity(u)
    },
    else_branch = deep () => (float[6,48] p, float[6,48] q) {
      t = Constant <value = bool {1}> ()
      p, q = Loop (k, t, u, u) <
        body = turn (int64 i, bool d, float[6,48] s, float[6,48] r)
            => (bool e, float[6,48] s2, float[6,48] r2) {
          one = Constant <value = int64 {1}> ()
          zero = Constant <value = int64 {0}> ()
          two = Constant <value = int64 {2}> ()
          odd = Mod(i, two)
          is_odd = Greater(odd, zero)
          s2 = If (is_odd) <
            then_branch = odd_turn () => (float[6,48] o) {
              b = MatMul(s, second)
              o = Tanh(b)
            },
            else_branch = even_turn () => (float[6,48] o) {
              b = MatMul(r, first)
              m = ReduceMean <axes = [1], keepdims = 1> (b)
              o = Sub(b, m)
            }
          >
          r2 = Add(r, s2)
          e = Identity(d)
        }
      >
    }
  >
}"""
"""An `If` around a loop around an `If`, all with products."""


def with_weights(text: str, arrays: Mapping[str, Array], opset: int = 17) -> onnx.ModelProto:
    model = parsed(text, opset)
    model.graph.initializer.extend(from_array(x, name) for name, x in arrays.items())
    return model


def heavy() -> onnx.ModelProto:
    names = ("outer", "first", "second")
    weights = [reals(48, 48, seed=i) / np.float32(7) for i in range(3)]
    return with_weights(HEAVY, dict(zip(names, weights, strict=True)))


def inputs(c: bool, n: int) -> list[Array]:
    return [reals(6, 48, seed=5), np.array(c), np.array(n)]


def close(found: Any, wanted: Any) -> None:
    """Compare the results of a call, one array or several, with those of onnxruntime."""
    found = [found] if isinstance(found, np.ndarray) else found
    for y, want in zip(found, wanted, strict=True):
        assert (y.dtype, y.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(y, want, 1e-4, 1e-5)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> nnefc.Model:
    path = save(heavy(), tmp_path_factory.mktemp("net") / "net.onnx")
    model = nnefc.compile(path, threads=1)
    assert isinstance(model, CompiledModel)
    return model


PRODUCTS = ("matmul", "fused_matmul")
CALLS = [(True, 3), (False, 0), (False, 1), (False, 4), (False, 9)]


@pytest.mark.parametrize("threads", [1, 2])
def test_nested_branches_and_loops(threads: int, tmp_path: Path) -> None:
    net = heavy()
    model = nnefc.compile(save(net, tmp_path / "net.onnx"), threads=threads)
    for call in CALLS * 2:
        close(model(*inputs(*call)), onnxruntime_results(net, inputs(*call)))


def test_the_other_branch_does_not_run(compiled: CompiledModel) -> None:
    products = [
        i
        for i, launch in enumerate(compiled.launches)
        if launch.label.partition(" ")[0] in PRODUCTS
    ]
    assert len(products) == 4

    def executed(c: bool, n: int) -> list[int]:
        found = compiled.profile(*inputs(c, n), seconds=0)
        assert (found.executions == found.executions[0]).all()
        assert ((found.executions > 0) == (found.wall > 0)).all()
        return found.executions[0, products].tolist()

    # before the branches, in `then`, in odd turns, in even turns
    assert executed(True, 5) == [1, 1, 0, 0]
    assert executed(False, 0) == [1, 0, 0, 0]
    assert executed(False, 1) == [1, 0, 0, 1]
    assert executed(False, 2) == [1, 0, 1, 1]
    assert executed(False, 5) == [1, 0, 2, 3]


def test_files_pickles_and_caches(compiled: CompiledModel, tmp_path: Path) -> None:
    compiled.save(tmp_path / "net.nnefc")
    others = [nnefc.load(tmp_path / "net.nnefc"), pickle.loads(pickle.dumps(compiled))]
    for call in CALLS[:3]:
        wanted = compiled(*inputs(*call))
        for other in others:
            close(other(*inputs(*call)), wanted)


@needs_compiler
def test_c_programs(compiled: CompiledModel, tmp_path: Path) -> None:
    compiled.emit_c(tmp_path / "c", name="net")
    program = tmp_path / "c" / "example"
    compile_c("main.c", "net.o", "-o", program, *LIBRARIES)
    for call in CALLS[:4]:
        wanted = compiled(*inputs(*call))
        close(run_main(program, 2, inputs(*call), wanted), wanted)


def test_only_the_branch_that_runs_checks_its_indices(tmp_path: Path) -> None:
    text = """(float[5,3] x, int64[2] i, bool c) => (float[2,3] y) {
      y = If (c) <
        then_branch = a () => (float[2,3] p) { g = Gather(x, i)  p = Exp(g) },
        else_branch = b () => (float[2,3] p) {
          two = Constant <value_ints = [2, 3]> ()
          s = ReduceSum <keepdims = 1> (x)
          p = Expand(s, two)
        }
      >
    }"""
    model = nnefc.compile(save(parsed(text), tmp_path / "net.onnx"), threads=1)
    x, right, wrong = reals(5, 3), np.array([4, 0]), np.array([1, 5])
    for call in ((right, True), (right, False), (wrong, False)):
        arrays = [x, call[0], np.array(call[1])]
        close(model(*arrays), onnxruntime_results(parsed(text), [x, right, arrays[2]]))
    with pytest.raises(NnefError, match=r"index 5 .*input/index"):
        model(x, wrong, np.array(True))
    close(
        model(x, right, np.array(True)),
        onnxruntime_results(parsed(text), [x, right, np.array(True)]),
    )


CONVOLUTIONS = """(float[{B},24,14,14] x, bool[1] c) => (float[{B},32,7,7] y) {
  u = Conv <pads = [1, 1, 1, 1]> (x, w0)
  v = Relu(u)
  p = If (c) <
    then_branch = a () => (float[{B},32,14,14] q) {
      r = Conv <pads = [1, 1, 1, 1]> (v, w1, b1)
      n = BatchNormalization (r, scale, shift, mean, variance)
      q = Relu(n)
    },
    else_branch = b () => (float[{B},32,14,14] q) { q = Conv (v, w2, b1) }
  >
  m = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (p)
  y = Sigmoid(m)
}"""


def convolutions(batch: int | str) -> onnx.ModelProto:
    shapes = {"w0": (20, 24, 3, 3), "w1": (32, 20, 3, 3), "w2": (32, 20, 1, 1), "b1": (32,)}
    shapes |= dict.fromkeys(("scale", "shift", "mean", "variance"), (32,))
    arrays = {name: reals(*shape, seed=i) / 4 for i, (name, shape) in enumerate(shapes.items())}
    arrays = {name: x.astype(np.float32) for name, x in arrays.items()}
    arrays["variance"] = np.abs(arrays["variance"]) + np.float32(0.5)
    return with_weights(CONVOLUTIONS.replace("{B}", str(batch)), arrays)


@pytest.mark.parametrize("batch", [1, 16])
def test_branches_have_the_layouts_and_weights_of_graphs(batch: int, tmp_path: Path) -> None:
    net = convolutions(batch)
    model = nnefc.compile(save(net, tmp_path / "net.onnx"), threads=2)
    for c in (True, False):
        arrays = [reals(batch, 24, 14, 14), np.array([c])]
        close(model(*arrays), onnxruntime_results(net, arrays))
    assert isinstance(model, CompiledModel)
    labels = {launch.label for launch in model.launches}
    assert len({label for label in labels if label.startswith("fused_conv ")}) == 3
    assert not {"batch_normalization", "fused", "conv"} & {label.split()[0] for label in labels}


def test_shapes_may_vary(tmp_path: Path) -> None:
    net = convolutions("B")
    model = nnefc.compile(save(net, tmp_path / "net.onnx"), threads=1)
    assert isinstance(model, DynamicModel)
    model.save(tmp_path / "net.nnefc", shapes={"B": 4})
    loaded = nnefc.load(tmp_path / "net.nnefc")
    for batch in (3, 2, 5):
        for c in (True, False):
            arrays = [reals(batch, 24, 14, 14, seed=batch), np.array([c])]
            wanted = onnxruntime_results(net, arrays)
            close(model(*arrays), wanted)
            close(loaded(*arrays), wanted)


def test_results_with_extents_that_a_run_tells(tmp_path: Path) -> None:
    text = """(float[4,3] x, bool c) => (float[K] y, int64[1] n, float k) {
      nonzero = NonZero(x)
      flat, k = If (c) <
        then_branch = a () => (int64[2,K] p, float o) {
          h = Relu(x)  g = MatMul(h, w)  p = NonZero(g)  o = Constant <value_float = 1.5> ()
        },
        else_branch = b () => (int64[2,K] p, float o) {
          g = MatMul(x, w)  d = Shape(nonzero)  p = Identity(nonzero)
          o = Constant <value_float = 2.5> ()
        }
      >
      t = Transpose(flat)
      y = GatherND(x, t)
      s = Shape(y)
      n = Identity(s)
    }"""
    net = with_weights(text, {"w": np.eye(3, dtype=np.float32)})
    model = nnefc.compile(save(net, tmp_path / "net.onnx"), threads=1)
    for c in (True, False):
        arrays = [np.where(reals(4, 3) > 0.5, 0, reals(4, 3)), np.array(c)]
        close(model(*arrays), onnxruntime_results(net, arrays))


def names(graph: Graph) -> list[str]:
    return [op.name for op in walk(graph)]


CHEAP = """(float[4,3] x, bool c) => (float[4,3] y, float z) {
  y, z = If (c) <
    then_branch = a () => (float[4,3] p, float q) {
      p = Mul(x, x)  q = Constant <value_float = 1.5> ()
    },
    else_branch = b () => (float[4,3] p, float q) {
      p = Neg(x)  q = Constant <value_float = 1.5> ()
    }
  >
}"""


def test_cheap_branches_are_computed_both(tmp_path: Path) -> None:
    graph = check(CHEAP, reals(4, 3), np.array(True))
    assert names(graph) == ["if", "mul", "neg", "constant"]
    model = nnefc.compile(save(parsed(CHEAP), tmp_path / "net.onnx"), threads=1)
    assert isinstance(model, CompiledModel)
    assert len(model.launches) == 2  # the expression, and the known result
    for c in (True, False):
        arrays = [reals(4, 3), np.array(c)]
        close(model(*arrays), onnxruntime_results(parsed(CHEAP), arrays))


@pytest.mark.parametrize("c", [True, False])
def test_branches_that_need_the_graph_around_are_computed_both(c: bool) -> None:
    """The repeats are known in the graph around only."""
    text = """(float[2] x, bool c) => (float[6] y) {
      n = Shape(x)
      d = Cast <to = 1> (n)
      y = If (c) <
        then_branch = a () => (float[6] p) {
          e = Cast <to = 7> (d)  three = Constant <value_int = 3> ()
          f = Add(e, three)  g = Constant <value_ints = [2]> ()  h = Sub(f, g)
          p = Tile(x, h)
        },
        else_branch = b () => (float[6] p) {
          k = Constant <value_ints = [3]> ()  q = Tile(x, k)  p = Exp(q)
        }
      >
    }"""
    check(text, reals(2), np.array(c))


def test_converted_models_have_branches(tmp_path: Path) -> None:
    written = tmp_path / "written.onnx"
    graph = graph_for(convolutions(1), [reals(1, 24, 14, 14), np.array([True])])
    onnx_model(graph).write(written)
    assert [node.op_type for node in onnx_model(graph).proto.graph.node].count("If") == 1
    for c in (True, False):
        arrays = [reals(1, 24, 14, 14), np.array([c])]
        found = onnxruntime_results(onnx.ModelProto.FromString(written.read_bytes()), arrays)
        close(found, onnxruntime_results(convolutions(1), arrays))


# -- branches with different shapes

SHAPES = """(float[4,3] x, float[2,3] other) => (RESULT y) {
  zero = Constant <value = float {0.0}> ()
  total = ReduceSum <keepdims = 0> (x)
  c = Greater(total, zero)
  one = Constant <value = int64[1] {1}> ()
  three = Constant <value = int64[1] {3}> ()
  first = Constant <value = int64[1] {0}> ()
  r = If (c) <
    then_branch = a () => (THEN),
    else_branch = b () => (ELSE)
  >
  AFTER
}"""
HALF = "float[2,3] p) { p = Slice(x, one, three, first) }"
WHOLE = "float[4,3] p) { p = Exp(x) }"
NONE = "float[0,3] p) { p = Slice(x, first, first, first) }"
FOUND = """float[N,3] p) {
  w = Greater(x, zero)
  f = ReduceMax <axes = [1], keepdims = 0> (x)
  g = Greater(f, zero)
  p = Compress <axis = 0> (x, g)
}"""
WIDE = "float[4,5] p) { s = Slice(x, one, three, one) p = Concat <axis = 1> (x, s) }"
LISTS = "int64[2] p) { p = Constant <value_ints = [4, 5]> () }"
LIST = "int64[3] p) { p = Constant <value_ints = [1, 2, 3]> () }"
TURNED = "float[2,4] p) { t = Transpose(x) p = Slice(t, first, one, first) }"
FLAGS = "bool[4,3] p) { p = Greater(x, zero) }"
FEW_FLAGS = "bool[2,3] p) { p = Greater(other, zero) }"


@pytest.mark.parametrize(
    ("then", "other"),
    [
        (HALF, WHOLE),
        (WHOLE, HALF),
        (WHOLE, NONE),
        (NONE, HALF),
        (FOUND, HALF),
        (HALF, FOUND),
        (WIDE, WHOLE),
        (LISTS, LIST),
        (FLAGS, FEW_FLAGS),
    ],
)
@pytest.mark.parametrize("after", ["y = Identity(r)", "y = Concat <axis = AXIS> (r, r)"])
def test_different_extents(then: str, other: str, after: str) -> None:
    """The results have room for the larger extent; a run counts the items."""
    result = then.partition("[")[0]
    text = SHAPES.replace("RESULT", f"{result}[]").replace("AFTER", after)
    text = text.replace("AXIS", "1" if then is WIDE else "0")
    text = text.replace("THEN)", then).replace("ELSE)", other)
    model = parsed(text, 12)
    x = reals(4, 3)
    graph = graph_for(model, [x, x[:2]])
    for each in (x + 1, x - 1):
        inputs = [each, 2 * each[:2]]
        (want,) = onnxruntime_results(model, inputs)
        (y,) = reference_results(graph, inputs)
        assert (y.dtype, y.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("other", [TURNED, LIST])
def test_shapes_that_differ_in_more_are_refused(other: str) -> None:
    text = SHAPES.replace("THEN)", HALF).replace("ELSE)", other)
    model = parsed(text.replace("RESULT", "float[]").replace("AFTER", "y = Identity(r)"), 12)
    with pytest.raises(NnefError, match="chosen at run time"):
        graph_for(model, [reals(4, 3), reals(2, 3)])


def test_different_extents_run(tmp_path: Path) -> None:
    """Compiled, with products that keep both branches apart."""
    text = SHAPES.replace("RESULT", "float[N,48]").replace("AFTER", "y = Relu(r)")
    text = text.replace("[4,3]", "[64,48]").replace("[2,3]", "[8,48]")
    text = text.replace("THEN)", "float[64,48] p) { p = MatMul(x, w) }")
    text = text.replace("ELSE)", "float[8,48] p) { p = MatMul(other, w) }")
    model = with_weights(text, {"w": reals(48, 48)})
    compiled = nnefc.compile(save(model, tmp_path / "net.onnx"))
    for shift in (1, -1):
        inputs = [reals(64, 48) + np.float32(shift), reals(8, 48)]
        close(compiled(*inputs), onnxruntime_results(model, inputs))
