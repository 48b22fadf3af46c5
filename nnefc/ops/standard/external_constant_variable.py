"""Operations that introduce tensors (4.1), and updates of variables (4.8)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from nnefc.ir import DType, Op, Shape, TensorType
from nnefc.ops.core.arrays import Array, widen
from nnefc.ops.core.attribute_checks import attempt, positive, rank_allowed, volume
from nnefc.ops.core.spec import Call, Interpreter, OpSpec, Sample
from nnefc.ops.core.traits import DATA, STORAGE
from nnefc.ops.core.value_text import listing

_LABEL = re.compile(r"[A-Za-z0-9_.\-/\\]*")


def _shape(call: Call) -> Shape:
    shape = positive(call, "shape")
    rank_allowed(call, len(shape))
    return tuple(shape)


def _external(call: Call) -> TensorType:
    return TensorType(DType.FLOAT32, _shape(call))


def item_type(value: Any) -> DType:
    """Item type of the `value` of a constant: that of an array, else of the first item."""
    if isinstance(value, np.ndarray):
        array: Array = value  # pyright: ignore[reportUnknownVariableType]
        return DType(array.dtype.name)
    first = value[0] if value else 0.0
    if isinstance(first, str):
        return DType.STRING
    return (
        DType.BOOL
        if isinstance(first, bool)
        else DType.INT32
        if isinstance(first, int)
        else DType.FLOAT32
    )


def _constant(call: Call) -> TensorType:
    shape = _shape(call)
    value: Any = call["value"]
    length = value.size if isinstance(value, np.ndarray) else len(value)
    # the volume is meaningless if the shape is wrong
    if not call.problems:
        call.require(
            length in (1, volume(shape)),
            "the length of value must be 1 or the volume of shape: "
            f"{length} items, shape = {listing(shape)}, volume {volume(shape)}",
        )
    return TensorType(item_type(value), shape)


def constant(*, shape: Shape, value: Any) -> Array:
    """The items of `value` in row-major order (4.1.2); a single item is repeated."""
    items = np.asarray(value)
    return np.broadcast_to(items.reshape(() if items.size == 1 else shape), shape)


def _variable(call: Call) -> TensorType:
    label: str | None = attempt(lambda: call["label"])
    if label is not None:
        _check_label(call, label)
    return TensorType(DType.FLOAT32, _shape(call))


def _check_label(call: Call, label: str) -> None:
    call.require(bool(label), "label must not be empty")
    bad = sorted({c for c in label if not _LABEL.fullmatch(c)})
    call.require(
        not bad,
        f"label may only have letters, digits and the characters _ - . / \\: "
        f"label = {label!r} has {', '.join(map(repr, bad[:8]))}",
    )


def _update(call: Call) -> TensorType:
    variable, value = call.shape("variable"), call.shape("value")
    call.require(
        variable == value,
        "the shape of value must equal that of variable: "
        f"value.shape = {listing(value)}, variable.shape = {listing(variable)}",
    )
    return TensorType(call.dtype("variable"), variable)


def update(variable: Array, value: Array) -> Array:
    """The new value of the variable (4.8), which the interpreter stores."""
    del variable
    return value


def _evaluate_constant(
    op: Op, operands: list[Array], interpreter: Interpreter
) -> tuple[Array, ...]:
    """The constant in the item type of the result, which the attributes do not determine."""
    del operands, interpreter
    data = constant(shape=op.attributes["shape"], value=op.attributes["value"])
    return (widen(data, op.output.type.dtype),)


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="external",
        signature="fragment external<? = scalar>( shape: integer[] ) -> ( output: tensor<?> )",
        section="4.1.1",
        summary="An input of the graph.",
        infer=_external,
        reference=None,
        traits=STORAGE,
    ),
    OpSpec(
        name="constant",
        signature="fragment constant<? = scalar>( shape: integer[], value: ?[] ) "
        "-> ( output: tensor<?> )",
        section="4.1.2",
        summary="A tensor of fixed items in row-major order; a single one is repeated.",
        infer=_constant,
        reference=constant,
        evaluate=_evaluate_constant,
        traits=DATA,
        samples=(
            Sample(inputs=(), attributes={"shape": (), "value": (1.5,)}),
            Sample(inputs=(), attributes={"shape": (2, 3), "value": (0.5,)}),
            Sample(inputs=(), attributes={"shape": (2, 2), "value": (1.0, 2.0, 3.0, -4.0)}),
            Sample(inputs=(), attributes={"shape": (3,), "value": (1, 0, -7)}),
            Sample(inputs=(), attributes={"shape": (3, 1), "value": (True, False, True)}),
            Sample(inputs=(), attributes={"shape": (1, 2, 1, 1, 1, 1, 1, 2), "value": (True,)}),
        ),
    ),
    OpSpec(
        name="variable",
        signature="fragment variable<? = scalar>( shape: integer[], label: string ) "
        "-> ( output: tensor<?> )",
        section="4.1.3",
        summary="Stored data, which `update` may replace for the next run.",
        infer=_variable,
        reference=None,
        traits=DATA,
    ),
    OpSpec(
        name="update",
        signature="fragment update<?>( variable: tensor<?>, value: tensor<?> ) "
        "-> ( result: tensor<?> )",
        section="4.8",
        summary="Gives a variable its value for the next run.",
        infer=_update,
        reference=update,
        traits=STORAGE._replace(aliased=1),
        pure=False,
        samples=(
            Sample(inputs=((2, 3), (2, 3))),
            Sample(inputs=((), ())),
            Sample(inputs=((4,), (4,)), data="logical"),
        ),
    ),
)
