"""Rules of pooling layers and of pooled regions (`vxPoolingLayer`, `vxROIPoolingLayer`)."""

from __future__ import annotations

from nnefc.frontends.openvx.enumerations import DTYPES, DownScaleSizeRounding, PoolingType
from nnefc.frontends.openvx.rules.check import LayerCheck
from nnefc.frontends.openvx.tensors import Dims
from nnefc.frontends.openvx.windows import room


def pooling(check: LayerCheck) -> Dims | None:
    """out = round((in + 2 padding - size) / skip) + 1; the smallest skip counts."""
    inputs = check.dims("inputs", range(3, 5))
    check.format("inputs")
    check.enumerator("pooling_type", PoolingType)
    sizes = check.wholes("pooling_size_x", "pooling_size_y", least=1)
    paddings = check.wholes("pooling_padding_x", "pooling_padding_y")
    rounding = check.enumerator("rounding", DownScaleSizeRounding)
    if inputs is None or sizes is None or paddings is None or rounding is None:
        return None
    rooms = [room(inputs[i], paddings[i], sizes[i]) for i in range(2)]
    outputs = check.given("outputs")
    if not check.given_rank("outputs", len(inputs)):
        return None
    for i, name in enumerate("xy"):
        parameter = f"pooling_size_{name}"
        message = (
            f"{parameter} = {sizes[i]}: more than the {inputs[i] + 2 * paddings[i]} items of the "
            "padded input"
        )
        if not check.require(rooms[i] >= 0, "openvx/size", parameter, message) or outputs is None:
            continue
        check.skip(i, rooms[i], outputs[i], rounding)
    if outputs is None:
        return (rooms[0] + 1, rooms[1] + 1, *inputs[2:])
    check.batches("outputs", outputs, inputs[2:], 2)
    return outputs


def roi_pooling(check: LayerCheck) -> Dims | None:
    """Outputs [width, height, IFM, count, batches] of regions [4, count, batches]."""
    data, rois = check.dims("input_data", range(3, 5)), check.dims("input_rois", range(2, 4))
    check.format("input_data")
    kind = check.enumerator("pool_type", PoolingType)
    message = "pool_type = AVG: only maxima of regions are defined"
    check.require(kind != PoolingType.AVG, "openvx/parameter", "pool_type", message)
    layout = check.layout("input_rois")
    if layout is not None:
        message = f"regions are {layout.format}: expected integers"
        check.require(DTYPES[layout.format.type].is_integer, "openvx/type", "input_rois", message)
    if data is None or rois is None:
        return None
    check.extent("input_rois", rois, 0, 4, "two corners")
    check.batches("input_rois", rois, data[3:], 2)
    outputs = check.given("output_arr")
    message = "its dims are not given, and no other tensor determines its width and height"
    if outputs is None:
        check.require(False, "openvx/size", "output_arr", message)
        return None
    if not check.given_rank("output_arr", len(data) + 1):
        return None
    check.batches("output_arr", outputs, (data[2], rois[1], *data[3:]), 2)
    return outputs
