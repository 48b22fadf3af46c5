"""Operators of torchvision in exported modules, compared with torchvision or plain loops."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
from __future__ import annotations

import math
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
from torch import nn

from tests.helpers.pytorch.exported import compare

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, "
    "int pooled_width, int sampling_ratio, bool aligned) -> Tensor",
    "roi_pool(Tensor input, Tensor rois, float spatial_scale, int pooled_height, "
    "int pooled_width) -> (Tensor, Tensor)",
    "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, "
    "int pooled_width, int sampling_ratio) -> (Tensor, Tensor)",
    "ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, int pooled_height, "
    "int pooled_width) -> (Tensor, Tensor)",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    "int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, "
    "int groups, int offset_groups, bool use_mask) -> Tensor",
)


def nms(dets: Any, scores: Any, iou_threshold: float) -> Any:
    kept: list[int] = []
    areas = (dets[:, 2] - dets[:, 0]) * (dets[:, 3] - dets[:, 1])
    for i in scores.argsort(descending=True).tolist():
        sides = torch.minimum(dets[i, 2:], dets[kept, 2:]) - torch.maximum(
            dets[i, :2], dets[kept, :2]
        )
        common = sides.clamp(min=0).prod(1)
        if not (common / (areas[i] + areas[kept] - common) > iou_threshold).any():
            kept.append(i)
    return torch.tensor(kept)


def sample(image: Any, y: float, x: float) -> Any:
    """The channels of an image [c, h, w] at a place; 0 outside of it."""
    height, width = image.shape[1:]
    total = torch.zeros(len(image))
    for row in (math.floor(y), math.floor(y) + 1):
        for column in (math.floor(x), math.floor(x) + 1):
            if 0 <= row < height and 0 <= column < width:
                weight = (1 - abs(y - row)) * (1 - abs(x - column))
                total += weight * image[:, row, column]
    return total


def roi_align(
    input: Any, rois: Any, scale: float, high: int, wide: int, ratio: int, aligned: bool
) -> Any:
    found = torch.zeros(len(rois), input.shape[1], high, wide)
    for n, (image, *corners) in enumerate(rois.tolist()):
        x0, y0, x1, y1 = (corner * scale - 0.5 * aligned for corner in corners)
        size = [y1 - y0, x1 - x0] if aligned else [max(y1 - y0, 1.0), max(x1 - x0, 1.0)]
        bins = size[0] / high, size[1] / wide
        counts = [ratio if ratio > 0 else math.ceil(each) for each in bins]
        for i, j in torch.cartesian_prod(torch.arange(high), torch.arange(wide)).tolist():
            for k, m in torch.cartesian_prod(*map(torch.arange, counts)).tolist():
                y = y0 + bins[0] * (i + (k + 0.5) / counts[0])
                x = x0 + bins[1] * (j + (m + 0.5) / counts[1])
                if -1 <= y <= input.shape[2] and -1 <= x <= input.shape[3]:
                    place = (
                        min(max(y, 0), input.shape[2] - 1),
                        min(max(x, 0), input.shape[3] - 1),
                    )
                    found[n, :, i, j] += sample(input[int(image)], *place)
        found[n] /= max(math.prod(counts), 1)
    return found


def ps_roi_align(input: Any, rois: Any, scale: float, high: int, wide: int, ratio: int) -> Any:
    cells = high * wide
    found = torch.zeros(len(rois), input.shape[1] // cells, high, wide)
    for cell in range(cells):
        own = roi_align(input[:, cell::cells], rois, scale, high, wide, ratio, True)
        found[:, :, cell // wide, cell % wide] = own[:, :, cell // wide, cell % wide]
    return found, found.long()


def roi_pool(input: Any, rois: Any, scale: float, high: int, wide: int) -> Any:
    found = torch.zeros(len(rois), input.shape[1], high, wide)
    for n, (image, *corners) in enumerate(rois.tolist()):
        x0, y0, x1, y1 = (math.floor(corner * scale + 0.5) for corner in corners)
        bins = max(y1 - y0 + 1, 1) / high, max(x1 - x0 + 1, 1) / wide
        for i in range(high):
            for j in range(wide):
                rows = slice(
                    max(y0 + math.floor(i * bins[0]), 0), y0 + math.ceil((i + 1) * bins[0])
                )
                columns = slice(
                    max(x0 + math.floor(j * bins[1]), 0), x0 + math.ceil((j + 1) * bins[1])
                )
                cell = input[int(image), :, rows, columns]
                if cell.numel():
                    found[n, :, i, j] = cell.amax((1, 2))
    return found, found.long()


def ps_roi_pool(input: Any, rois: Any, scale: float, high: int, wide: int) -> Any:
    cells = high * wide
    found = torch.zeros(len(rois), input.shape[1] // cells, high, wide)

    def items(start: float, size: float, cell: int, extent: int) -> slice:
        ends = start + math.floor(cell * size), start + math.ceil((cell + 1) * size)
        return slice(*(int(min(max(end, 0), extent - 1)) for end in ends))

    for n, (image, *corners) in enumerate(rois.tolist()):
        x0, y0, x1, y1 = (math.floor(abs(x * scale) + 0.5) * (-1) ** (x < 0) for x in corners)
        bins = max(y1 - y0, 1) / high, max(x1 - x0, 1) / wide
        for cell in range(cells):
            i, j = divmod(cell, wide)
            rows = items(y0, bins[0], i, input.shape[2])
            columns = items(x0, bins[1], j, input.shape[3])
            own = input[int(image), cell::cells, rows, columns]
            if own[0].numel():
                found[n, :, i, j] = own.mean((1, 2))
    return found, found.long()


def deform_conv2d(input: Any, weight: Any, offset: Any, mask: Any, bias: Any, *numbers: int) -> Any:
    (sh, sw, ph, pw, dh, dw, groups, parts), uses_mask = numbers[:8], numbers[8]
    kh, kw = weight.shape[2:]
    rows, columns = offset.shape[2:]
    items = torch.zeros(len(input), input.shape[1], kh * kw, rows, columns)
    each = input.shape[1] // parts
    for n in range(len(input)):
        for part in range(parts):
            channels = slice(part * each, (part + 1) * each)
            for tap in range(kh * kw):
                at = part * kh * kw + tap
                for r in range(rows):
                    for c in range(columns):
                        y = r * sh - ph + tap // kw * dh + float(offset[n, 2 * at, r, c])
                        x = c * sw - pw + tap % kw * dw + float(offset[n, 2 * at + 1, r, c])
                        value = sample(input[n, channels], y, x)
                        factor = mask[n, at, r, c] if uses_mask else 1.0
                        items[n, channels, tap, r, c] = value * factor
    split = items.reshape(len(input), groups, -1, rows, columns)
    kernels = weight.reshape(groups, len(weight) // groups, -1)
    return torch.einsum("ngkrc,gok->ngorc", split, kernels).flatten(1, 2) + bias[:, None, None]


@pytest.fixture(scope="module")
def operators() -> Any:
    """The operators of torchvision, or such of the loops above if it is not installed."""
    try:
        import torchvision  # noqa: F401  # pyright: ignore
    except ImportError:
        library = torch.library.Library("torchvision", "DEF")
        for schema in SCHEMAS:
            library.define(schema)
        for function in (nms, roi_align, ps_roi_align, roi_pool, ps_roi_pool, deform_conv2d):
            library.impl(function.__name__, function, "CompositeExplicitAutograd")

        def kept(dets: Any, scores: Any, iou_threshold: float) -> Any:
            number = torch.library.get_ctx().new_dynamic_size()
            return dets.new_empty((number,), dtype=torch.int64)

        def cells(input: Any, rois: Any, scale: float, high: int, wide: int, *others: Any) -> Any:
            return input.new_empty((rois.shape[0], input.shape[1], high, wide))

        def pooled(*given: Any) -> Any:
            return cells(*given), cells(*given).long()

        def convolved(input: Any, weight: Any, offset: Any, *others: Any) -> Any:
            return input.new_empty((input.shape[0], weight.shape[0], *offset.shape[2:]))

        def own(input: Any, rois: Any, scale: float, high: int, wide: int, *others: Any) -> Any:
            return pooled(input[:, :: high * wide], rois, scale, high, wide)

        fakes: dict[str, Any] = {
            "nms": kept,
            "roi_align": cells,
            "roi_pool": pooled,
            "deform_conv2d": convolved,
        }
        fakes["ps_roi_align"] = fakes["ps_roi_pool"] = own
        for name, fake in fakes.items():
            torch.library.register_fake(f"torchvision::{name}", fake, lib=library)
        yield torch.ops.torchvision
        return
    yield torch.ops.torchvision


def test_boxes_and_regions_of_torchvision(operators: Any) -> None:
    class Detector(nn.Module):
        def forward(self, image: Any, rois: Any, boxes: Any, scores: Any, regions: Any) -> Any:
            kept = operators.nms(boxes, scores, 0.3)
            return (
                boxes[kept],
                operators.roi_align(image, rois, 0.5, 2, 3, 2, True),
                operators.roi_align(image, rois, 0.5, 2, 3, 0, False),
                operators.roi_pool(image, rois, 0.5, 3, 2)[0],
                operators.ps_roi_align(image, rois, 0.5, 3, 1, 2)[0],
                operators.ps_roi_pool(image, regions, 0.5, 3, 1)[0],
            )

    torch.manual_seed(0)
    corners = torch.rand(20, 2) * 8
    boxes = torch.cat((corners, corners + torch.rand(20, 2) * 6 + 1), 1)
    rois = torch.cat((torch.tensor([[0.0], [1.0], [1.0]]), boxes[:3]), 1)
    outside = torch.cat((torch.ones(30, 1), torch.rand(30, 4) * 24 - 4), 1)
    outside[:20, 3:] += 8
    compare(Detector(), (torch.randn(2, 3, 8, 8), rois, boxes, torch.rand(20), outside))


def test_layers_take_boxes_whose_number_a_run_tells(operators: Any) -> None:
    """Slices of the best, rows of a layer, a matrix for each box, and one item of each row."""

    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, boxes: Any, scores: Any) -> Any:
            kept = operators.nms(boxes, scores, 0.1)
            best, rest = boxes[kept[:4]], boxes[kept[1:-1]]
            rows = self.layer(best)
            squares = best.reshape(best.shape[0], 2, 2)
            chosen = rows[torch.arange(best.shape[0]), kept[:4] % 3]
            return rows, rest, kept[:100], squares @ squares.transpose(1, 2), chosen

    torch.manual_seed(0)
    corners = torch.rand(20, 2) * 8
    boxes = torch.cat((corners, corners + torch.rand(20, 2) * 6 + 1), 1)
    compare(Head(), (boxes, torch.rand(20)))


def test_deformable_convolutions_of_torchvision(operators: Any) -> None:
    class Deformed(nn.Module):
        def forward(self, x: Any, w: Any, offset: Any, mask: Any, b: Any) -> Any:
            numbers = (1, 2, 1, 2, 2, 1, 2, 2)
            given = (x, w, offset, mask, b)
            return tuple(operators.deform_conv2d(*given, *numbers, flag) for flag in (True, False))

    torch.manual_seed(0)
    x, w = torch.randn(1, 4, 5, 6), torch.randn(6, 2, 3, 2)
    offset = torch.randn(1, 2 * 2 * 6, 3, 5)
    compare(Deformed(), (x, w, offset, torch.rand(1, 2 * 6, 3, 5), torch.randn(6)))
