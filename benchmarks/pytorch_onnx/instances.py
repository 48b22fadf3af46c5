"""Mask R-CNN: proposals, features of regions, then a mask for each detection."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torchvision is not typed)

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.pytorch_onnx.detection import decode, suppress
from benchmarks.pytorch_onnx.network import Network, entry, of_images


class MaskRcnn(nn.Module):
    """The layers of torchvision's network, with selections that both exporters can trace."""

    anchors: Tensor

    def __init__(self, model: Any, size: int, proposals: int, detections: int) -> None:
        super().__init__()
        self.backbone, self.rpn_head = model.backbone, model.rpn.head
        self.box_head = model.roi_heads.box_head
        self.box_predictor = model.roi_heads.box_predictor
        self.mask_head = model.roi_heads.mask_head
        self.mask_predictor = model.roi_heads.mask_predictor
        self.proposals, self.detections, self.size = proposals, detections, size
        lists: Any = import_module("torchvision.models.detection.image_list")
        sample = torch.zeros(1, 3, size, size)
        features = list(model.backbone(sample).values())
        images = lists.ImageList(sample, [(size, size)])
        anchors = model.rpn.anchor_generator(images, features)[0]
        self.register_buffer("anchors", anchors)
        self.counts = [3 * x.shape[2] * x.shape[3] for x in features]

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        features = self.backbone(x)
        levels = list(features.values())
        boxes = self._propose(levels)
        classes, offsets = self.box_predictor(self.box_head(self._regions(levels, boxes, 7)))
        boxes, scores, labels = self._detect(boxes, classes.softmax(-1), offsets)
        masks = self.mask_predictor(self.mask_head(self._regions(levels, boxes, 14)))
        rows = torch.arange(boxes.shape[0])
        return boxes, scores, labels, masks[rows, labels].sigmoid()

    def _propose(self, levels: list[Tensor]) -> Tensor:
        """The best boxes [N, 4] of all levels, without those that overlap."""
        objectness, offsets = self.rpn_head(levels)
        scores = torch.cat([x[0].permute(1, 2, 0).reshape(-1) for x in objectness])
        parts = [x[0].unflatten(0, (3, 4)).permute(2, 3, 0, 1).reshape(-1, 4) for x in offsets]
        boxes = decode(torch.cat(parts), self.anchors, (1.0, 1.0, 1.0, 1.0))
        boxes = boxes.clamp(0.0, float(self.size))
        chosen: list[Tensor] = []
        start = 0
        for count in self.counts:
            best = scores[start : start + count].topk(min(count, self.proposals))
            chosen.append(best.indices + start)
            start += count
        order = torch.cat(chosen)
        levels_of = torch.cat([torch.full_like(x, i) for i, x in enumerate(chosen)])
        kept = suppress(boxes[order], scores[order].sigmoid(), levels_of, 0.7)
        return boxes[order[kept[: self.proposals]]]

    def _regions(self, levels: list[Tensor], boxes: Tensor, size: int) -> Tensor:
        """Features [N, channels, size, size], each of the level that fits the size of its box."""
        align = import_module("torchvision.ops").roi_align
        rois = torch.cat((torch.zeros_like(boxes[:, :1]), boxes), 1)
        areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
        wanted = torch.floor(4 + torch.log2(areas.sqrt() / 224 + 1e-6)).clamp(2, 5) - 2
        result = torch.zeros(())
        for number, x in enumerate(levels[:4]):
            scale = x.shape[2] / self.size
            aligned = align(x, rois, size, scale, 2)
            result = torch.where((wanted == number)[:, None, None, None], aligned, result)
        return result

    def _detect(
        self, boxes: Tensor, scores: Tensor, offsets: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        every = decode(offsets.unflatten(1, (-1, 4)), boxes[:, None], (10.0, 10.0, 5.0, 5.0))
        every = every.clamp(0.0, float(self.size))[:, 1:].reshape(-1, 4)
        labels = torch.arange(1, scores.shape[1]).expand(scores.shape[0], -1).reshape(-1)
        flat = scores[:, 1:].reshape(-1)
        likely = (flat > 0.05).nonzero()[:, 0]
        every, flat, labels = every[likely], flat[likely], labels[likely]
        kept = suppress(every, flat, labels, 0.5)[: self.detections]
        return every[kept], flat[kept], labels[kept]


@entry("mask_rcnn", "Mask R-CNN", "torchvision")
def mask_rcnn(small: bool) -> Network:
    library: Any = import_module("torchvision.models.detection")
    size, classes = (64, 4) if small else (512, 91)
    if small:
        utilities: Any = import_module("torchvision.models.detection.backbone_utils")
        backbone = utilities.resnet_fpn_backbone(
            backbone_name="resnet18", weights=None, trainable_layers=5
        )
        model = library.MaskRCNN(backbone, classes)
    else:
        model = library.maskrcnn_resnet50_fpn(
            weights=None, weights_backbone=None, num_classes=classes
        )
    module = MaskRcnn(model.eval(), size, 30 if small else 300, 10 if small else 100)
    outputs = ("boxes", "scores", "classes", "masks")
    return of_images(module, size, outputs=outputs, batch=False)
