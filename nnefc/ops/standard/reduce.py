"""Reductions along axes (4.4).

Several axes are reduced together.  Indices of argmax_reduce and argmin_reduce count the reduced
dimensions in row-major order, and name the first of equal items; the text defines neither.  Without
axes nothing is reduced, and all indices are 0.  Products and indices of the last of equal items are
operations of tract's registries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nnefc.ir import DType, Op, Shape, TensorType, Value
from nnefc.ops.core import blocked_rules, permute_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.axes import axes_attribute, axes_within
from nnefc.ops.core.spec import Call, Emit, OpSpec, Sample
from nnefc.ops.core.traits import COMPOUND, REDUCTION, Sign, Traits
from nnefc.ops.standard.elementwise import divide

_PERMUTABLE: Final = REDUCTION._replace(permuted=permute_rules.axes)
"""Reductions whose results do not depend on the order of the reduced dimensions."""

_OF_PLANES: Final = _PERMUTABLE._replace(blocked=blocked_rules.whole_planes, sign=Sign.KEPT)
"""Reductions that kernels compute on channel blocks, too."""


def reduced(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """`shape` with extent 1 along `axes`."""
    return tuple(1 if d in axes else extent for d, extent in enumerate(shape))


def reduced_shape(call: Call, operand: str = "input") -> Shape:
    """The shape of an operand after reduction along the attribute `axes`."""
    axes = axes_attribute(call)
    shape = call.shape(operand)
    axes_within(call, axes, len(shape), operand)
    return reduced(shape, axes)


def _rule(dtype: DType | None) -> Callable[[Call], TensorType]:
    """The shape rule of reductions with results of type `dtype`; None: that of the input."""

    def rule(call: Call) -> TensorType:
        shape = reduced_shape(call)
        return TensorType(dtype or call.dtype("input"), shape)

    return rule


def _over_axes(function: Callable[..., Any]) -> Callable[..., Array]:
    """The reference of a reduction by a NumPy function with `axis` and `keepdims`."""

    def reference(input: Array, *, axes: tuple[int, ...]) -> Array:
        return np.asarray(function(input, axis=tuple(axes), keepdims=True))

    return reference


def _sum(input: Array, *, axes: tuple[int, ...], normalize: bool = False) -> Array:
    total = np.asarray(np.sum(input, axis=tuple(axes), keepdims=True))
    if not normalize:
        return total
    return divide(total, np.asarray(input.size // total.size, total.dtype))


def _mean(input: Array, *, axes: tuple[int, ...]) -> Array:
    return _sum(input, axes=axes, normalize=True)


def _index(function: Callable[..., Any]) -> Callable[..., Array]:
    """The reference of argmax_reduce or argmin_reduce: index of the first of equal items."""

    def reference(input: Array, *, axes: tuple[int, ...]) -> Array:
        last = sorted(axes)
        rest = [d for d in range(input.ndim) if d not in axes]
        moved = input.transpose(rest + last)
        flat = moved.reshape(*moved.shape[: len(rest)], -1)
        index = np.asarray(function(flat, axis=-1)).astype(np.int64)
        return index.reshape(reduced(input.shape, axes))

    return reference


def _last_index(function: Callable[..., Any]) -> Callable[..., Array]:
    """`_index`, but of the last of equal items."""

    def reference(input: Array, *, axes: tuple[int, ...]) -> Array:
        count = np.prod([input.shape[d] for d in axes], dtype=np.int64)
        return count - 1 - _index(function)(np.flip(input, axes), axes=axes)

    return reference


def _expand_mean(emit: Emit, op: Op) -> Value:
    return emit("sum_reduce", op.inputs[0], axes=op.attributes["axes"], normalize=True)


def _samples(data: str, **attributes: Any) -> tuple[Sample, ...]:
    cases: tuple[tuple[Shape, tuple[int, ...]], ...] = (
        ((2, 3, 4), (1,)),
        ((2, 3, 4), (0, 2)),
        ((2, 3, 4), (2, 1)),
        ((2, 3, 4), (0, 1, 2)),
        ((2, 3, 4), ()),
        ((5,), (0,)),
        ((), ()),
        ((2, 3, 2, 3), (2, 3)),
        ((2, 1, 2, 2, 3), (1, 3)),
        ((1, 2, 1, 2, 2, 2, 1, 2), (1, 4, 7)),
    )
    return tuple(
        Sample(inputs=(shape,), attributes={"axes": axes, **attributes}, data=data)
        for shape, axes in cases
    )


def _reduce(
    name: str,
    reference: Callable[..., Array],
    summary: str,
    *,
    operand: str = "scalar",
    result: DType | None = None,
    data: str = "normal",
    section: str = "4.4",
    traits: Traits = REDUCTION,
) -> OpSpec:
    """The entry of a reduction along `axes`."""
    output = "integer" if result is not None else operand
    return OpSpec(
        name=name,
        signature=f"fragment {name}( input: tensor<{operand}>, axes: integer[] ) "
        f"-> ( output: tensor<{output}> )",
        section=section,
        summary=summary,
        infer=_rule(result),
        reference=reference,
        traits=traits,
        integers=operand == "scalar",
        samples=_samples(data),
    )


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="sum_reduce",
        signature="fragment sum_reduce( input: tensor<scalar>, axes: integer[], "
        "normalize: logical = false ) -> ( output: tensor<scalar> )",
        section="4.4",
        summary="Sum along axes; normalize divides it by the number of items summed.",
        infer=_rule(None),
        reference=_sum,
        traits=_OF_PLANES._replace(blocked=blocked_rules.of_floats(blocked_rules.whole_planes)),
        integers=True,
        samples=_samples("normal") + _samples("normal", normalize=True),
    ),
    _reduce("max_reduce", _over_axes(np.max), "Maximum along axes.", traits=_OF_PLANES),
    _reduce("min_reduce", _over_axes(np.min), "Minimum along axes.", traits=_OF_PLANES),
    _reduce(
        "argmax_reduce",
        _index(np.argmax),
        "Index of the first maximum along axes.",
        result=DType.INT32,
        data="ties",
    ),
    _reduce(
        "argmin_reduce",
        _index(np.argmin),
        "Index of the first minimum along axes.",
        result=DType.INT32,
        data="ties",
    ),
    _reduce(
        "all_reduce",
        _over_axes(np.all),
        "Whether all items along axes are true.",
        operand="logical",
        data="logical",
        traits=_PERMUTABLE,
    ),
    _reduce(
        "any_reduce",
        _over_axes(np.any),
        "Whether any item along axes is true.",
        operand="logical",
        data="logical",
        traits=_PERMUTABLE,
    ),
    OpSpec(
        name="mean_reduce",
        signature="fragment mean_reduce( input: tensor<scalar>, axes: integer[] ) "
        "-> ( output: tensor<scalar> )",
        section="4.4",
        summary="Mean along axes.",
        infer=_rule(None),
        reference=_mean,
        traits=COMPOUND._replace(cost=REDUCTION.cost),
        integers=True,
        expand=_expand_mean,
        samples=_samples("normal"),
    ),
    _reduce("product_reduce", _over_axes(np.prod), "Product along axes.", section="tract"),
    _reduce(
        "argmax_reduce_last",
        _last_index(np.argmax),
        "Index of the last maximum along axes.",
        result=DType.INT64,
        data="ties",
        section="tract",
    ),
    _reduce(
        "argmin_reduce_last",
        _last_index(np.argmin),
        "Index of the last minimum along axes.",
        result=DType.INT64,
        data="ties",
        section="tract",
    ),
)
