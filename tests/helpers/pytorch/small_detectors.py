"""Detectors of torchvision with backbones of three layers, and pictures of 50 x 70."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
# pyright: reportMissingImports=false
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torchvision.models import detection
from torchvision.models.detection.anchor_utils import AnchorGenerator, DefaultBoxGenerator
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
from torchvision.models.detection.retinanet import RetinaNetHead
from torchvision.models.detection.ssd import SSD
from torchvision.ops import FeaturePyramidNetwork, MultiScaleRoIAlign

from benchmarks.pytorch_models.detection_models import surest, with_sure_boxes
from benchmarks.pytorch_models.model_case import Case

_SIZES: Any = {"min_size": 64, "max_size": 96}
_MAPS = ["0", "1"]


class Backbone(nn.Module):
    """Two feature maps, with a pyramid unless `channels` is 0."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.out_channels: Any = channels or [8, 8]
        self.first = nn.Conv2d(3, 8, 3, 4, 1)
        self.second = nn.Conv2d(8, 8, 3, 2, 1)
        self.third = nn.Conv2d(8, 8, 3, 2, 1)
        self.pyramid = FeaturePyramidNetwork([8, 8], channels) if channels else None

    def forward(self, x: Any) -> Any:
        fine = torch.relu(self.second(torch.relu(self.first(x))))
        maps = OrderedDict(zip(_MAPS, (fine, torch.relu(self.third(fine))), strict=True))
        return self.pyramid(maps) if self.pyramid else maps


def _anchors(ratios: tuple[float, ...]) -> Any:
    return AnchorGenerator(((16,), (32,)), (ratios, ratios))


def _ssd() -> nn.Module:
    return SSD(Backbone(0), DefaultBoxGenerator([[2], [2]]), (64, 64), 5)


def _retinanet() -> nn.Module:
    anchors = _anchors((0.5, 1.0, 2.0))
    head = RetinaNetHead(8, 3, 5)
    return detection.RetinaNet(Backbone(8), 5, anchor_generator=anchors, head=head, **_SIZES)


def _fcos() -> nn.Module:
    return detection.FCOS(Backbone(32), 5, anchor_generator=_anchors((1.0,)), **_SIZES)


def _mask_rcnn() -> nn.Module:
    return detection.MaskRCNN(
        Backbone(8),
        None,
        rpn_anchor_generator=_anchors((0.5, 1.0, 2.0)),
        box_roi_pool=MultiScaleRoIAlign(_MAPS, 3, 2),
        box_head=TwoMLPHead(8 * 9, 16),
        box_predictor=FastRCNNPredictor(16, 5),
        mask_roi_pool=MultiScaleRoIAlign(_MAPS, 6, 2),
        mask_head=MaskRCNNHeads(8, (8,), 1),
        mask_predictor=MaskRCNNPredictor(8, 8, 5),
        **_SIZES,
    )


DETECTORS: dict[str, Callable[[], nn.Module]] = {
    "ssd": _ssd,
    "retinanet": _retinanet,
    "fcos": _fcos,
    "mask_rcnn": _mask_rcnn,
}


def small_detector(name: str) -> Case:
    """A detector whose results are sure, and a picture."""

    def make() -> Case:
        return with_sure_boxes(DETECTORS[name](), [torch.rand(3, 50, 70)], (10, 20), (20, 30))

    return surest(make)
