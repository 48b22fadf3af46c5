"""Networks that classify pictures."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torchvision is not typed)

from __future__ import annotations

from importlib import import_module
from typing import Any

from torch import Tensor, nn

from benchmarks.pytorch_onnx.network import Network, entry, of_images


def _models(name: str) -> Any:
    """A module of torchvision's networks."""
    return import_module(f"torchvision.models.{name}")


class Segments(nn.Module):
    """The scores of a network for segmentation, which returns a dictionary."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x)["out"]


@entry("vit", "ViT", "torchvision")
def vit(small: bool) -> Network:
    library = _models("vision_transformer")
    if small:
        return of_images(library.VisionTransformer(32, 8, 2, 2, 32, 64, num_classes=10), 32)
    return of_images(library.vit_b_16(), 224)


@entry("swin", "Swin", "torchvision")
def swin(small: bool) -> Network:
    library = _models("swin_transformer")
    if small:
        sizes = {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": [4, 4]}
        module = library.SwinTransformer([4, 4], **sizes, num_classes=10)
        return of_images(module, 48)  # 12 by 12 patches, then 6 by 6, which are padded
    return of_images(library.swin_t(), 224)


@entry("convnext", "ConvNeXt", "torchvision")
def convnext(small: bool) -> Network:
    library = _models("convnext")
    if small:
        block = library.CNBlockConfig
        module = library.ConvNeXt([block(16, 32, 2), block(32, None, 2)], num_classes=10)
        return of_images(module, 48)
    return of_images(library.convnext_tiny(), 224)


@entry("efficientnet", "EfficientNet", "torchvision")
def efficientnet(small: bool) -> Network:
    module = _models("efficientnet").efficientnet_b0(num_classes=10 if small else 1000)
    return of_images(module, 64 if small else 224)


@entry("mobilenet_v3", "MobileNetV3", "torchvision")
def mobilenet_v3(small: bool) -> Network:
    library = _models("mobilenetv3")
    if small:
        return of_images(library.mobilenet_v3_small(num_classes=10), 64)
    return of_images(library.mobilenet_v3_large(), 224)


@entry("regnet", "RegNet", "torchvision")
def regnet(small: bool) -> Network:
    library = _models("regnet")
    if small:
        parameters = library.BlockParams.from_init_params(4, 16, 24.48, 2.54, 8, 0.25)
        return of_images(library.RegNet(parameters, num_classes=10), 64)
    return of_images(library.regnet_y_800mf(), 224)


@entry("deeplab", "DeepLab", "torchvision")
def deeplab(small: bool) -> Network:
    library = _models("segmentation.deeplabv3")
    make = library.deeplabv3_mobilenet_v3_large if small else library.deeplabv3_resnet50
    module = make(weights=None, weights_backbone=None, num_classes=5 if small else 21)
    return of_images(Segments(module), 64 if small else 256)
