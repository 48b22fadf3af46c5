"""Box filters (4.3.2), and sampling at the positions of maxima (4.3.3)."""

from __future__ import annotations

from typing import Any

from nnefc.ir import DType, TensorType
from nnefc.ops.core import batch_rules, blocked_rules
from nnefc.ops.core.spec import Call, OpSpec, Sample
from nnefc.ops.core.traits import POOLING, WINDOW, WINDOW_POSITIONS
from nnefc.ops.core.value_text import listing
from nnefc.ops.core.window_arithmetic import BORDERS
from nnefc.ops.core.window_reference import argmax_pool, box, debox, desample, sample
from nnefc.ops.standard.window_samples import pad, reverse_windows, windows
from nnefc.ops.standard.window_shape_rules import check_pooling


def _box(call: Call) -> TensorType:
    return TensorType(call.dtype("input"), check_pooling(call, BORDERS).output)


def _debox(call: Call) -> TensorType:
    return TensorType(call.dtype("input"), check_pooling(call, BORDERS, reverse=True).output)


def _argmax_pool(call: Call) -> TensorType:
    return TensorType(DType.INT32, check_pooling(call, BORDERS).output)


def _sample(call: Call) -> TensorType:
    window = check_pooling(call, BORDERS)
    index = call.shape("index")
    call.require(
        index == window.output,
        f"the shape of index must be that of output: index.shape = {listing(index)}, "
        f"output.shape = {listing(window.output)}",
    )
    return TensorType(call.dtype("input"), window.output)


def _desample(call: Call) -> TensorType:
    window = check_pooling(call, ("constant",), reverse=True)
    index = call.shape("index")
    call.require(
        index == window.input,
        f"the shape of index must be that of input: index.shape = {listing(index)}, "
        f"input.shape = {listing(window.input)}",
    )
    return TensorType(call.dtype("input"), window.output)


