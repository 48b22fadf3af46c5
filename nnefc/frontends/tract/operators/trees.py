"""Decision tree ensembles: one step of all trees for all rows is one sequence of gathers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import check_shape, of_rank
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import Array, KnownTensor, Operand, OperatorError
from nnefc.frontends.tract.registry import operator
from nnefc.frontends.tract.tree_ensembles import RULE, TreeEnsemble, tree_ensemble
from nnefc.ir import DType

_REDUCTIONS: Final = {"SUM": "add", "AVERAGE": "add", "MAX": "max", "MIN": "min"}


@operator("tract_onnx")
def tract_onnx_ml_tree_ensemble_classifier(
    make: OpBuilder,
    input: Operand,
    trees: Operand,
    nodes: Operand,
    leaves: Operand,
    max_used_feature: int,
    n_classes: int,
    aggregate_fn: str,
) -> Any:
    """Scores [batch, classes] in float32 for features [batch, features], or for a single row.

    A score is the `SUM`, `AVERAGE`, `MAX` or `MIN` of the votes for a class; extremes include 0.
    """
    if aggregate_fn not in _REDUCTIONS:
        message = f"aggregate_fn = {aggregate_fn!r} is none of {', '.join(_REDUCTIONS)}"
        raise OperatorError(RULE, message)
    dims = of_rank("ml_tree_ensemble_classifier", "input", input, 1, 2)
    features = dims[-1]
    if features <= max_used_feature:
        message = f"input has shape {list(dims)}, and max_used_feature is {max_used_feature}"
        raise OperatorError(RULE, message)
    check_shape(make, "[n_classes]", (n_classes,), DType.FLOAT32)
    forest = tree_ensemble(
        _uint32_items(make, "trees", trees, None),
        _uint32_items(make, "nodes", nodes, 5),
        _uint32_items(make, "leaves", leaves, 2),
        features=features,
        classes=n_classes,
        budget=make.budget,
    )
    rows = make.cast(make.reshape(input, (input.type.volume // features, features)), DType.FLOAT32)
    scores = _scores(make, forest, _leaves(make, forest, rows), n_classes, aggregate_fn)
    return make.reshape(scores, (*dims[:-1], n_classes))


def _uint32_items(make: OpBuilder, name: str, x: Operand, width: int | None) -> Array:
    """The uint32 items of a known argument, as int64 [n], or [n, width]; raises OperatorError."""
    weights = make.evaluator.context.model.weights
    items: Array | None = x.array if isinstance(x, KnownTensor) else weights.items(x)
    if items is None or items.dtype == object:
        message = f"{name} must be known before the model runs: a variable, or written out"
        raise OperatorError("operator/attribute", message)
    shape = list(items.shape)
    if width is not None and not items.size:
        return np.zeros((0, width), np.int64)
    if items.ndim != (1 if width is None else 2) or (width is not None and shape[1] != width):
        expected = "one dimension" if width is None else f"rows of {width}"
        raise OperatorError(RULE, f"{name} has shape {shape}; {expected} is expected")
    if items.size and items.dtype.kind not in "iu":
        raise OperatorError(RULE, f"{name} has items of type {items.dtype}; integers are expected")
    if items.size and not (items.min() >= 0 and items.max() < 1 << 32):
        bad = items.min() if items.min() < 0 else items.max()
        raise OperatorError(
            RULE, f"{name} has the item {bad}, which does not fit in 32 unsigned bits"
        )
    return items.astype(np.int64)


def _leaves(make: OpBuilder, forest: TreeEnsemble, rows: Operand) -> Operand:
    """The leaf of each tree [batch, trees] for rows [batch, features]."""
    batch = rows.type.dims[0]
    roots = make.reshape(_int32(forest.roots), (1, forest.roots.size))
    at = make.repeated(roots, (batch, forest.roots.size))
    features, targets = _int32(forest.features), _int32(forest.targets)
    thresholds = KnownTensor(forest.thresholds, DType.FLOAT32)
    low, high, neither = (_int32(np.array(i, np.int32)) for i in range(3))
    for _ in range(forest.depth):
        x = make("gather_elements", rows, make("gather", features, at, axis=0), axis=1)
        threshold = make("gather", thresholds, at, axis=0)
        is_high = make("select", make("gt", x, threshold), high, neither)
        which = make("select", make("le", x, threshold), low, is_high)
        at = make("gather", targets, make("add", make("mul", at, 3), which), axis=0)
    return at


def _scores(
    make: OpBuilder, forest: TreeEnsemble, ends: Operand, classes: int, aggregate: str
) -> Operand:
    """Scores [batch, classes] of leaves [batch, trees], accumulated in tract's order.

    Votes that pad the table belong to an extra class, which is cut off.
    """
    batch, trees = ends.type.dims
    votes = forest.classes.shape[1]
    flat = (batch, trees * votes)
    index = make.reshape(make("gather", _int32(forest.classes), ends, axis=0), flat)
    table = KnownTensor(forest.weights, DType.FLOAT32)
    weight = make.reshape(make("gather", table, ends, axis=0), flat)
    zero, one = (KnownTensor(np.full((1, 1), x, np.float32), DType.FLOAT32) for x in (0, 1))
    nothing = make.repeated(zero, (batch, classes + 1))
    reduction = _REDUCTIONS[aggregate]
    total = make("scatter_elements", nothing, index, weight, axis=1, reduction=reduction)
    if aggregate == "AVERAGE":
        ones = make.repeated(one, flat)
        counts = make("scatter_elements", nothing, index, ones, axis=1, reduction="add")
        total = make("div", total, make("max", counts, 1.0))
    return slice_in_dim(make, total, 1, 0, classes)


def _int32(items: Array) -> KnownTensor:
    return KnownTensor(items, DType.INT32)
