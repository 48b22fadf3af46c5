"""Convolutions (4.3.1) and separable convolutions (4.9.2)."""

from __future__ import annotations

import math
from typing import Any

from nnefc.ir import Op, Shape, TensorType
from nnefc.ops.core import batch_rules
from nnefc.ops.core.attribute_checks import attempt
from nnefc.ops.core.cost import Cost
from nnefc.ops.core.spec import Call, Emit, InferRule, OpSpec, Sample
from nnefc.ops.core.traits import ACCUMULATION, COMPOUND, Convolution
from nnefc.ops.core.window_reference import conv, deconv, separable_conv, separable_deconv
from nnefc.ops.standard.window_samples import pad
from nnefc.ops.standard.window_shape_rules import check_convolution, check_steps

BORDERS = ("constant", "replicate", "reflect", "reflect-even")
_STEPS = ("padding", "stride", "dilation")


def _attributes(call: Call, *names: str) -> dict[str, Any]:
    return {name: call[name] for name in names}


def _check_groups(call: Call) -> None:
    groups = attempt(lambda: call["groups"])
    if groups is not None:
        call.require(groups >= 0, f"groups must be non-negative: groups = {groups}")


def _names(*, reverse: bool) -> tuple[str, ...]:
    return (*_STEPS, "output_shape") if reverse else _STEPS


def _single(*, reverse: bool) -> InferRule:
    """The shape rule of conv or (`reverse`) deconv."""

    def rule(call: Call) -> TensorType:
        check_steps(call, BORDERS, reverse=reverse)
        _check_groups(call)
        shape = check_convolution(
            call,
            call.shape("input"),
            call.shape("filter"),
            _attributes(call, *_names(reverse=reverse), "groups"),
            bias=call.shape("bias"),
            reverse=reverse,
        )
        return TensorType(call.dtype("input"), shape)

    return rule


def _separable(*, reverse: bool) -> InferRule:
    """The shape rule of separable_conv or (`reverse`) separable_deconv."""

    def rule(call: Call) -> TensorType:
        check_steps(call, BORDERS, reverse=reverse)
        _check_groups(call)
        plane = "plane_filter", {**_attributes(call, *_names(reverse=reverse)), "groups": 0}
        point = "point_filter", _attributes(call, "groups")
        (first, before), (last, after) = (point, plane) if reverse else (plane, point)
        filtered = check_convolution(
            call, call.shape("input"), call.shape(first), before, filter=first, reverse=reverse
        )
        shape = check_convolution(
            call,
            filtered,
            call.shape(last),
            after,
            bias=call.shape("bias"),
            filter=last,
            reverse=reverse,
        )
        return TensorType(call.dtype("input"), shape)

    return rule


def _expand_separable_conv(emit: Emit, op: Op) -> Any:
    input, plane_filter, point_filter, bias = op.inputs
    attributes = dict(op.attributes)
    groups = attributes.pop("groups")
    filtered = emit("conv", input, plane_filter, groups=0, **attributes)
    return emit("conv", filtered, point_filter, bias, groups=groups)


def _expand_separable_deconv(emit: Emit, op: Op) -> Any:
    input, plane_filter, point_filter, bias = op.inputs
    attributes = dict(op.attributes)
    groups = attributes.pop("groups")
    filtered = emit("deconv", input, point_filter, groups=groups)
    return emit("deconv", filtered, plane_filter, bias, groups=0, **attributes)


def _conv_products(op: Op) -> int:
    """Multiply-adds of conv or separable_conv."""
    _, *filters, _ = op.inputs
    return op.output.type.volume * sum(math.prod(f.type.dims[1:]) for f in filters)


def _deconv_products(op: Op) -> int:
    """Multiply-adds of deconv or separable_deconv."""
    input, *filters, _ = op.inputs
    return input.type.volume * sum(math.prod(f.type.dims[1:]) for f in filters)


# -- samples


def _sample(*inputs: Shape, **attributes: Any) -> Sample:
    return Sample(inputs=inputs, attributes=attributes)


_PLANE = (1, 2, 5, 6)
_KERNEL = (3, 2, 3, 3)

