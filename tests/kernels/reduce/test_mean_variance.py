"""Normalisation by mean and variance against float64 formulas and PyTorch, between guard pages."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnefc
from nnefc.frontends.nnef.import_model import import_text
from nnefc.ir import DType, Expression, Graph, Op, Step, TensorType
from nnefc.ops.tools.reference import evaluate
from nnefc.options.import_config import ImportConfig
from nnefc.passes.pipeline import run_pipeline, verify_hook
from tests.helpers.examples import examples
from tests.helpers.kernels.one_op import Array, normal, run_graph


def normalised(x: Array, axes: tuple[int, ...], epsilon: float, *, centred: bool = True) -> Array:
    x = x.astype(np.float64)
    if centred:
        x = x - x.mean(axes, keepdims=True)
    return x / np.sqrt((x * x).mean(axes, keepdims=True) + epsilon)


def close(got: Array, want: Array, rounding: float = 0.0) -> None:
    """Compare with a tolerance of 1e-5 (float64: 1e-10) relative to the largest item.

    `rounding`: what the rounding of means adds to it.
    """
    tolerance = (1e-5 if got.dtype == np.float32 else 1e-10) + rounding
    size = float(np.abs(want).max())
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * max(size, 1e-30))


def operation(
    x: Array, axes: tuple[int, ...], *others: Array, epsilon: float = 1e-5, centred: bool = True
) -> Graph:
    """A graph of the operation, which adds `others` to the normalised items and takes the tanh."""
    graph = Graph("g")
    dtype = DType(x.dtype.name)
    values = [
        graph.add_input(TensorType(dtype, each.shape), f"x{i}")
        for i, each in enumerate((x, *others))
    ]
    attributes: dict[str, Any] = {"axes": axes, "epsilon": epsilon, "centred": centred}
    name = "mean_variance_normalization"
    if others:
        name, count = f"fused_{name}", len(values)
        steps = [Step("add", (0, 1), dtype)]
        steps += [Step("add", (count + i - 2, i), dtype) for i in range(2, count)]
        steps.append(Step("tanh", (count + len(steps) - 1,), dtype))
        result = (count + len(steps) - 1,)
        attributes["expression"] = Expression((dtype,) * count, tuple(steps), result)
    op = graph.insert(Op(name, values, attributes, [values[0].type]))
    graph.add_output(op.output, "y")
    return graph


@examples(1.2)
@given(st.data())
def test_any_shape_and_axes(data: st.DataObject) -> None:
    extents = st.one_of(st.integers(1, 4), st.integers(1, 70))
    shapes = st.lists(extents, min_size=1, max_size=5).filter(lambda s: math.prod(s) < 50_000)
    shape = data.draw(shapes)
    every = st.integers(0, len(shape) - 1)
    axes = tuple(sorted(data.draw(st.sets(every, min_size=1))))
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    centred = data.draw(st.booleans())
    mean = data.draw(st.sampled_from([0.0, -3.0, 1e4])) if centred else 0.0
    x = (normal(1, *shape, dtype=dtype) + mean).astype(dtype)
    others: list[Array] = []
    for i in range(data.draw(st.integers(0, 2))):
        repeats = data.draw(st.sets(every))
        dims = [1 if axis in repeats else n for axis, n in enumerate(shape)]
        while dims and dims[-1] == 1 and data.draw(st.booleans()):
            dims.pop()
        others.append(normal(i + 2, *dims, dtype=dtype))
    graph = operation(x, axes, *others, centred=centred)
    threads, at_end = data.draw(st.integers(1, 2)), data.draw(st.booleans())
    (got,) = run_graph(graph, x, *others, threads=threads, at_end=at_end)
    want = normalised(x, axes, 1e-5, centred=centred)
    for other in others:
        want = want + other.reshape(other.shape + (1,) * (x.ndim - other.ndim))
    spread = float(np.sqrt(x.astype(np.float64).var(axes) + 1e-5).min())
    rounding = 4 * float(np.finfo(np.float64).eps) * float(np.abs(x).max()) / spread
    close(got, np.tanh(want) if others else want, rounding)


@pytest.mark.slow
@pytest.mark.parametrize("mean", [0.0, 1.0, 1e4])
@pytest.mark.parametrize("shape", [(2, 1_000_003), (1_000_003, 2), (3, 5000, 67)])
def test_long_rows(shape: tuple[int, ...], mean: float) -> None:
    x = (normal(1, *shape) + mean).astype(np.float32)
    axis = (int(np.argmax(shape)),)
    (got,) = run_graph(operation(x, axis), x, threads=2)
    close(got, normalised(x, axis, 1e-5))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("distance", [4.0, 30.0, 1e6])
def test_first_items_far_from_the_mean(distance: float, axis: int) -> None:
    """A first item that is far from all others does not reduce the accuracy."""
    x = normal(1, 500, 500)
    x[0, ::7] = distance
    x[1::7, 0] = -distance
    (got,) = run_graph(operation(x, (axis,)), x)
    want = normalised(x, (axis,), 1e-5)
    close(got, want)
    if axis:
        close(got[1::7, 1:], want[1::7, 1:])
    else:
        close(got[1:, ::7], want[1:, ::7])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("item", [0.0, 0.1, 1e4, -3e38])
def test_equal_items_are_zeros(item: float, axis: int) -> None:
    x = np.full((70, 70), item, np.float32)
    (got,) = run_graph(operation(x, (axis,), epsilon=1e-12), x)
    assert not got.any()


@pytest.mark.parametrize("axis", [0, 1])
def test_nan_stays_in_its_row(axis: int) -> None:
    x = normal(2, 20, 20)
    x[3, 4], x[5, 6] = np.nan, np.inf
    (got,) = run_graph(operation(x, (axis,)), x)
    with np.errstate(invalid="ignore"):
        want = normalised(x, (axis,), 1e-5)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


HEAD = "version 1.0; extension KHR_enable_operator_expressions;"


def launched(body: str, *arrays: Array, launches: int = 1) -> Array:
    """The result of a document over x, s, o; checks its number of launches."""
    inputs = dict(zip("xso", arrays, strict=False))
    externals = " ".join(f"{k} = external(shape = {list(v.shape)});" for k, v in inputs.items())
    graph = import_text(f"{HEAD} graph g({', '.join(inputs)}) -> (y) {{ {externals} {body} }}")
    model = nnefc.compile(graph, threads=1)
    assert len(model.launches) == launches
    return model.run(inputs)["y"]


def torch_functional() -> Any:
    torch: Any = pytest.importorskip("torch")
    return torch, torch.nn.functional


def test_layer_norm_of_torch() -> None:
    torch, functional = torch_functional()
    x, s, o = normal(1, 3, 7, 96), normal(2, 1, 1, 96), normal(3, 1, 1, 96)
    body = """
        m = mean_reduce(x, axes = [2]); d = x - m; v = mean_reduce(d ^ 2.0, axes = [2]);
        y = d / sqrt(v + 0.001) * s + o;
    """
    tensors = [torch.from_numpy(a.astype(np.float64)) for a in (x, s.ravel(), o.ravel())]
    want = functional.layer_norm(tensors[0], (96,), tensors[1], tensors[2], 0.001)
    close(launched(body, x, s, o), want.numpy())


def test_instance_norm_of_torch() -> None:
    torch, functional = torch_functional()
    x, s, o = normal(1, 2, 5, 9, 11), normal(2, 1, 5), normal(3, 1, 5)
    body = """
        (m, v) = moments(x, axes = [2, 3]);
        y = relu(batch_normalization(x, m, v, o, s, epsilon = 0.001));
    """
    tensors = [torch.from_numpy(a.astype(np.float64)) for a in (x, s.ravel(), o.ravel())]
    want = functional.instance_norm(tensors[0], weight=tensors[1], bias=tensors[2], eps=0.001)
    close(launched(body, x, s, o), want.relu().numpy())


def test_rms_norm_of_torch() -> None:
    torch, functional = torch_functional()
    x, s = normal(1, 3, 7, 96), normal(2, 1, 1, 96)
    body = "y = x * rsqrt(mean_reduce(x * x, axes = [2]) + 0.001) * s + x;"
    tensors = [torch.from_numpy(a.astype(np.float64)) for a in (x, s.ravel())]
    want = functional.rms_norm(tensors[0], (96,), tensors[1], 0.001) + tensors[0]
    close(launched(body, x, s), want.numpy())


def test_results_take_the_memory_of_operands() -> None:
    x, s, o = normal(1, 4, 300), normal(2, 4, 300), normal(3, 1, 300)
    body = """
        a = tanh(x); b = softmax(s);
        (m, v) = moments(a, axes = [1]); c = (a - m) / sqrt(v + 0.1) + b;
        (n, w) = moments(c, axes = [0]); y = (c - n) * rsqrt(w + 0.1) * o;
    """
    b = np.exp(s.astype(np.float64))
    b /= b.sum(1, keepdims=True)
    c = normalised(np.tanh(x.astype(np.float64)), (1,), 0.1) + b
    close(launched(body, x, s, o, launches=4), normalised(c, (0,), 0.1) * o)


@pytest.mark.parametrize("activation", ["relu", "sigmoid", "copy"])
@pytest.mark.parametrize("channels", [3, 20, 32])
@pytest.mark.parametrize("epsilon", [0.0, 0.01])
def test_between_convolutions(channels: int, activation: str, epsilon: float) -> None:
    """Normalisation of blocked tensors with and without halo, against row-major ones."""
    body = f"""
        x = external(shape = [2, 3, 9, 11]);
        c = conv(x, variable(shape = [{channels}, 3, 3, 3], label = 'w'));
        (m, v) = moments(c, axes = [2, 3]);
        n = (c - m) / sqrt(v + {epsilon}) * variable(shape = [1, {channels}], label = 's');
        y = conv({activation}(n) + c, variable(shape = [7, {channels}, 3, 3], label = 'z'));
    """
    graph = import_text(
        f"{HEAD} graph g(x) -> (y) {{ {body} }}", config=ImportConfig(random_weights=1)
    )
    x = normal(1, 2, 3, 9, 11)
    want = evaluate(graph, {"x": x}).outputs["y"]
    model = nnefc.compile(graph, threads=1, accuracy="strict")
    families = [each.kernel for each in model.launches]
    assert sum("mean_variance" in str(each) for each in families) == 1
    close(model.run({"x": x})["y"], want)


def test_float64() -> None:
    x = normal(1, 5, 130, dtype=np.float64) + 1e6
    (got,) = run_graph(operation(x, (1,)), x)
    close(got, normalised(x, (1,), 1e-5))


def test_reference() -> None:
    """The pass, the verifier and the interpreter agree with the formula."""
    text = f"""{HEAD} graph g(x) -> (y) {{ x = external(shape = [6, 40]);
        (m, v) = moments(x, axes = [1]); y = (x - m) / sqrt(v + 0.5); }}"""
    graph = import_text(text)
    run_pipeline(graph, hook=verify_hook)
    assert [op.name for op in graph.ops if op.name != "constant"] == ["mean_variance_normalization"]
    x = normal(1, 6, 40)
    np.testing.assert_allclose(
        evaluate(graph, {"x": x}).outputs["y"], normalised(x, (1,), 0.5), 1e-12, 1e-12
    )
