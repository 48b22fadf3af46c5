"""Well-known networks with faithful structure and random weights, for benchmarks and tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from benchmarks.zoo.builder import Array, Network, Shape
from benchmarks.zoo.inception import googlenet, inception_v3
from benchmarks.zoo.mobile import efficientnet_b0, mobilenet_v2, shufflenet_v2
from benchmarks.zoo.nnef import Document, nnef_document
from benchmarks.zoo.pictures import unet, yolo
from benchmarks.zoo.residual import densenet121, resnet
from benchmarks.zoo.sequences import bert, lstm_step, vit
from benchmarks.zoo.sequential import alexnet, mlp, squeezenet, vgg16


@dataclass(frozen=True, slots=True)
class Entry:
    """A network at the size of its paper, and at a reduced one."""

    title: str
    function: Callable[..., Any]
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    reduced: dict[str, Any] = field(default_factory=dict[str, Any])
    """Options of the reduced size, which override the others."""

    def network(self, *, small: bool = False) -> Network:
        return partial(self.function, **{**self.options, **(self.reduced if small else {})})

    def document(self, name: str, batch: int = 1, *, small: bool = False) -> Document:
        return nnef_document(self.network(small=small), name, batch)


ZOO: dict[str, Entry] = {
    "alexnet": Entry("AlexNet", alexnet, reduced={"size": 96, "hidden": 256, "classes": 100}),
    "squeezenet": Entry("SqueezeNet 1.1", squeezenet, reduced={"size": 64, "classes": 100}),
    "mobilenet_v2": Entry("MobileNetV2", mobilenet_v2, reduced={"size": 64, "classes": 100}),
    "resnet18": Entry("ResNet-18", resnet, {"depth": 18}, {"size": 64, "classes": 100}),
    "resnet50": Entry("ResNet-50", resnet, {"depth": 50}, {"size": 64, "classes": 100}),
    "vgg16": Entry("VGG-16", vgg16, reduced={"size": 32, "hidden": 512, "classes": 100}),
    "googlenet": Entry("GoogLeNet", googlenet, reduced={"size": 96, "classes": 100}),
    "inception_v3": Entry("Inception-v3", inception_v3, reduced={"size": 96, "classes": 100}),
    "densenet121": Entry("DenseNet-121", densenet121, reduced={"size": 64, "growth": 8}),
    "shufflenet_v2": Entry("ShuffleNetV2", shufflenet_v2, reduced={"size": 64, "classes": 100}),
    "efficientnet_b0": Entry("EfficientNet-B0", efficientnet_b0, reduced={"size": 64}),
    "unet": Entry("U-Net", unet, reduced={"size": 32, "channels": 8, "depth": 3}),
    "yolo": Entry("YOLO detector", yolo, reduced={"size": 64}),
    "vit": Entry("ViT-S/16", vit, reduced={"size": 64, "width": 48, "heads": 3, "depth": 3}),
    "bert": Entry("BERT-base", bert, reduced={"tokens": 16, "width": 48, "heads": 3, "depth": 3}),
    "mlp": Entry("MLP 3x64", mlp),
    "lstm": Entry("LSTM step", lstm_step, reduced={"inputs": 24, "hidden": 40}),
}
"""The networks by name, in the order of the report."""


def inputs_of(inputs: Mapping[str, Shape], seed: int = 1) -> dict[str, Array]:
    """Normally distributed float32 arrays of those shapes."""
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape, np.float32) for name, shape in inputs.items()}
