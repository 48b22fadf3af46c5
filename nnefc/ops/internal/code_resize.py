"""code_resize and code_multilinear_upsample: linear interpolation of codes, rounded to codes.

    code_resize(codes) {..., zero, ratio, result_zero, rounding}
    code_multilinear_upsample(codes) {..., zero, ratio, result_zero, rounding}

compute `resize` and `multilinear_upsample` of codes - zero along the last two dimensions, and

    round(mean * ratio) + result_zero, clamped

where `ratio` is the scale of the codes by that of the result.  Weights along a dimension are whole
numbers of a common denominator (`whole_weights`), so sums are exact integers, and do not depend on
the order of the terms.  A mean is the sum, divided by the product of the denominators in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nnefc.ir import Attribute, DType, Op, Shape, TensorType, Value
from nnefc.ops.core import batch_rules, blocked_rules, check
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.cost import Cost, output_items
from nnefc.ops.core.spec import Interpreter, OpSpec, internal
from nnefc.ops.core.traits import OPAQUE
from nnefc.ops.core.window_arithmetic import Interpolation, interpolation
from nnefc.ops.extended import resize
from nnefc.ops.extended.integer_products import EXACT
from nnefc.ops.extended.quantized import ROUNDINGS, code_limits, nearest
from nnefc.ops.internal.code_table import BYTES
from nnefc.ops.standard import sampling
from nnefc.symbolic.captured_values import traceable
from nnefc.symbolic.table_size import check_items

PLAIN: Final = {
    f"code_{spec.name}": spec
    for module in (resize, sampling)
    for spec in module.SPECS
    if spec.name in ("resize", "multilinear_upsample")
}
"""The operations on reals, by the names of those on codes."""
ADDED: Final = ("zero", "ratio", "result_zero", "rounding")
"""Attributes that the operations on reals do not have."""
INTERPOLATED: Final = 2
"""Dimensions that kernels interpolate, the last ones."""
MOST_CODES: Final = 255
"""The largest difference of two codes."""
LARGEST_DENOMINATOR: Final = 1 << 10
TOLERANCE: Final = 1e-6
"""Largest error of a weight; other runtimes compute coordinates in float32."""
EPSILON: Final = 2.0**-23

How = tuple[tuple[str, Attribute], ...]


def how_of(op: Op) -> How:
    """The attributes of an operation that weights depend on, besides shapes."""
    return tuple((n, v) for n, v in op.attributes.items() if n not in (*ADDED, "sizes"))


def points(name: str, shape: Shape, sizes: Shape, how: How) -> list[Interpolation]:
    """The interpolation along each spatial dimension; `name`: of the operation on reals."""
    attributes: dict[str, Any] = {**dict(how), "sizes": sizes}
    if name == "multilinear_upsample":
        method, border = attributes["method"], attributes["border"]
        pairs = zip(shape[2:], attributes["factor"], strict=True)
        return [interpolation(n, factor, method, border) for n, factor in pairs]
    taps = dict(resize.resized_axes(shape, attributes))
    found: list[Interpolation] = []
    for axis in range(2, len(shape)):
        if axis in taps:
            (low, high), weight = taps[axis].index.T, taps[axis].weight[:, 1]
        else:
            low = high = np.arange(shape[axis])
            weight = np.zeros(low.size)
        found.append(Interpolation(low, high, weight))
    return found


def whole_weights(extent: int, weight: npt.NDArray[np.float64]) -> tuple[Array, int]:
    """(weights times their common denominator, this denominator, 0 if there is none)."""
    check_items(weight.size)
    allowed = max(TOLERANCE, extent * EPSILON)
    for denominator in range(1, LARGEST_DENOMINATOR + 1):
        whole = np.rint(weight * denominator)
        if (np.abs(whole / denominator - weight) <= allowed).all():
            return whole, denominator
    return weight, 0


@traceable
def denominator(name: str, shape: Shape, sizes: Shape, how: How) -> tuple[int]:
    """The product of the denominators; 0 if kernels do not compute the interpolation."""
    if shape[:2] != sizes[:2] or dict(how).get("interpolator", "linear") != "linear":
        return (0,)
    along = points(name, shape, sizes, how)
    if any((each.weight != 0).any() for each in along[:-INTERPOLATED]):
        return (0,)
    if shape[2:-INTERPOLATED] != sizes[2:-INTERPOLATED] or any(
        (each.low < 0).any() or (each.high < 0).any() for each in along
    ):
        return (0,)
    product = 1
    for extent, each in list(zip(shape[2:], along, strict=True))[-INTERPOLATED:]:
        product *= whole_weights(extent, each.weight)[1]
    return (product if product * MOST_CODES <= EXACT else 0,)


def plain_op(op: Op) -> Op:
    """The operation on reals."""
    attributes = {name: value for name, value in op.attributes.items() if name not in ADDED}
    real, result = (v.type.with_dtype(DType.FLOAT32) for v in (op.inputs[0], op.output))
    return Op(PLAIN[op.name].name, [Value(real)], attributes, [result])


def _problems(op: Op) -> list[str]:
    types: list[TensorType] = [v.type for v in (*op.inputs, *op.outputs)]
    if any(type_.dtype not in BYTES for type_ in types):
        return ["operand and result are codes of 8 bits"]
    if op.attributes["rounding"] not in ROUNDINGS:
        return [f"rounding is one of {', '.join(ROUNDINGS)}"]
    low, high = code_limits(types[1].dtype)
    if not low <= op.attributes["result_zero"] <= high:
        return ["the zero point is no code"]
    return check.problems(PLAIN[op.name], plain_op(op))


def _evaluate(op: Op, operands: list[Array], interpreter: Interpreter) -> Sequence[Array]:
    del interpreter
    attributes, shape = op.attributes, op.inputs[0].type.dims
    sums, product = operands[0].astype(np.int64) - attributes["zero"], 1
    along = points(PLAIN[op.name].name, shape, op.output.type.dims, how_of(op))
    for axis, each in list(enumerate(along, 2))[-INTERPOLATED:]:
        whole, common = whole_weights(shape[axis], each.weight)
        weight = whole.astype(np.int64).reshape(-1, *(1,) * (len(shape) - axis - 1))
        low, high = (np.take(sums, index, axis) for index in (each.low, each.high))
        sums = (common - weight) * low + weight * high
        product *= common
    means = sums.astype(np.float32) / np.float32(product)
    units = (means * np.float32(attributes["ratio"])).astype(np.float64)
    codes = nearest(units, attributes["rounding"]) + attributes["result_zero"]
    return [np.clip(codes, *code_limits(op.output.type.dtype))]


def _operations(op: Op) -> int:
    """Of an item: three interpolations, and the rounding."""
    return 10 * output_items(op)


SPECS: tuple[OpSpec, ...] = tuple(
    internal(
        name=name,
        summary=f"{spec.name} of codes, rounded to codes.",
        verify=_problems,
        evaluate=_evaluate,
        traits=OPAQUE._replace(
            cost=Cost(None, _operations),
            batch=batch_rules.first,
            resized=spec.traits.resized,
            blocked=blocked_rules.any_layout,
        ),
    )
    for name, spec in PLAIN.items()
)