_CONV_SAMPLES = (
    _sample((2, 3), (4, 3), (1, 4)),
    _sample((2, 3, 9), (4, 3, 3), (1, 4), padding=pad(1, 1), stride=(2,)),
    _sample((1, 2, 10), (2, 2, 3), padding=pad(4, 0), dilation=(2,)),
    _sample(_PLANE, _KERNEL),
    _sample(_PLANE, _KERNEL, ()),
    _sample(_PLANE, _KERNEL, (3,)),
    _sample(_PLANE, _KERNEL, (1,)),
    _sample(_PLANE, _KERNEL, (1, 1)),
    _sample(_PLANE, _KERNEL, (1, 3, 1, 1)),
    _sample((2, 3, 3, 3), (5, 3, 1, 1), (1, 5)),
    _sample((2, 3, 6, 5), (4, 3, 3, 2), (1, 4), padding=pad(0, 0, 0, 0)),
    _sample(_PLANE, _KERNEL, padding=pad(0, 1, 1, 0), stride=(3, 2)),
    _sample(_PLANE, _KERNEL, dilation=(2, 3), stride=(2, 1)),
    _sample((1, 1, 3, 3), (1, 1, 2, 2), padding=pad(3, 3, 2, 4)),
    _sample((1, 1, 6, 6), (2, 1, 2, 2), padding=pad(-1, -1, -2, 0)),
    _sample((1, 4, 5, 5), (6, 2, 3, 3), (1, 6), groups=2),
    _sample((1, 3, 5, 5), (3, 1, 3, 3), groups=3),
    _sample((2, 3, 5, 5), (6, 1, 3, 3), (1, 6), groups=0, stride=(2, 2)),
    _sample((1, 2, 4, 5, 4), (3, 2, 3, 2, 3), (1, 3), padding=pad(1, 1, 0, 1, 1, 0)),
    _sample((1, 2, 2, 1, 2, 3, 1, 2), (2, 1, 1, 1, 2, 3, 1, 2), (1, 2), groups=2),
    *(_sample(_PLANE, _KERNEL, padding=pad(1, 1, 2, 1), border=border) for border in BORDERS),
    *(
        _sample((1, 1, 2, 1), (1, 1, 3, 2), padding=pad(5, 4, 3, 2), stride=(2, 1), border=border)
        for border in BORDERS
    ),
)

_UP = (1, 3, 3, 4)
_UP_KERNEL = (3, 2, 3, 3)

_DECONV_SAMPLES = (
    _sample((2, 3), (3, 4), (1, 4)),
    _sample((2, 3, 5), (3, 2, 4), (1, 2), stride=(2,), padding=pad(1, 1)),
    _sample(_UP, _UP_KERNEL),
    _sample(_UP, _UP_KERNEL, ()),
    _sample(_UP, _UP_KERNEL, (2,)),
    _sample(_UP, _UP_KERNEL, (1, 1)),
    _sample(_UP, _UP_KERNEL, (1, 2, 1, 1), padding=pad(1, 1, 1, 1), stride=(2, 2)),
    _sample(_UP, (3, 2, 1, 2), stride=(3, 3)),
    _sample(_UP, _UP_KERNEL, dilation=(2, 3), padding=pad(0, 1, 2, 0)),
    _sample(_UP, _UP_KERNEL, stride=(2, 2), output_shape=(1, 2, 5, 8)),
    _sample(
        _UP,
        _UP_KERNEL,
        (1, 2),
        stride=(2, 2),
        padding=pad(1, 1, 0, 1),
        output_shape=(1, 2, 6, 9),
    ),
    _sample(_UP, (3, 2, 2, 2), padding=pad(-1, 0, -2, -1)),
    _sample((1, 4, 3, 3), (4, 3, 2, 2), (1, 6), groups=2, stride=(2, 2)),
    _sample((1, 3, 4, 4), (3, 1, 3, 3), (1, 3), groups=0, stride=(2, 2)),
    _sample((1, 6, 3, 3), (6, 1, 2, 2), groups=0, output_shape=(1, 3, 3, 3)),
    _sample((1, 2, 2, 3, 2), (2, 3, 2, 1, 3), (1, 3), stride=(2, 1, 2)),
    _sample(
        (1, 2, 1, 1, 2, 2, 1, 2), (2, 1, 1, 2, 2, 1, 1, 2), groups=2, stride=(1, 1, 2, 1, 1, 2)
    ),
    *(
        _sample(_UP, (3, 2, 4, 3), padding=pad(1, 1, 2, 1), stride=(2, 1), border=border)
        for border in BORDERS
    ),
    *(
        _sample((1, 1, 2, 1), (1, 1, 3, 7), padding=pad(2, 1, 2, 3), stride=(2, 3), border=border)
        for border in BORDERS
    ),
)

_SEPARABLE_CONV_SAMPLES = (
    _sample((1, 3, 6, 6), (3, 1, 3, 3), (4, 3, 1, 1), (1, 4), padding=pad(1, 1, 1, 1)),
    _sample((1, 3, 6, 6), (6, 1, 3, 3), (4, 6, 1, 1), stride=(2, 2)),
    _sample((2, 2, 5), (4, 1, 3), (6, 2, 1), (1, 6), dilation=(2,), groups=2),
    _sample((1, 2, 5, 4), (2, 1, 3, 2), (3, 2, 1, 1), (), border="reflect"),
    _sample((1, 2, 3, 4, 3), (2, 1, 2, 2, 1), (2, 2, 1, 1, 1), border="replicate"),
)

