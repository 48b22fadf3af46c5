"""Every operation with a symbolic extent: plans for other values agree with the reference."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from nnefc.driver.lower_graph import lower_graph
from nnefc.ir import Graph, TensorType
from nnefc.ops.core.spec import OpSpec
from nnefc.ops.tools.build import build
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.sample import instance
from nnefc.ops.tools.table import operations
from nnefc.options.compile_config import CompileConfig
from nnefc.runtime.memory.weight_pool import WeightPool
from nnefc.runtime.plan.plan_conditions import PlanConditions, ShapeKey
from nnefc.runtime.plan.symbolic_executable import SymbolicExecutable
from nnefc.runtime.plan.trace_template import TracedProgram, compile_template
from nnefc.support.errors import NnefError
from nnefc.symbolic import captured_values as captured_values
from nnefc.symbolic import straight_line
from nnefc.symbolic.integers import Trace
from nnefc.symbolic.straight_line import StraightLine
from nnefc.symbolic.sym_int_base import Untraceable

Array = np.ndarray[Any, Any]

SPECS = [
    spec
    for spec in operations().values()
    if spec.reference is not None and any(sample.inputs for sample in spec.samples)
]
_CONDITIONS = PlanConditions((), ShapeKey((), (), ()), (), (), (), is_degraded=False)
SAMPLES = 3
"""Samples per operation, of different ranks."""


def _graph(like: Graph, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    """The same operation over inputs of other shapes; NnefError if they are invalid."""
    (op,) = [op for op in like.ops if op.name != "constant"]
    graph = Graph(like.name)
    inputs = [
        graph.add_input(TensorType(v.type.dtype, shapes[v.name]), v.name) for v in like.inputs
    ]
    dtype = op.outputs[0].type.dtype
    copy = build(graph, op.name, inputs, op.attributes, dtype=dtype)
    for value, old in zip(copy.outputs, op.outputs, strict=True):
        value.type = value.type.with_dtype(old.type.dtype)
        graph.add_output(value, old.name)
    return graph


def _cases(spec: OpSpec) -> Iterator[tuple[Graph, dict[str, Array], int]]:
    """(graph, inputs, axis whose extent becomes a symbol)"""
    ranks: set[int] = set()
    for sample in spec.samples:
        one = instance(spec, sample)
        first = one.graph.inputs[0] if one.graph.inputs else None
        if first is None or first.type.rank in ranks or one.graph.variables:
            continue
        ranks.add(first.type.rank)
        for axis in {0, first.type.rank - 1} if first.type.rank else ():
            yield one.graph, one.inputs, axis
        if len(ranks) == SAMPLES:
            return


def _with_extent(
    shapes: Mapping[str, tuple[int, ...]], axis: int, before: int, after: int
) -> dict[str, tuple[int, ...]]:
    """Shapes with extent `after` along an axis, wherever it was `before`."""
    return {
        name: (*dims[:axis], after, *dims[axis + 1 :])
        if axis < len(dims) and dims[axis] == before
        else dims
        for name, dims in shapes.items()
    }


def _written_and_read(program: StraightLine) -> StraightLine:
    """The program after a way through a file."""
    captured = json.loads(json.dumps(list(map(captured_values.to_data, program.captured))))
    data = json.loads(json.dumps(program.to_data()))
    return straight_line.from_data(data, list(map(captured_values.from_data, captured)))


def _check(graph: Graph, inputs: Mapping[str, Array], axis: int) -> int:
    """Compare plans for other extents with the reference; returns the number of plans."""
    shapes = {name: x.shape for name, x in inputs.items()}
    extent = next(iter(shapes.values()))[axis]
    trace = Trace()
    try:
        traced = _graph(graph, _with_extent(shapes, axis, extent, trace.symbol(extent)))
        program = lower_graph(traced, CompileConfig(1), dynamic_shapes=True)
        pool = WeightPool()
        compiled, template = compile_template(
            TracedProgram(trace, program, traced, _CONDITIONS), None, pool
        )
        template = template._replace(program=_written_and_read(template.program))
        model = SymbolicExecutable(compiled, template, pool.arenas, threads=1)
    except (NnefError, Untraceable):
        return 0  # it needs a plain number
    computed = 0
    further = (extent + 1, 2 * extent, 3 * extent + 2, 9 * extent + 7, max(extent - 1, 1))
    for other in (extent, *further, max(extent // 5, 1)):
        executable = model.at([other])
        if executable is None:
            continue
        requested = _with_extent(shapes, axis, extent, other)
        arrays = {name: np.resize(x, requested[name]) for name, x in inputs.items()}
        try:
            expected = evaluate(_graph(graph, requested), arrays).outputs
        except NnefError as error:  # an index that other extents do not have
            with pytest.raises(NnefError) as caught:
                executable.run(arrays)
            (want,), (got,) = error.errors, caught.value.errors
            assert got.rule == want.rule == "input/index"
            assert got.message.partition(":")[2] == want.message.partition(":")[2]
            continue
        results = executable.run(arrays)
        for name, want in expected.items():
            assert results[name].shape == want.shape, (other, name)
            np.testing.assert_allclose(
                results[name].astype(np.float64), want, rtol=5e-5, atol=5e-5, err_msg=f"{other}"
            )
        computed += other != extent
    return computed


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_plans_are_right_for_other_extents(spec: OpSpec) -> None:
    for graph, inputs, axis in _cases(spec):
        _check(graph, inputs, axis)


@pytest.mark.parametrize(
    "name",
    [
        *("add", "matmul", "softmax", "sum_reduce", "slice", "concat", "transpose", "layer_norm"),
        *("conv", "deconv", "pad", "box", "debox", "max_pool", "argmax_pool", "sample", "desample"),
        *("max_pool_with_index", "multilinear_upsample", "resize", "local_response_normalization"),
    ],
)
def test_operations_that_support_symbolic_extents(name: str) -> None:
    spec = operations().get(name)
    if spec is None or spec.reference is None:
        pytest.skip("the operation is a compound")
    assert sum(_check(*case) for case in _cases(spec))
