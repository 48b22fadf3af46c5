"""torchvision's operators in Python, where its compiled ones do not fit the installed PyTorch.

The wheels of torchvision in registries are built for PyTorch with CUDA.  With a PyTorch for CPUs,
their library cannot be loaded, and importing torchvision fails.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false
# (torchvision is not typed)

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_DECLARED = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height,"
    " SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
)

_library: Any = None
"""Keeps the operators registered."""


def ensure() -> None:
    """Make torchvision importable, with the operators of detectors, if it is installed."""
    global _library
    spec = find_spec("torchvision")
    if _library is not None or spec is None or spec.origin is None:
        return
    try:
        torch.ops.load_library(str(next(Path(spec.origin).parent.glob("_C*.so"))))
        return
    except (OSError, StopIteration):
        pass
    _library = torch.library.Library("torchvision", "DEF")
    for declaration in _DECLARED:
        _library.define(declaration)
    extension = import_module("torchvision.extension")
    roi_module = sys.modules["torchvision.ops.roi_align"]
    align = vars(roi_module)["_roi_align"].__wrapped__
    _library.impl("nms", _non_max_suppression, "CPU")
    _library.impl("roi_align", align, "CPU")
    torch.library.register_fake("torchvision::roi_align", _aligned_shape, lib=_library)
    for module in (extension, roi_module):
        vars(module)["_has_ops"] = lambda: True


def _non_max_suppression(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """The indices of boxes [N, 4] that no better box overlaps by more than `threshold`."""
    order = scores.argsort(descending=True, stable=True)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    selected: list[Tensor] = []
    while order.numel():
        first, order = order[0], order[1:]
        selected.append(first)
        low = torch.maximum(boxes[first, :2], boxes[order, :2])
        high = torch.minimum(boxes[first, 2:], boxes[order, 2:])
        shared = (high - low).clamp(min=0).prod(1)
        order = order[shared <= threshold * (areas[first] + areas[order] - shared)]
    return torch.stack(selected) if selected else order.new_zeros(0)


def _aligned_shape(
    x: Tensor, rois: Tensor, _scale: float, height: int, width: int, _ratio: int, _aligned: bool
) -> Tensor:
    return x.new_empty(rois.shape[0], x.shape[1], height, width)
