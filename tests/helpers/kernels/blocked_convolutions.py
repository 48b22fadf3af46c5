"""Convolutions on channel-blocked tensors, compared with PyTorch in float64."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch is typed in part)

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

import nnefc
from nnefc.ir import DType, Graph, Op, TensorType, Value, Variable
from nnefc.kernels.target.isa import host
from nnefc.ops.tools.build import build

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """A convolution, its residual sum and its activation."""

    inputs: int
    outputs: int
    spatial: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    groups: int = 1
    batch: int = 1
    deconv: bool = False
    residual: bool = False
    activation: str = ""

    @property
    def rank(self) -> int:
        return len(self.spatial)


def expected(case: Case, x: Array, w: Array, b: Array, r: Array | None) -> Array:
    """The result of PyTorch in float64."""
    tx, tw = (torch.from_numpy(a).double() for a in (x, w))
    if case.deconv:
        function = getattr(torch.nn.functional, f"conv_transpose{case.rank}d")
        y = function(tx, tw, None, case.stride, 0, 0, case.groups, case.dilation)
        for axis, (before, after) in enumerate(case.padding, 2):
            y = y.narrow(axis, before, y.shape[axis] - before - after)
    else:
        pads = [n for pair in reversed(case.padding) for n in pair]
        tx = torch.nn.functional.pad(tx, pads)
        function = getattr(torch.nn.functional, f"conv{case.rank}d")
        y = function(tx, tw, None, case.stride, 0, case.dilation, case.groups)
    y = y.numpy() + b.astype(np.float64).reshape(1, -1, *[1] * case.rank)
    if r is not None:
        y = y + r
    match case.activation:
        case "relu":
            return np.maximum(y, 0)
        case "relu6":
            return np.clip(y, 0, 6)
        case "silu":
            return y / (1 + np.exp(-y))
        case _:
            return y


def random(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def variable(graph: Graph, label: str, data: Array) -> Value:
    type_ = TensorType(DType.FLOAT32, data.shape)
    graph.variables[label] = Variable(label, type_, data)
    return graph.insert(Op("variable", (), {"shape": data.shape, "label": label}, [type_])).output


def compare(case: Case, **options: Any) -> nnefc.Model:
    inside = case.inputs // case.groups, case.outputs // case.groups
    shape = (case.inputs, inside[1]) if case.deconv else (case.outputs, inside[0])
    x = random(1, case.batch, case.inputs, *case.spatial)
    w, b = random(2, *shape, *case.kernel), random(3, 1, case.outputs)
    sums = expected(replace(case, activation=""), x, w, b, None)
    r = random(4, *sums.shape) if case.residual else None
    wanted = expected(case, x, w, b, r)
    graph = Graph("convolution")
    arrays = [x] if r is None else [x, r]
    values = [
        graph.add_input(TensorType(DType.FLOAT32, a.shape), f"x{i}") for i, a in enumerate(arrays)
    ]
    attributes: dict[str, Any] = {
        "border": "constant",
        "padding": case.padding,
        "stride": case.stride,
        "dilation": case.dilation,
        "groups": case.groups,
    }
    operands = [values[0], variable(graph, "w", w), variable(graph, "b", b)]
    y = build(graph, "deconv" if case.deconv else "conv", operands, attributes).output
    if r is not None:
        y = build(graph, "add", [values[1], y], {}).output
    if case.activation == "relu":
        y = build(graph, "relu", [y], {}).output
    elif case.activation == "relu6":
        bounds = [constant(graph, bound) for bound in (0.0, 6.0)]
        y = build(graph, "clamp", [y, *bounds], {}).output
    elif case.activation == "silu":
        y = build(graph, "mul", [y, build(graph, "sigmoid", [y], {}).output], {}).output
    graph.add_output(y, "y")
    model = nnefc.compile(graph, **options)
    methods = (
        ("convolution_depthwise",)
        if case.groups > 1 and inside[0] < host().float32_lanes
        else ("convolution_direct",)
    )
    if sums[0, 0].size == 1:  # a filter over the whole image becomes a matrix product
        methods = (*methods, "product_matmul")
    assert any(launch.kernel.startswith(methods) for launch in model.launches)
    for _ in range(2):  # the second run starts with the memory of the first
        got = model(*arrays)
        # the tolerance is relative to the sums, which are rounded before they are clamped
        np.testing.assert_allclose(got, wanted, rtol=0, atol=4e-6 * np.abs(sums).max())
    return model


def constant(graph: Graph, number: float) -> Value:
    type_ = TensorType(DType.FLOAT32, ())
    return graph.insert(Op("constant", (), {"shape": (), "value": (number,)}, [type_])).output


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(1, 3))
    each = st.tuples(*[st.integers(1, 3)] * rank)
    kernel, dilation = draw(each), draw(st.tuples(*[st.integers(1, 2)] * rank))
    stride = draw(each)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    deconv = draw(st.booleans())
    spatial = tuple(draw(st.integers(max(r, 2), 11)) for r in reach)
    pads = [draw(st.integers(0, (r - 1) // (2 if deconv else 1))) for r in reach]
    return Case(
        draw(st.integers(1, 40)),
        draw(st.integers(1, 40)),
        spatial,
        kernel,
        stride,
        dilation,
        tuple((p, p) for p in pads),
        batch=draw(st.integers(1, 2)),
        deconv=deconv,
        residual=draw(st.booleans()),
        activation=draw(st.sampled_from(["", "relu", "relu6", "silu"])),
    )
