"""The models of torchvision: classification, segmentation, video, optical flow."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
# (torchvision is not typed)

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import torch

from benchmarks.pytorch_models.model_case import Case, Suite, image_case
from benchmarks.pytorch_onnx.network import randomise

_PACKAGES: Final = ("", ".segmentation", ".video", ".optical_flow")
_SIZES: Final = (64, 96, 128, 224)
_FRAMES: Final = 16


def _models(package: str = "") -> Any:
    return import_module(f"torchvision.models{package}")


def _names() -> list[str]:
    """All models but detectors and quantized ones, by their number of parameters."""
    library = _models()
    listed = [name for each in _PACKAGES for name in library.list_models(_models(each))]
    return sorted(listed, key=_parameters)


def _parameters(name: str) -> int:
    """The number of parameters of a model, as its published weights state it."""
    weights = [*_models().get_model_weights(name)]
    return weights[0].meta["num_params"] if weights else 0


def _make(name: str) -> Case:
    library = _models()
    lacking = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    segments = name in library.list_models(_models(".segmentation"))
    module = randomise(
        library.get_model(
            name, weights=None, **lacking, **({"weights_backbone": None} if segments else {})
        )
    )
    if name in library.list_models(_models(".optical_flow")):
        return Case(module, (torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128)))
    if name in library.list_models(_models(".video")):
        return image_case(module, _SIZES, 3, _FRAMES)
    return image_case(module, _SIZES, 3)


SUITE: Final = Suite(_names, _make)
