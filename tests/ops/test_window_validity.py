"""Every rule of the text on operations over windows and regions, broken once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from nnefc.ir import DType, Shape, TensorType
from nnefc.ops.core.interface import defaults
from nnefc.ops.core.spec import UNKNOWN, Call, infer
from nnefc.ops.tools.table import operations

FLOAT = DType.FLOAT32
INTEGERS = {"index", "batch_index"}

PLANE: Shape = (1, 4, 6, 6)
FILTER: Shape = (8, 4, 3, 3)
POOL = ("box", "argmax_pool", "max_pool", "max_pool_with_index", "avg_pool", "rms_pool")
BIG = 2**31


def problems(
    name: str, operands: Mapping[str, Shape | None], attributes: Mapping[str, Any]
) -> list[str]:
    return judge(name, operands, attributes)[1]


def judge(
    name: str, operands: Mapping[str, Shape | None], attributes: Mapping[str, Any]
) -> tuple[list[TensorType] | None, list[str]]:
    spec = operations()[name]
    types = {
        operand: TensorType(DType.INT32 if operand in INTEGERS else FLOAT, shape)
        for operand, shape in operands.items()
    }
    if name.endswith("conv"):
        types.setdefault("bias", TensorType(FLOAT, ()))
    call = Call(name, types, {**defaults(spec), **attributes})
    return infer(spec, call)


def pads(*items: int) -> tuple[tuple[int, int], ...]:
    return tuple(zip(items[::2], items[1::2], strict=True))


@pytest.mark.parametrize("name", [*POOL, "debox"])
@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"size": (1, 1, 3)}, "the length of size must equal the rank of input: size = [1,1,3]"),
        ({"size": (1, 1, 0, 3)}, "items in size must be positive: size = [1,1,0,3]"),
        ({"stride": (1, 1)}, "the length of stride must equal the rank of input or 0"),
        ({"stride": (1, 1, 2, 0)}, "items in stride must be positive: stride = [1,1,2,0]"),
        ({"dilation": (2,)}, "the length of dilation must equal"),
        ({"dilation": (1, 1, -1, 1)}, "items in dilation must be positive"),
        ({"padding": ((1, 1), (1, 1))}, "the length of padding must equal"),
        ({"border": "mirror"}, "border must be one of 'ignore', 'constant'"),
        ({"stride": (1, 1, 1, BIG)}, "items in stride must fit in 32 bits"),
        ({"padding": pads(0, 0, 0, 0, 0, 0, -BIG, 0)}, "items in padding must fit in 32 bits"),
    ],
)
def test_common_rules(name: str, attributes: dict[str, Any], message: str) -> None:
    found = problems(name, {"input": PLANE}, {"size": (1, 1, 3, 3), **attributes})
    assert len(found) == 1
    assert found[0].startswith(message)


@pytest.mark.parametrize("name", POOL)
def test_the_window_must_fit(name: str) -> None:
    attributes = {"size": (1, 1, 3, 7), "padding": pads(0, 0, 0, 0, -2, -2, 0, 0)}
    found = problems(name, {"input": PLANE}, attributes)
    assert [f"in dimension {k} " in p for k, p in zip((2, 3), found, strict=True)] == [True] * 2
    assert "the window must not be larger than the padded input" in found[1]
    assert "7 long, extent 6 with padding (0,0) makes 6" in found[1]
    assert not problems(name, {"input": PLANE}, {**attributes, "padding": ()})


def test_debox_extents() -> None:
    size = {"size": (1, 1, 3, 3), "stride": (1, 1, 2, 2)}
    found = problems("debox", {"input": PLANE}, {**size, "padding": pads(0, 0, 0, 0, 7, 7, 0, 0)})
    assert found == ["extents of output must be positive: they are [1,4,-1,13] from dimension 0"]
    found = problems("debox", {"input": PLANE}, {**size, "output_shape": (1, 4, 13, 12)})
    assert "output_shape must scale down to the shape of input" in found[0]
    assert "[1,4,13,12] gives [1,4,7,6], input has [1,4,6,6]" in found[0]
    assert not problems("debox", {"input": PLANE}, {**size, "output_shape": (1, 4, 11, 12)})
    found = problems("debox", {"input": PLANE}, {**size, "output_shape": (12, 12)})
    assert "the length of output_shape must equal the rank of input or 0" in found[0]
    found = problems("debox", {"input": PLANE}, {**size, "output_shape": (1, 4, 12, 0)})
    assert "items in output_shape must be positive" in found[0]


def test_index_shapes() -> None:
    attributes = {"size": (1, 1, 2, 2), "stride": (1, 1, 2, 2)}
    operands = {"input": PLANE, "index": (1, 4, 3, 3)}
    assert not problems("sample", operands, attributes)
    found = problems("desample", operands, attributes)
    assert found == [
        "the shape of index must be that of input: index.shape = [1,4,3,3], input.shape = [1,4,6,6]"
    ]
    found = problems("sample", {"input": PLANE, "index": PLANE}, attributes)
    assert "the shape of index must be that of output" in found[0]
    same = {"input": PLANE, "index": PLANE}
    assert not problems("desample", same, attributes)
    found = problems("desample", same, {**attributes, "border": "replicate"})
    assert found == ["border must be one of 'constant': border = 'replicate'"]


@pytest.mark.parametrize(
    ("operands", "attributes", "message"),
    [
        ({"filter": (8, 4, 3)}, {}, "the rank of filter must equal that of input"),
        ({"input": (6,), "filter": (3,)}, {}, "input must have a batch and a channel dimension"),
        ({"filter": (8, 3, 3, 3)}, {}, "the channel dimension of filter times groups must equal"),
        ({}, {"groups": 2}, "the channel dimension of filter times groups must equal"),
        ({}, {"groups": -1}, "groups must be non-negative: groups = -1"),
        ({"filter": (7, 2, 3, 3)}, {"groups": 2}, "groups must be a divisor of the batch"),
        ({"filter": (8, 2, 3, 3)}, {"groups": 0}, "the channel dimension of filter must be sing"),
        ({"filter": (6, 1, 3, 3)}, {"groups": 0}, "groups must be a divisor of the batch"),
        ({"bias": (1, 4)}, {}, "bias must be singular, but for the channel dimension"),
        ({"bias": (8, 1)}, {}, "bias must be singular"),
        ({"bias": (2,)}, {}, "bias must be singular"),
        ({"bias": (1, 8, 1, 2)}, {}, "bias must be singular"),
        ({"bias": (1, 8, 1, 1, 1)}, {}, "bias must be singular"),
        ({}, {"border": "ignore"}, "border must be one of 'constant', 'replicate'"),
        ({}, {"stride": (1, 1, 2, 2)}, "the length of stride must equal the number of spatial"),
        ({}, {"padding": pads(1, 1)}, "the length of padding must equal the number of spatial"),
        ({}, {"dilation": (1, 0)}, "items in dilation must be positive"),
        ({"filter": (8, 4, 7, 3)}, {"padding": pads(0, 0, 0, 0)}, "the window must not be larger"),
    ],
)
def test_conv(operands: dict[str, Shape], attributes: dict[str, Any], message: str) -> None:
    found = problems("conv", {"input": PLANE, "filter": FILTER, **operands}, attributes)
    assert len(found) == 1
    assert found[0].startswith(message)


@pytest.mark.parametrize("bias", [(), (1,), (8,), (1, 1), (1, 8), (1, 8, 1), (1, 8, 1, 1)])
def test_bias_shapes(bias: Shape) -> None:
    types, found = judge("conv", {"input": PLANE, "filter": FILTER, "bias": bias}, {})
    assert types == [TensorType(FLOAT, (1, 8, 6, 6))]
    assert not found


@pytest.mark.parametrize(
    ("operands", "attributes", "message"),
    [
        ({"filter": (8, 2, 3, 3)}, {}, "the batch dimension of filter must equal the channel"),
        ({}, {"groups": 3}, "groups must be a divisor of the batch dimension of filter"),
        ({"bias": (1, 4)}, {}, "bias must be singular"),
        ({}, {"output_shape": (6, 6)}, "the length of output_shape must equal the rank"),
        ({}, {"output_shape": (1, 4, 6, 6)}, "the batch and channel dimensions of output_shape"),
        ({}, {"output_shape": (2, 2, 6, 6)}, "the batch and channel dimensions of output_shape"),
        ({}, {"output_shape": (1, 2, 7, 6)}, "output_shape must scale down to the shape of input"),
        ({}, {"padding": pads(9, 0, 0, 0)}, "extents of output must be positive: they are [-1,8]"),
        ({"filter": (4, 2, 3, 3)}, {"groups": 0}, "the channel dimension of filter must be sing"),
        (
            {"filter": (4, 1, 3, 3)},
            {"groups": 0, "output_shape": (1, 3, 6, 6)},
            "groups must be a divisor of the batch dimension of filter: groups = 0 (stands for 3)",
        ),
    ],
)
def test_deconv(operands: dict[str, Shape], attributes: dict[str, Any], message: str) -> None:
    found = problems("deconv", {"input": PLANE, "filter": (4, 2, 3, 3), **operands}, attributes)
    assert len(found) == 1
    assert found[0].startswith(message)


def test_deconv_shapes() -> None:
    operands = {"input": PLANE, "filter": (4, 2, 3, 3)}
    cases: list[tuple[dict[str, Any], Shape]] = [
        ({}, (6, 6)),
        ({"stride": (2, 4)}, (12, 24)),
        ({"stride": (2, 1), "padding": pads(0, 0, 1, 1)}, (13, 6)),
        ({"stride": (2, 2), "output_shape": (1, 2, 11, 12)}, (11, 12)),
        ({"groups": 4}, (6, 6)),
    ]
    for attributes, extents in cases:
        types, _ = judge("deconv", operands, attributes)
        channels = 2 * attributes.get("groups", 1)
        assert types == [TensorType(FLOAT, (1, channels, *extents))]


def test_separable() -> None:
    operands: dict[str, Shape] = {
        "input": PLANE,
        "plane_filter": (8, 1, 3, 3),
        "point_filter": (6, 8, 1, 1),
    }
    types, _ = judge("separable_conv", operands, {"stride": (2, 2), "padding": pads(0, 1, 0, 0)})
    assert types == [TensorType(FLOAT, (1, 6, 3, 2))]
    found = problems("separable_conv", {**operands, "plane_filter": (8, 2, 3, 3)}, {})
    assert found[0].startswith("the channel dimension of plane_filter must be singular")
    found = problems("separable_conv", {**operands, "point_filter": (6, 4, 1, 1)}, {})
    assert found[0].startswith("the channel dimension of point_filter times groups must equal")
    operands = {"input": PLANE, "plane_filter": (6, 1, 3, 3), "point_filter": (4, 6, 1, 1)}
    types, _ = judge("separable_deconv", operands, {"stride": (2, 2)})
    assert types == [TensorType(FLOAT, (1, 6, 12, 12))]
    found = problems("separable_deconv", {**operands, "point_filter": (5, 6, 1, 1)}, {})
    assert found[0].startswith("the batch dimension of point_filter must equal the channel")


def test_sampling() -> None:
    for name in ("nearest_downsample", "area_downsample", "nearest_upsample"):
        found = problems(name, {"input": PLANE}, {"factor": (2,)})
        assert found[0].startswith("the length of factor must equal the number of spatial")
        found = problems(name, {"input": PLANE}, {"factor": (2, 0)})
        assert found[0].startswith("items in factor must be positive")
        found = problems(name, {"input": (6,)}, {"factor": ()})
        assert found[0].startswith("input must have a batch and a channel dimension")
    found = problems("area_downsample", {"input": PLANE}, {"factor": (4, 3)})
    assert found[0].startswith("factor must divide the spatial extents of input")
    found = problems("multilinear_upsample", {"input": PLANE}, {"factor": (2, 2), "method": "x"})
    assert found[0].startswith("method must be one of 'symmetric', 'asymmetric', 'aligned'")
    attributes = {"factor": (2, 2), "border": "ignore"}
    found = problems("multilinear_upsample", {"input": PLANE}, attributes)
    assert found[0].startswith("border must be one of 'constant', 'replicate'")
    types, _ = judge("multilinear_upsample", {"input": PLANE}, {"factor": (2, 3)})
    assert types == [TensorType(FLOAT, (1, 4, 12, 18))]


ROI = ("avg_roi_pool", "max_roi_pool", "roi_resample", "avg_roi_align", "max_roi_align")


@pytest.mark.parametrize("name", ROI)
@pytest.mark.parametrize(
    ("operands", "attributes", "message"),
    [
        ({"rois": (2, 3)}, {}, "rois must have shape (N,2*M) for M = 2 spatial dimensions"),
        ({"rois": (8,)}, {}, "rois must have shape (N,2*M)"),
        ({"rois": ()}, {}, "rois must have shape (N,2*M)"),
        ({"batch_index": (3, 1)}, {}, "batch_index must have shape (N,1) for N RoIs"),
        ({"batch_index": (2,)}, {}, "batch_index must have shape (N,1)"),
        ({"input": (1, 4)}, {}, "input must have spatial dimensions: input.shape = [1,4]"),
        ({}, {"output_size": (2,)}, "the length of output_size must equal the number of spatial"),
        ({}, {"output_size": (2, 0)}, "items in output_size must be positive"),
    ],
)
def test_roi(
    name: str, operands: dict[str, Shape], attributes: dict[str, Any], message: str
) -> None:
    given: dict[str, Shape] = {"input": PLANE, "rois": (2, 4), "batch_index": (2, 1), **operands}
    extra = {"sampling_rate": (2, 2)} if name.endswith("align") else {}
    found = problems(name, given, {"output_size": (2, 2), **extra, **attributes})
    assert found
    assert found[0].startswith(message)


@pytest.mark.parametrize("name", ROI)
def test_roi_shapes(name: str) -> None:
    operands: dict[str, Shape] = {"input": PLANE, "rois": (2, 4), "batch_index": (2, 1)}
    extra = {"sampling_rate": (2, 2)} if name.endswith("align") else {}
    types, found = judge(name, operands, {"output_size": (2, 3), **extra})
    assert types == [TensorType(FLOAT, (2, 4, 2, 3))]
    assert not found


def test_roi_align() -> None:
    given: dict[str, Shape] = {"input": PLANE, "rois": (2, 4), "batch_index": (2, 1)}
    attributes = {"output_size": (2, 2), "sampling_rate": (2,), "resize_method": "nearest"}
    found = problems("avg_roi_align", given, attributes)
    assert found[0].startswith("resize_method must be one of")
    found = problems("avg_roi_align", given, {**attributes, "resize_method": "aligned"})
    assert found[0].startswith("the length of sampling_rate must equal")


@pytest.mark.parametrize(
    "name",
    [
        "local_response_normalization",
        "local_mean_normalization",
        "local_variance_normalization",
        "local_contrast_normalization",
    ],
)
def test_local_normalization(name: str) -> None:
    found = problems(name, {"input": PLANE}, {"size": (3, 3)})
    assert found[0].startswith("the length of size must equal the rank of input")
    found = problems(name, {"input": PLANE}, {"size": (1, -3, 1, 1)})
    assert found[0].startswith("items in size must be positive")


def test_normalization() -> None:
    for name in ("l1_normalization", "l2_normalization"):
        assert "axes = [4]" in problems(name, {"input": PLANE}, {"axes": (4,)})[0]
        assert "axes = [1,1]" in problems(name, {"input": PLANE}, {"axes": (1, 1)})[0]
        assert "axes = [-1]" in problems(name, {"input": PLANE}, {"axes": (-1,)})[0]
    operands: dict[str, Shape] = dict.fromkeys(("mean", "variance", "offset", "scale"), (1, 4))
    assert not problems("batch_normalization", {"input": PLANE, **operands}, {"epsilon": 0.1})
    operands["offset"] = (1, 3)
    found = problems("batch_normalization", {"input": PLANE, **operands}, {"epsilon": 0.1})
    assert "offset.shape = [1,3]" in found[0]


def test_all_violations_are_reported() -> None:
    attributes = {"size": (1, 0, 1, 1), "stride": (0, 1), "border": "x", "padding": ((1, 1),)}
    assert len(problems("box", {"input": PLANE}, attributes)) == 5
    attributes = {"groups": -1, "stride": (0, 1), "border": "x", "dilation": (-1, 1)}
    found = problems("conv", {"input": PLANE, "filter": FILTER}, attributes)
    assert len(found) == 4


def test_unknown_arguments_hide_no_violation() -> None:
    """A fragment that is checked before it is expanded knows some of the arguments only."""
    nothing: dict[str, Shape | None] = {"input": None}
    types, found = judge("box", nothing, {"size": UNKNOWN, "stride": (0,), "border": "x"})
    assert types is None
    assert len(found) == 2
    found = problems("box", nothing, {"size": (3, 3), "stride": (1,)})
    assert found == [
        "the length of stride must equal that of size or 0: stride = [1] has 1 items, expected 2"
    ]
    assert not problems("box", {"input": PLANE}, {"size": (1, 1, UNKNOWN, 3)})
    found = problems("box", {"input": PLANE}, {"size": UNKNOWN, "stride": (1,)})
    assert found[0].startswith("the length of stride must equal the rank of input or 0")
    unknown: dict[str, Shape | None] = {"input": None, "filter": None}
    found = problems("conv", unknown, {"stride": (1, 1), "dilation": (1,), "groups": UNKNOWN})
    assert found == [
        "each of stride = [1,1], dilation = [1] must have an item per spatial dimension or none"
    ]
    unknown = {"input": None, "rois": None, "batch_index": None}
    found = problems("roi_resample", unknown, {"output_size": (0,), "method": "x"})
    assert len(found) == 2
