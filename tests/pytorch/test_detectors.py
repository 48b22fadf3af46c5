"""Detectors of torchvision are exported whole, and have the boxes of eager mode."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportMissingImports=false
from __future__ import annotations

import copy
from typing import Any

import pytest

pytest.importorskip("torchvision", reason="torchvision is not installed")

from torch import nn

from benchmarks.difference import largest_difference
from benchmarks.pytorch_models.check_model import arrays, exact_results
from tests.helpers.pytorch.exported import compare
from tests.helpers.pytorch.small_detectors import small_detector


class OfPicture(nn.Module):
    """A detector that takes one picture, in no list."""

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, x: Any) -> Any:
        return self.detector([x])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ssd", "retinanet", "fcos", "mask_rcnn"])
def test_boxes_and_masks_of_detectors(name: str) -> None:
    case = small_detector(name)
    want = arrays(copy.deepcopy(case.module)(*case.args))
    assert len(want[0]) >= 10, "too few boxes"
    assert largest_difference(want, exact_results(case)) < 5e-5
    (picture,) = case.args[0]
    compare(OfPicture(case.module), (picture,), tolerance=1e-4)
