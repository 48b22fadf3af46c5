"""Operators of StableHLO with subgraphs: reductions, sorting, loops and composites.

The body of a reduction is one operator of its two inputs, and a comparator one comparison; others
are errors.
"""

from __future__ import annotations

from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.axes import normalize_axis
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, scalar
from nnefc.frontends.tflite.branches import branched
from nnefc.frontends.tflite.registry import ANY, NUMBERS, Integers, known, operator
from nnefc.frontends.tflite.turns import While
from nnefc.frontends.tflite.window_folds import folded_windows, spread

_COMBINED: Final = {
    **{
        f"STABLEHLO_{name}": operation
        for name, operation in (
            *(("ADD", "add"), ("MULTIPLY", "mul"), ("MINIMUM", "min"), ("MAXIMUM", "max")),
            *(("AND", "and"), ("OR", "or")),
        )
    },
    **{"ADD": "add", "MUL": "mul", "MINIMUM": "min", "MAXIMUM": "max"},
    **{"LOGICAL_AND": "and", "LOGICAL_OR": "or"},
}
"""Operations by the operator that is the whole body of a reduction."""
_REDUCED: Final = {
    "add": "sum_reduce",
    "mul": "product_reduce",
    "min": "min_reduce",
    "max": "max_reduce",
    "and": "all_reduce",
    "or": "any_reduce",
}
_ASCENDING: Final = {3: False, 2: False, 5: True, 4: True}
"""Whether items ascend, by the direction of the comparison GT, GE, LT or LE."""


def _body(make: OpBuilder, index: int) -> Any:
    """The only operator of a subgraph and the subgraph; raises OperatorError for others."""
    subgraphs = make.evaluator.build.model.subgraphs
    if not 0 <= index < len(subgraphs):
        message = f"it has subgraph {index} of {len(subgraphs)}"
        raise OperatorError("tflite/model", message)
    subgraph = subgraphs[index]
    if len(subgraph.operators) != 1:
        message = f"{subgraph} has {len(subgraph.operators)} operators; one is supported"
        raise OperatorError("tflite/unsupported", message)
    return subgraph.operators[0], subgraph


def combined_by(make: OpBuilder, index: int) -> str:
    """The operation that a subgraph computes of its two inputs; raises OperatorError."""
    one, subgraph = _body(make, index)
    operation = _COMBINED.get(one.name)
    good = sorted(one.inputs) == sorted(subgraph.inputs) and one.outputs == subgraph.outputs
    if operation is None or not good or len(set(subgraph.inputs)) != 2:
        message = f"{subgraph} is no sum, product, extreme or logical operation of two items"
        raise OperatorError("tflite/unsupported", message)
    return operation


@operator("STABLEHLO_REDUCE", options="StablehloReduceOptions", types=(*NUMBERS, "BOOL"))
def reduce(
    make: OpBuilder,
    x: Operand,
    start: Operand,
    *,
    dimensions: Integers,
    body_subgraph_index: int,
) -> Any:
    operation = combined_by(make, body_subgraph_index)
    axes = tuple(sorted(normalize_axis(i, x.type.rank) for i in set(dimensions)))
    y = make(_REDUCED[operation], x, axes=axes) if axes else x
    y = make.reshape(y, [n for i, n in enumerate(y.type.dims) if i not in axes])
    return make(operation, y, make.reshape(start, (1,) * y.type.rank))


@operator(
    "STABLEHLO_REDUCE_WINDOW", options="StablehloReduceWindowOptions", types=(*NUMBERS, "BOOL")
)
def reduce_window(
    make: OpBuilder,
    x: Operand,
    start: Operand,
    *,
    window_dimensions: Integers,
    window_strides: Integers,
    base_dilations: Integers,
    window_dilations: Integers,
    padding: Integers,
    body_subgraph_index: int,
) -> Any:
    """What lies around and between the items is the start; empty options are steps of 1."""
    operation = combined_by(make, body_subgraph_index)
    rank = x.type.rank
    one = (1,) * rank
    base, ends = base_dilations or one, padding or (0,) * (2 * rank)
    if len(base) != rank or len(ends) != 2 * rank:
        message = f"dilations {list(base)} and padding {list(ends)} of {list(x.type.dims)}"
        raise OperatorError("tflite/shape", message)
    filler = scalar(known(start, "init_value"))
    pairs = tuple(zip(ends[::2], ends[1::2], strict=True))
    padded = make(
        "pad", spread(make, x, base, filler), padding=pairs, border="constant", value=filler
    )
    steps = window_strides or one, window_dilations or one
    y = folded_windows(make, operation, padded, window_dimensions, *steps)
    return make(operation, y, make.reshape(start, one))


@operator("STABLEHLO_SORT", options="StablehloSortOptions", types=NUMBERS)
def sort(make: OpBuilder, *inputs: Operand, dimension: int, comparator_subgraph_index: int) -> Any:
    """The first input is sorted, and the others are put into its order."""
    one, subgraph = _body(make, comparator_subgraph_index)
    direction = one.options.get("comparison_direction", 0)
    ascends = _ASCENDING.get(direction) if one.name == "STABLEHLO_COMPARE" else None
    pair = subgraph.inputs[:2]
    if ascends is None or one.outputs != subgraph.outputs or sorted(one.inputs) != sorted(pair):
        message = f"{subgraph} does not compare two items of the first input"
        raise OperatorError("tflite/unsupported", message)
    if tuple(one.inputs) != tuple(pair):
        ascends = not ascends
    x = inputs[0]
    axis = normalize_axis(dimension, x.type.rank)
    count = x.type.dims[axis]
    items, order = make("topk", x, k=count, axis=axis, largest=not ascends)
    others = [make("gather_elements", each, order, axis=axis) for each in inputs[1:]]
    return items, *others


@operator("STABLEHLO_WHILE", options="StablehloWhileOptions", types=ANY)
def while_(
    make: OpBuilder, *inputs: Any, cond_subgraph_index: int, body_subgraph_index: int
) -> Any:
    loop = While(make.evaluator, cond_subgraph_index, body_subgraph_index)
    return tuple(loop.run(list(inputs)))


@operator("STABLEHLO_CASE", options="StablehloCaseOptions", types=("INT32",))
def case(make: OpBuilder, index: Operand, *inputs: Any, branch_subgraph_indices: Integers) -> Any:
    """A known index chooses a subgraph, the last one if it is outside; of two, one runs."""
    branches = list(branch_subgraph_indices)
    if not branches:
        raise OperatorError("tflite/arguments", "it has no branches")
    if isinstance(index, KnownTensor):
        at = int(index.array.item())
        chosen = branches[at if 0 <= at < len(branches) else -1]
        return tuple(make.evaluator.call(chosen, inputs))
    if len(branches) == 1:
        return tuple(make.evaluator.call(branches[0], inputs))
    if len(branches) > 2:
        message = f"{len(branches)} branches, of which the model chooses when it runs"
        raise OperatorError("tflite/unsupported", message)
    is_first = make("eq", make.reshape(index, ()), 0)
    return branched(make, is_first, (branches[0], branches[1]), inputs)


@operator("STABLEHLO_COMPOSITE", options="StableHLOCompositeOptions", types=ANY)
def composite(make: OpBuilder, *inputs: Any, decomposition_subgraph_index: int) -> Any:
    """The subgraph that defines it."""
    return tuple(make.evaluator.call(decomposition_subgraph_index, inputs))
