"""Networks with channels last, as Keras models with random weights."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (TensorFlow and Keras are not typed)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from benchmarks.tflite.keyword_lstm import keyword_lstm
from benchmarks.tflite.mobile_bert import mobile_bert

_LITE0: Final = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
"""Stages of EfficientNet-Lite0: expansion, channels, repeats, stride, taps."""
_BOXES: Final = (3, 6, 6, 6, 6, 6)
"""Boxes of a pixel of each feature map of SSD."""
_SSD_CLASSES: Final = 91
_DEEPLAB_CLASSES: Final = 21
_DILATED_BLOCK: Final = 13
"""The block of MobileNetV2 whose stride DeepLab replaces by dilation."""


def layers() -> Any:
    """Keras's module of layers."""
    return import_module("keras.layers")


def _application(name: str, size: int, **options: Any) -> Any:
    make = getattr(import_module("keras.applications"), name)
    return make(weights=None, input_shape=(size, size, 3), **options)


def _application_of(name: str, **options: Any) -> Callable[[int], Any]:
    return lambda size: _application(name, size, classifier_activation=None, **options)


def _model(x: Any, y: Any) -> Any:
    return import_module("keras").Model(x, y)


def _normalised(x: Any, *, relu: bool = True) -> Any:
    x = layers().BatchNormalization()(x)
    return layers().ReLU(6.0)(x) if relu else x


def _inverted(x: Any, channels: int, expansion: int, stride: int, taps: int, dilation: int) -> Any:
    """An inverted residual block (Sandler et al., 2018)."""
    make, before = layers(), x
    if expansion > 1:
        x = _normalised(make.Conv2D(expansion * x.shape[-1], 1, use_bias=False)(x))
    options = {"padding": "same", "use_bias": False, "dilation_rate": dilation}
    x = _normalised(make.DepthwiseConv2D(taps, stride, **options)(x))
    x = _normalised(make.Conv2D(channels, 1, use_bias=False)(x), relu=False)
    return make.Add()([x, before]) if stride == 1 and before.shape[-1] == channels else x


def _lite0(size: int) -> Any:
    """EfficientNet-Lite0: EfficientNet-B0 without squeeze and excitation, with ReLU6."""
    make = layers()
    image = make.Input((size, size, 3))
    x = _normalised(make.Conv2D(32, 3, 2, padding="same", use_bias=False)(image))
    for expansion, channels, repeats, stride, taps in _LITE0:
        for i in range(repeats):
            x = _inverted(x, channels, expansion, 1 if i else stride, taps, 1)
    x = _normalised(make.Conv2D(1280, 1, use_bias=False)(x))
    return _model(image, make.Dense(1000)(make.GlobalAveragePooling2D()(x)))


def _ssd(size: int) -> Any:
    """SSD (Liu et al., 2016) on MobileNetV2; its results are codes of boxes, and scores."""
    make = layers()
    base = _application("MobileNetV2", size, include_top=False)
    x = base.output
    maps = [base.get_layer("block_13_expand_relu").output, x]
    for channels in (512, 256, 256, 128):
        x = _normalised(make.Conv2D(channels // 2, 1, use_bias=False)(x))
        x = _normalised(make.Conv2D(channels, 3, 2, padding="same", use_bias=False)(x))
        maps.append(x)
    boxes, scores = [
        make.Concatenate(axis=1)(
            [
                make.Reshape((-1, numbers))(make.Conv2D(count * numbers, 1)(each))
                for each, count in zip(maps, _BOXES, strict=True)
            ]
        )
        for numbers in (4, _SSD_CLASSES)
    ]
    return _model(base.input, make.Concatenate(axis=2)([boxes, make.Activation("sigmoid")(scores)]))


def _deeplab(size: int) -> Any:
    """DeepLabv3 (Chen et al., 2017) on MobileNetV2 with an output stride of 16."""
    make = layers()
    image = make.Input((size, size, 3))
    x = _normalised(make.Conv2D(32, 3, 2, padding="same", use_bias=False)(image))
    number = 0
    stages = (
        *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
        *((6, 96, 3, 1), (6, 160, 3, 1), (6, 320, 1, 1)),
    )
    for expansion, channels, repeats, stride in stages:
        for i in range(repeats):
            dilation = 2 if number > _DILATED_BLOCK else 1
            x = _inverted(x, channels, expansion, 1 if i else stride, 3, dilation)
            number += 1
    mean = make.GlobalAveragePooling2D(keepdims=True)(x)
    mean = _normalised(make.Conv2D(256, 1, use_bias=False)(mean))
    mean = make.UpSampling2D(x.shape[1:3], interpolation="bilinear")(mean)
    x = make.Concatenate()([mean, _normalised(make.Conv2D(256, 1, use_bias=False)(x))])
    x = make.Conv2D(_DEEPLAB_CLASSES, 1)(_normalised(make.Conv2D(256, 1, use_bias=False)(x)))
    factor = size // x.shape[1]
    return _model(image, make.UpSampling2D(factor, interpolation="bilinear")(x))


@dataclass(frozen=True, slots=True)
class Entry:
    """A network: its model by size, at the size of its paper and at a reduced one."""

    title: str
    make: Callable[[int], Any]
    size: int = 224
    reduced: int = 64
    integers: int = 0
    """Inputs are whole numbers of int32 below this one; 0: they are reals."""
    dynamic: bool = False
    """Rows are quantized in each run, because the converter cannot quantize the network itself."""


NETWORKS: Final = {
    "mobilenet_v1": Entry("MobileNetV1", _application_of("MobileNet")),
    "mobilenet_v2": Entry("MobileNetV2", _application_of("MobileNetV2")),
    "mobilenet_v3": Entry(
        "MobileNetV3-Large", _application_of("MobileNetV3Large", include_preprocessing=False)
    ),
    "efficientnet_lite0": Entry("EfficientNet-Lite0", _lite0),
    "resnet50": Entry("ResNet-50", _application_of("ResNet50")),
    "ssd": Entry("SSD-MobileNetV2", _ssd, 320, 128),
    "deeplab": Entry("DeepLabv3-MobileNetV2", _deeplab, 256, 64),
    "keyword_lstm": Entry("keyword LSTM", keyword_lstm, 49, 8, dynamic=True),
    "mobile_bert": Entry("MobileBERT", mobile_bert, 128, 16, integers=30522),
}
"""The networks by name; the size of a sequence is its length."""
