"""The detectors of torchvision, with weights and thresholds for which results are sure.

With usual random weights many scores tie within rounding, or no box passes a threshold.  Here,
layers are standardised, and each threshold lies in the largest gap between the values that it is
compared with, which eager PyTorch computes in float64.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
# (torchvision is not typed)

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any, Final, NamedTuple
from unittest import mock

import torch
from torch import Tensor, nn

from benchmarks.difference import largest_difference
from benchmarks.pytorch_models.model_case import Case, Suite
from benchmarks.pytorch_models.standardise import standardise
from benchmarks.pytorch_onnx.network import randomise

_SIZES: Final = {"min_size": 160, "max_size": 200}
"""Of the pictures that two-stage detectors, RetinaNet and FCOS see."""
Counts = tuple[int, int]
_BOXES: Final = (15, 30)
"""How many boxes pass the threshold of scores: least and most."""
_PROPOSALS: Final = (80, 120)
"""How many regions of each level pass: least and most."""
_SEEDS: Final = 8
_SURE: Final = 5e-5
"""The difference of eager mode in float32 from float64 with a good seed."""
_GAP: Final = 8e-5
"""The least difference of two scores."""
_DEVIATIONS: Final = {
    **{"cls_logits": 0.5, "cls_score": 2.0, "classification_head.module_list": 2.0},
    **{"regression_head.module_list": 1.0, "rpn.head.bbox_pred": 0.2, "bbox_pred": 1.0},
    **{"bbox_reg": 0.3, "bbox_ctrness": 0.5, "mask_fcn_logits": 2.0, "kps_score_lowres": 2.0},
}
"""Deviations of the results of last layers, by parts of their paths."""


def _library() -> Any:
    return import_module("torchvision.models.detection")


def _names() -> list[str]:
    """All detectors, by their number of parameters."""
    models = import_module("torchvision.models")

    def parameters(name: str) -> int:
        return next(iter(models.get_model_weights(name))).meta["num_params"]

    return sorted(models.list_models(_library()), key=parameters)


def _make(name: str) -> Case:
    sizes = {} if name.startswith("ssd") else _SIZES

    def make() -> Case:
        module = import_module("torchvision.models").get_model(
            name, weights=None, weights_backbone=None, **sizes
        )
        return with_sure_boxes(module, [torch.rand(3, 120, 150)], _BOXES, _PROPOSALS)

    return replace(surest(make), in_place=name.startswith("keypoint"))


def surest(make: Callable[[], Case]) -> Case:
    """A case with one of some seeds, with which eager mode has the same boxes in float64."""
    best: tuple[float, Case] | None = None
    for seed in range(_SEEDS):
        torch.manual_seed(seed)
        case = make()
        difference = _rounding(case)
        if best is None or difference < best[0]:
            best = difference, case
        if difference < _SURE:
            break
    assert best is not None
    return best[1]


def with_sure_boxes(
    module: nn.Module, pictures: list[Tensor], boxes: Counts, proposals: Counts
) -> Case:
    """A detector with other weights and thresholds, and pictures.

    `boxes` pass the threshold of scores, and of each level `proposals`: least and most.
    """
    standardise(randomise(module), (pictures,), _deviation)
    _choose_thresholds(module, pictures, boxes, proposals)
    return Case(module, (pictures,), exact=True)


def _deviation(path: str) -> float | None:
    return next((x for part, x in _DEVIATIONS.items() if part in path), None)


def _rounding(case: Case) -> float:
    """How far eager mode in float32 is from float64; infinite if two scores are nearly equal."""
    from benchmarks.pytorch_models.check_model import arrays, exact_results

    with torch.inference_mode():
        (found,) = case.module(*case.args)
    ordered = found["scores"].sort().values
    if (ordered[1:] - ordered[:-1]).min() < _GAP:
        return float("inf")
    return largest_difference(arrays([found]), exact_results(case))


# -- thresholds


class _Call(NamedTuple):
    """The arguments of a call of `batched_nms`."""

    boxes: Tensor
    scores: Tensor
    groups: Tensor


@torch.no_grad()
def _choose_thresholds(
    module: Any, pictures: list[Tensor], boxes: Counts, proposals: Counts
) -> None:
    """Set the thresholds of a detector to the middle of gaps."""
    wide = copy.deepcopy(module).double()
    given = [x.double() for x in pictures]
    stages: list[tuple[Any, Any]] = [(module, wide)]
    if hasattr(module, "rpn"):
        stages = [(module.roi_heads, wide.roi_heads)]
        _choose_proposals(module.rpn, wide, given, proposals)
    for own, other in stages:
        other.score_thresh = 0.0
        scores = _suppressions(wide, given)[-1].scores
        own.score_thresh = other.score_thresh = _cut(scores, boxes)
        own.nms_thresh = other.nms_thresh = _overlap(_suppressions(wide, given)[-1], own.nms_thresh)


def _choose_proposals(own: Any, wide: Any, pictures: list[Tensor], proposals: Counts) -> None:
    """Set how many regions of each level remain, and how much they may overlap."""
    found: list[Tensor] = []

    def record(self: Any, objectness: Tensor, counts: list[int]) -> Tensor:
        found.extend(each[0] for each in objectness.split(counts, 1))
        return method(self, objectness, counts)

    method = type(own)._get_top_n_idx
    with mock.patch.object(type(own), "_get_top_n_idx", record):
        wide(pictures)
    levels = [each.sort(descending=True).values for each in found if each.numel() > proposals[0]]
    gaps = {
        k: min(float(x[k - 1] - x[k]) for x in levels if x.numel() > k) for k in range(*proposals)
    }
    most = max(gaps, key=lambda k: gaps[k])
    for each in (own, wide.rpn):
        each._pre_nms_top_n["testing"] = most
    own.nms_thresh = _overlap(_suppressions(wide, pictures)[0], own.nms_thresh)
    wide.rpn.nms_thresh = own.nms_thresh


def _suppressions(module: nn.Module, pictures: list[Tensor]) -> list[_Call]:
    """The calls of `batched_nms` by a detector."""
    boxes: Any = import_module("torchvision.ops.boxes")
    calls: list[_Call] = []
    function = boxes.batched_nms

    def record(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
        calls.append(_Call(boxes, scores, idxs))
        return function(boxes, scores, idxs, iou_threshold)

    with mock.patch.object(boxes, "batched_nms", record):
        module(pictures)
    return calls


def _cut(values: Tensor, count: Counts) -> float:
    """The middle of the largest gap between values that leaves `count` of them above it."""
    ordered = values.sort(descending=True).values
    least, most = (min(n, ordered.numel() - 2) for n in count)
    gaps = ordered[least : most + 1] - ordered[least + 1 : most + 2]
    at = least + int(gaps.argmax())
    return float((ordered[at] + ordered[at + 1]) / 2)


def _overlap(call: _Call, threshold: float) -> float:
    """A threshold near another, in the largest gap of the overlaps of boxes of the same group."""
    ratios = import_module("torchvision.ops.boxes").box_iou(call.boxes, call.boxes)
    same = call.groups[:, None] == call.groups[None]
    near = ratios[same & ((ratios - threshold).abs() < 0.1)]
    ends = torch.tensor([threshold - 0.1, threshold + 0.1], dtype=ratios.dtype)
    ordered = torch.cat([near, ends]).sort().values
    at = int((ordered[1:] - ordered[:-1]).argmax())
    return float((ordered[at] + ordered[at + 1]) / 2)


SUITE: Final = Suite(_names, _make)
