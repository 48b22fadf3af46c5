"""Detectors of torchvision without branches of Python that depend on values, for `torch.export`.

torchvision has several ways to compute the same, which numbers of boxes choose between, and loops
over boxes.  Here each function has one way, in operators of tensors, with the same results.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
# pyright: reportMissingImports=false
# (torchvision is not typed)

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

if TYPE_CHECKING:
    from torch import Tensor

_PACKAGE: Final = "torchvision.models.detection"


@contextmanager
def without_branches_on_values() -> Generator[None]:
    """Within the block, torchvision's detectors compute with the functions of this module."""
    if _PACKAGE not in sys.modules:
        yield
        return
    with ExitStack() as stack:
        for owner, name, function in _substitutes():
            if hasattr(owner, name):
                stack.enter_context(mock.patch.object(owner, name, function))
        yield


def _substitutes() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Modules and classes of torchvision, names of their functions, and other functions."""
    from torchvision.models.detection import _utils, fcos, retinanet, ssd, transform
    from torchvision.ops import boxes, poolers

    yield boxes, "batched_nms", _batched_nms
    yield poolers, "_setup_scales", _scales_and_levels
    yield poolers, "_multiscale_roi_align", _align_regions
    yield _utils, "_topk_min", _least_extent
    yield _utils.BoxCoder, "decode", _decode
    yield ssd.SSD, "postprocess_detections", _boxes_of_ssd
    yield retinanet.RetinaNet, "postprocess_detections", _boxes_of_retinanet
    yield fcos.FCOS, "postprocess_detections", _boxes_of_fcos
    yield transform, "paste_masks_in_image", _paste_masks


def _batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """Boxes of different groups are moved apart, without rounding."""
    import torch

    wide = boxes.double()
    offsets = idxs.to(wide) * (wide.max() - wide.min() + 1)
    return torch.ops.torchvision.nms(wide + offsets[:, None], scores.double(), iou_threshold)


def _scales_and_levels(
    features: Sequence[Tensor],
    image_shapes: Sequence[tuple[int, int]],
    canonical_scale: int,
    canonical_level: int,
) -> tuple[list[float], Any]:
    """The scales of feature maps, powers of two, and the function that chooses one for a box."""
    from torchvision.ops import poolers

    height = max(shape[0] for shape in image_shapes)
    levels = [round(math.log2(float(x.shape[-2]) / float(height))) for x in features]
    mapper = poolers.initLevelMapper(-levels[0], -levels[-1], canonical_scale, canonical_level)
    return [2.0**level for level in levels], mapper


def _align_regions(
    x_filtered: Sequence[Tensor],
    boxes: Sequence[Tensor],
    output_size: tuple[int, int],
    sampling_ratio: int,
    scales: Sequence[float],
    mapper: Callable[[Sequence[Tensor]], Tensor],
) -> Tensor:
    """The cells of boxes, each from the feature map of its level."""
    import torch
    from torchvision.ops import poolers

    regions: Any = getattr(poolers, "_convert_to_roi_format")(boxes)  # noqa: B009
    how = {"output_size": output_size, "sampling_ratio": sampling_ratio}
    if len(x_filtered) == 1:
        return poolers.roi_align(x_filtered[0], regions, spatial_scale=scales[0], **how)
    levels = mapper(boxes)
    result: Any = None
    for level, (x, scale) in enumerate(zip(x_filtered, scales, strict=True)):
        is_own = levels == level
        own = torch.where(is_own[:, None], regions, 0.0)
        cells = poolers.roi_align(x, own, spatial_scale=scale, **how)
        every = cells if result is None else result
        result = torch.where(is_own[:, None, None, None], cells, every)
    return result


def _least_extent(input: Tensor, orig_kval: int, axis: int) -> Any:
    import torch

    return torch.sym_min(orig_kval, input.size(axis))


def _decode(self: Any, rel_codes: Tensor, boxes: Sequence[Tensor]) -> Tensor:
    """Boxes [n, classes, 4]."""
    import torch

    every = torch.cat([*boxes], dim=0)
    return self.decode_single(rel_codes, every).reshape(every.shape[0], -1, 4)


def _boxes_of_ssd(
    self: Any,
    head_outputs: dict[str, Tensor],
    image_anchors: Sequence[Tensor],
    image_shapes: Sequence[tuple[int, int]],
) -> list[dict[str, Tensor]]:
    """The best boxes of all classes at once; torchvision has a loop over classes."""
    import torch
    from torchvision.ops import boxes as operators

    found: list[dict[str, Tensor]] = []
    every = torch.softmax(head_outputs["cls_logits"], dim=-1)
    for codes, scores, anchors, shape in zip(
        head_outputs["bbox_regression"], every, image_anchors, image_shapes, strict=True
    ):
        boxes = self.box_coder.decode_single(codes, anchors)
        boxes = operators.clip_boxes_to_image(boxes, shape)
        room = min(self.topk_candidates, scores.shape[0])
        best, rows = scores[:, 1:].t().topk(room)
        at = torch.where(best.flatten() > self.score_thresh)[0]
        chosen, kept = boxes[rows.flatten()[at]], best.flatten()[at]
        labels = torch.div(at, room, rounding_mode="floor") + 1
        found.append(_suppressed(self, chosen, kept, labels))
    return found


def _suppressed(self: Any, boxes: Tensor, scores: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """The best boxes, of which none overlaps a better one of its class too much."""
    from torchvision.ops import boxes as operators

    keep = operators.batched_nms(boxes, scores, labels, self.nms_thresh)
    keep = keep[: self.detections_per_img]
    return {"boxes": boxes[keep], "scores": scores[keep], "labels": labels[keep]}


def _boxes_of_retinanet(
    self: Any,
    head_outputs: dict[str, list[Tensor]],
    anchors: Sequence[Sequence[Tensor]],
    image_shapes: Sequence[tuple[int, int]],
) -> list[dict[str, Tensor]]:
    scores = [x.sigmoid() for x in head_outputs["cls_logits"]]
    decode = self.box_coder.decode_single
    return _boxes_of_levels(self, scores, head_outputs, anchors, image_shapes, decode)


def _boxes_of_fcos(
    self: Any,
    head_outputs: dict[str, list[Tensor]],
    anchors: Sequence[Sequence[Tensor]],
    image_shapes: Sequence[tuple[int, int]],
) -> list[dict[str, Tensor]]:
    pairs = zip(head_outputs["cls_logits"], head_outputs["bbox_ctrness"], strict=True)
    scores = [(x.sigmoid() * center.sigmoid()).sqrt() for x, center in pairs]
    decode = self.box_coder.decode
    return _boxes_of_levels(self, scores, head_outputs, anchors, image_shapes, decode)


def _boxes_of_levels(
    self: Any,
    scores: Sequence[Tensor],
    head_outputs: dict[str, list[Tensor]],
    anchors: Sequence[Sequence[Tensor]],
    image_shapes: Sequence[tuple[int, int]],
    decode: Callable[[Tensor, Tensor], Tensor],
) -> list[dict[str, Tensor]]:
    """The best boxes of each level with a score above the threshold, then the best of all levels.

    torchvision takes those above the threshold first.  Scores [n, anchors, classes].
    """
    import torch
    from torchvision.ops import boxes as operators

    found: list[dict[str, Tensor]] = []
    for image, shape in enumerate(image_shapes):
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        levels = zip(scores, head_outputs["bbox_regression"], anchors[image], strict=True)
        for own, codes, references in levels:
            best, at = own[image].flatten().topk(min(self.topk_candidates, own[image].numel()))
            kept = torch.where(best > self.score_thresh)[0]
            at = at[kept]
            row = torch.div(at, own.shape[-1], rounding_mode="floor")
            boxes = operators.clip_boxes_to_image(decode(codes[image][row], references[row]), shape)
            parts.append((boxes, best[kept], at % own.shape[-1]))
        found.append(_suppressed(self, *(torch.cat(each) for each in zip(*parts, strict=True))))
    return found


def _paste_masks(
    masks: Tensor, boxes: Tensor, img_shape: tuple[int, int], padding: int = 1
) -> Tensor:
    """Masks [n, 1, m, m] of boxes within pictures, [n, 1, height, width].

    Bilinear resampling to the size of a box is a product with a matrix for each axis.
    """
    from torchvision.models.detection import roi_heads

    wide, scale = roi_heads.expand_masks(masks, padding=padding)
    corners = roi_heads.expand_boxes(boxes, scale).long()
    rows = _shares(corners[:, 1], corners[:, 3], wide.shape[-2], img_shape[0]).to(wide)
    columns = _shares(corners[:, 0], corners[:, 2], wide.shape[-1], img_shape[1]).to(wide)
    return rows[:, None] @ wide @ columns[:, None].transpose(-1, -2)


def _shares(first: Tensor, last: Tensor, count: int, extent: int) -> Tensor:
    """The share of each of `count` items, stretched from `first` to `last`, in each place.

    [n, extent, count], 0 for places outside.
    """
    import torch

    places = torch.arange(extent)[None]
    inside = (places >= first[:, None]) & (places <= last[:, None])
    size = (last - first + 1).clamp(min=1)
    ratio = count / size.to(torch.float32)
    at = (places - first[:, None] + 0.5) * ratio[:, None] - 0.5
    at = at.clamp(min=0, max=count - 1)
    distance = (at[:, :, None] - torch.arange(count)).abs()
    return (1 - distance).clamp(min=0) * inside[:, :, None]