_SEPARABLE_DECONV_SAMPLES = (
    _sample((1, 4, 3, 3), (3, 1, 3, 3), (4, 3, 1, 1), (1, 3), stride=(2, 2)),
    _sample((1, 4, 3, 3), (3, 1, 3, 3), (4, 3, 1, 1), padding=pad(1, 1, 0, 1)),
    _sample((2, 6, 5), (4, 1, 3), (6, 2, 1), (1, 4), dilation=(2,), groups=2),
    _sample((1, 2, 3, 4), (3, 1, 2, 2), (2, 3, 1, 1), stride=(2, 2), output_shape=(1, 3, 5, 8)),
    _sample(
        (1, 2, 3, 4),
        (3, 1, 3, 3),
        (2, 3, 1, 1),
        padding=pad(1, 1, 0, 1),
        stride=(2, 2),
        output_shape=(1, 3, 5, 9),
    ),
    _sample((1, 2, 3, 4), (3, 1, 3, 3), (2, 3, 1, 1), (), border="reflect-even"),
)

SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="conv",
        signature="""
        fragment conv(
            input: tensor<scalar>,
            filter: tensor<scalar>,
            bias: tensor<scalar> = 0.0,
            border: string = 'constant',
            padding: (integer,integer)[] = [],
            stride: integer[] = [],
            dilation: integer[] = [],
            groups: integer = 1 )
        -> ( output: tensor<scalar> )""",
        section="4.3.1",
        summary="Convolution (correlation) over the spatial dimensions.",
        infer=_single(reverse=False),
        reference=conv,
        traits=ACCUMULATION._replace(
            cost=Cost(_conv_products, None),
            batch=batch_rules.first,
            with_expression="fused_conv",
            convolution=Convolution.FORWARD,
        ),
        samples=_CONV_SAMPLES,
    ),
    OpSpec(
        name="deconv",
        signature="""
        fragment deconv(
            input: tensor<scalar>,
            filter: tensor<scalar>,
            bias: tensor<scalar> = 0.0,
            border: string = 'constant',
            padding: (integer,integer)[] = [],
            stride: integer[] = [],
            dilation: integer[] = [],
            output_shape: integer[] = [],
            groups: integer = 1 )
        -> ( output: tensor<scalar> )""",
        section="4.3.1",
        summary="The reverse of conv, from its output space to its input space.",
        infer=_single(reverse=True),
        reference=deconv,
        traits=ACCUMULATION._replace(
            cost=Cost(_deconv_products, None),
            batch=batch_rules.first,
            resized=batch_rules.shape_attribute("output_shape"),
            with_expression="fused_deconv",
            convolution=Convolution.REVERSE,
        ),
        samples=_DECONV_SAMPLES,
    ),
    OpSpec(
        name="separable_conv",
        signature="""
        fragment separable_conv(
            input: tensor<scalar>,
            plane_filter: tensor<scalar>,
            point_filter: tensor<scalar>,
            bias: tensor<scalar> = 0.0,
            border: string = 'constant',
            padding: (integer,integer)[] = [],
            stride: integer[] = [],
            dilation: integer[] = [],
            groups: integer = 1 )
        -> ( output: tensor<scalar> )""",
        section="4.9.2",
        summary="Depth-wise convolution, then point-wise.",
        infer=_separable(reverse=False),
        reference=separable_conv,
        traits=COMPOUND._replace(cost=Cost(_conv_products, None)),
        expand=_expand_separable_conv,
        samples=_SEPARABLE_CONV_SAMPLES,
    ),
    OpSpec(
        name="separable_deconv",
        signature="""
        fragment separable_deconv(
            input: tensor<scalar>,
            plane_filter: tensor<scalar>,
            point_filter: tensor<scalar>,
            bias: tensor<scalar> = 0.0,
            border: string = 'constant',
            padding: (integer,integer)[] = [],
            stride: integer[] = [],
            dilation: integer[] = [],
            output_shape: integer[] = [],
            groups: integer = 1 )
        -> ( output: tensor<scalar> )""",
        section="4.9.2",
        summary="Point-wise deconvolution, then depth-wise.",
        infer=_separable(reverse=True),
        reference=separable_deconv,
        traits=COMPOUND._replace(cost=Cost(_deconv_products, None)),
        expand=_expand_separable_deconv,
        samples=_SEPARABLE_DECONV_SAMPLES,
    ),
)