def _positions(count: int, volume: int) -> list[int]:
    """`count` positions in a window of `volume` taps, in an irregular order."""
    return [(7 * i + i // 3) % volume for i in range(count)]


def _sampled(
    shape: tuple[int, ...], index: tuple[int, ...], volume: int, **attributes: Any
) -> Sample:
    """A sample with irregular positions as index operand, whose shape is `index`."""
    count = 1
    for extent in index:
        count *= extent
    positions = _positions(count, volume)
    return Sample(inputs=(shape, index), attributes=attributes, values={1: positions})


_SAMPLE_SAMPLES = (
    _sampled((7,), (7,), 3, size=(3,)),
    _sampled((1, 2, 6, 6), (1, 2, 3, 3), 4, size=(1, 1, 2, 2), stride=(1, 1, 2, 2)),
    _sampled((5, 6), (2, 2), 6, size=(2, 3), stride=(2, 3), padding=pad(0, 0, 0, 0)),
    _sampled(
        (4, 4, 2), (2, 3, 2), 4, size=(2, 2, 1), stride=(2, 1, 1), padding=pad(0, 0, 0, 0, 0, 0)
    ),
    _sampled((1, 1, 2, 3, 2), (1, 1, 2, 3, 2), 8, size=(1, 1, 2, 2, 2)),
    _sampled(
        (1, 2, 1, 2, 1, 2, 1, 3),
        (1, 2, 1, 2, 1, 2, 1, 3),
        6,
        size=(1, 1, 1, 2, 1, 1, 1, 3),
    ),
    # indices outside of the window
    Sample(inputs=((2, 3), (2, 3)), attributes={"size": (2, 2)}, values={1: [-1, 0, 3, 4, 9, 2]}),
    *(
        _sampled(
            (1, 1, 4, 5),
            (1, 1, 3, 6),
            9,
            size=(1, 1, 3, 3),
            border=border,
            padding=pad(0, 0, 0, 0, 1, 2, 2, 3),
            stride=(1, 1, 2, 1),
            dilation=(1, 1, 1, 2),
        )
        for border in BORDERS
    ),
)

_DESAMPLE_SAMPLES = (
    _sampled((4,), (4,), 3, size=(3,), stride=(2,)),
    _sampled((1, 2, 3, 3), (1, 2, 3, 3), 4, size=(1, 1, 2, 2), stride=(1, 1, 2, 2)),
    _sampled(
        (1, 2, 3, 3),
        (1, 2, 3, 3),
        4,
        size=(1, 1, 2, 2),
        stride=(1, 1, 2, 2),
        padding=pad(0, 0, 0, 0, 0, 0, 0, 0),
        output_shape=(1, 2, 7, 6),
    ),
    # overlapping windows: values at the same position are summed
    _sampled((1, 1, 4, 4), (1, 1, 4, 4), 9, size=(1, 1, 3, 3), padding=pad(0, 0, 0, 0, 1, 1, 1, 1)),
    _sampled(
        (3, 4), (3, 4), 6, size=(2, 3), stride=(1, 2), dilation=(3, 2), padding=pad(1, 0, 0, 2)
    ),
    _sampled((2, 1, 2, 3, 2), (2, 1, 2, 3, 2), 8, size=(1, 1, 2, 2, 2), stride=(1, 1, 2, 1, 2)),
    _sampled(
        (1, 2, 1, 2, 1, 2, 1, 3),
        (1, 2, 1, 2, 1, 2, 1, 3),
        6,
        size=(1, 1, 1, 2, 1, 1, 1, 3),
        stride=(1, 1, 1, 2, 1, 1, 1, 1),
    ),
    Sample(
        inputs=((2, 3), (2, 3)),
        attributes={"size": (2, 2), "border": "constant"},
        values={1: [-1, 0, 3, 4, 9, 2]},
    ),
)

SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="box",
        signature="""
        fragment box(
            input: tensor<scalar>,
            size: integer[],
            border: string = 'constant',
            padding: (integer,integer)[] = [],
            stride: integer[] = [],
            dilation: integer[] = [],
            normalize: logical = false )
        -> ( output: tensor<scalar> )""",
        section="4.3.2",
        summary="Sum, or average, in a local window.",
        infer=_box,
        reference=box,
        traits=POOLING._replace(blocked=blocked_rules.of_floats(blocked_rules.pooling)),
        samples=windows() + windows(normalize=True),
    ),
    OpSpec(
        name="debox",
        signature="""
        fragment debox(
            input: tensor<scalar>,
            size: integer[],
            border: string = 'constant',
            padding: (integer,integer)[] = [],
            stride: integer[] = [],
            dilation: integer[] = [],
            output_shape: integer[] = [],
            normalize: logical = false )
        -> ( output: tensor<scalar> )""",
        section="4.3.2",
        summary="The reverse of box.",
        infer=_debox,
        reference=debox,
        traits=WINDOW._replace(
            blocked=blocked_rules.nearest, resized=batch_rules.shape_attribute("output_shape")
        ),
        integers=True,
        samples=reverse_windows() + reverse_windows(normalize=True),
    ),
    OpSpec(
        name="argmax_pool",
        signature="""
        fragment argmax_pool(
            input: tensor<scalar>,
            size: integer[],
            border: string = 'constant',
            padding: (integer,integer)[] = [],
            stride: integer[] = [],
            dilation: integer[] = [] )
        -> ( index: tensor<integer> )""",
        section="4.3.3",
        summary="Position, within its window, of the maximum.",
        infer=_argmax_pool,
        reference=argmax_pool,
        traits=WINDOW,
        samples=windows(data="ties"),
    ),
    OpSpec(
        name="sample",
        signature="""
        fragment sample(
            input: tensor<scalar>,
            index: tensor<integer>,
            size: integer[],
            border: string = 'constant',
            padding: (integer,integer)[] = [],
            stride: integer[] = [],
            dilation: integer[] = [] )
        -> ( output: tensor<scalar> )""",
        section="4.3.3",
        summary="The values at given positions of the windows.",
        infer=_sample,
        reference=sample,
        traits=WINDOW_POSITIONS,
        lenient_border=True,
        samples=_SAMPLE_SAMPLES,
    ),
    OpSpec(
        name="desample",
        signature="""
        fragment desample(
            input: tensor<scalar>,
            index: tensor<integer>,
            size: integer[],
            border: string = 'constant',
            padding: (integer,integer)[] = [],
            stride: integer[] = [],
            dilation: integer[] = [],
            output_shape: integer[] = [] )
        -> ( output: tensor<scalar> )""",
        section="4.3.3",
        summary="The reverse of sample: values sent to given positions of the windows, and summed.",
        infer=_desample,
        reference=desample,
        traits=WINDOW_POSITIONS._replace(resized=batch_rules.shape_attribute("output_shape")),
        samples=_DESAMPLE_SAMPLES,
    ),
)
