"""Cases of convolutional networks, layers with parameters, and all item types."""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.helpers.pytorch.cases import Case, positive, random, statistics, whole


class Residual(nn.Module):
    """A residual block of ResNet."""

    def __init__(self, channels: int, to: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, to, 3, stride, 1, bias=False)
        self.norm = statistics(nn.BatchNorm2d(to))
        self.second = nn.Conv2d(to, to, 3, 1, 1, bias=False)
        self.last = statistics(nn.BatchNorm2d(to))
        self.skip = nn.Conv2d(channels, to, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm(self.first(x)))
        return F.relu(self.last(self.second(y)) + self.skip(x))


class ConvNeXt(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(torch.rand(channels))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(F.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


class MobileNet(nn.Module):
    """An inverted residual block with squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.expand = nn.Sequential(
            nn.Conv2d(8, 24, 1, bias=False), statistics(nn.BatchNorm2d(24)), nn.Hardswish()
        )
        self.depthwise = nn.Sequential(
            nn.Conv2d(24, 24, 5, 1, 2, groups=24), statistics(nn.BatchNorm2d(24)), nn.ReLU6()
        )
        self.squeeze = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(24, 8, 1), nn.ReLU(), nn.Conv2d(8, 24, 1)
        )
        self.project = nn.Conv2d(24, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.depthwise(self.expand(x))
        return x + self.project(y * F.hardsigmoid(self.squeeze(y)))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, padding=1)
        self.deep = nn.Conv2d(8, 16, 3, padding=1)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.out = nn.Conv2d(16, 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        a = F.relu(self.down(x))
        b = F.relu(self.deep(F.max_pool2d(a, 2)))
        return self.out(torch.cat((a, self.up(b)), 1))


class Detector(nn.Module):
    """A detection head: the boxes and scores of the five best positions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, 2, 1)
        self.boxes, self.scores = nn.Conv2d(8, 4, 1), nn.Conv2d(8, 1, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = F.leaky_relu(self.conv(x), 0.1)
        boxes = self.boxes(y).flatten(2).transpose(1, 2)
        scores, where = torch.topk(self.scores(y).flatten(1).sigmoid(), 5, dim=1)
        return torch.gather(boxes, 1, where.unsqueeze(-1).expand(-1, -1, 4)), scores


class Embedded(nn.Module):
    """A masked sum of embeddings; inputs are uint8 codes and a mask of bools."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 8)

    def forward(self, codes: Tensor, keep: Tensor) -> Tensor:
        x = self.words(codes.long())
        return torch.where(keep.unsqueeze(-1), x, torch.zeros_like(x)).sum(1)


def images() -> Iterator[Case]:
    x = random(1, 3, 16, 16)
    small = random(2, 8, 9, 7)
    hw = {0: {2: "H", 3: "W"}}
    cnn = lambda: nn.Sequential(  # noqa: E731
        nn.Conv2d(3, 8, 3, 2, 1), statistics(nn.BatchNorm2d(8)), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(8 * 16, 5), nn.LogSoftmax(1),
    )  # fmt: skip
    yield Case("cnn", cnn, (x,))
    yield Case("cnn-batch", cnn, (x,), (((random(3, 3, 16, 16)),),), {0: {0: "B"}})
    yield Case("resnet", lambda: nn.Sequential(Residual(3, 8, 2), Residual(8, 16, 1)), (x,))
    yield Case("resnet-size", lambda: Residual(3, 8, 2), (x,), ((random(1, 3, 9, 12),),), hw)
    yield Case("convnext", lambda: ConvNeXt(8), (small,))
    yield Case("convnext-size", lambda: ConvNeXt(8), (small,), ((random(2, 8, 5, 12),),), hw)
    yield Case("mobilenet", MobileNet, (small,))
    yield Case("mobilenet-size", MobileNet, (small,), ((random(2, 8, 5, 12),),), hw)
    yield Case("unet", UNet, (x,))
    yield Case("unet-size", UNet, (x,), ((random(1, 3, 8, 20),),), hw)
    yield Case("detector", Detector, (x,))
    yield Case("detector-size", Detector, (x,), ((random(1, 3, 12, 20),),), hw)
    for name, layer, given in (
        ("conv1d", lambda: nn.Conv1d(5, 4, 3, 2, 2, 2), random(2, 5, 11)),
        ("conv3d", lambda: nn.Conv3d(2, 4, 3, 1, 1), random(1, 2, 4, 5, 6)),
        ("conv-grouped", lambda: nn.Conv2d(8, 12, 3, groups=4), small),
        ("conv-dilated", lambda: nn.Conv2d(8, 4, 3, padding=2, dilation=2), small),
        ("conv-reflected", lambda: nn.Conv2d(8, 4, 3, padding=1, padding_mode="reflect"), small),
        ("conv-valid", lambda: nn.Conv2d(8, 4, 3, padding="valid"), small),
        ("deconv", lambda: nn.ConvTranspose2d(8, 4, 3, 2, 1, 1), small),
        ("deconv-grouped", lambda: nn.ConvTranspose2d(8, 4, 4, 2, 1, groups=2), small),
        ("deconv1d", lambda: nn.ConvTranspose1d(5, 4, 4, 2, 1), random(2, 5, 7)),
        ("deconv3d", lambda: nn.ConvTranspose3d(2, 3, 2, 2), random(1, 2, 3, 4, 5)),
        ("deconv-to-one", lambda: nn.ConvTranspose1d(16, 1, 8, 4), random(2, 16, 9)),
        ("deconv-depthwise", lambda: nn.ConvTranspose2d(8, 8, 4, 2, 1, groups=8), small),
        ("batch_norm1d", lambda: statistics(nn.BatchNorm1d(6)), random(4, 6)),
        ("batch_norm3d", lambda: statistics(nn.BatchNorm3d(2)), random(1, 2, 3, 4, 5)),
        ("group_norm", lambda: nn.GroupNorm(4, 8), small),
        ("instance_norm", lambda: nn.InstanceNorm2d(8, affine=True), small),
        ("layer_norm", lambda: nn.LayerNorm([9, 7]), small),
        ("layer_norm-plain", lambda: nn.LayerNorm(7, elementwise_affine=False), small),
        ("rms_norm", lambda: nn.RMSNorm(7), small),
        ("local_response_norm", lambda: nn.LocalResponseNorm(3), small),
        ("prelu", lambda: nn.PReLU(8), small),
        ("prelu-one", nn.PReLU, small),
        ("upsample", lambda: nn.Upsample(scale_factor=2, mode="bilinear"), small),
        ("bilinear", lambda: nn.Upsample(size=(12, 13), mode="bicubic"), small),
        ("reflection", lambda: nn.ReflectionPad2d(2), small),
        ("replication", lambda: nn.ReplicationPad2d((1, 0, 2, 1)), small),
        ("zero_pad", lambda: nn.ZeroPad2d(1), small),
        ("weight_norm", lambda: nn.utils.weight_norm(nn.Conv1d(5, 4, 3)), random(2, 5, 11)),
        ("parametrized", parametrized, random(2, 5, 11)),
        ("spectral_norm", lambda: nn.utils.spectral_norm(nn.Linear(6, 5)), random(4, 6)),
    ):
        yield Case(f"layer-{name}", layer, (given,))


def parametrized() -> nn.Module:
    return nn.utils.parametrizations.weight_norm(nn.Conv1d(5, 4, 3))


def types() -> Iterator[Case]:
    codes = whole(2, 5, below=20)
    keep = codes > 6
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8):
        name = str(dtype).removeprefix("torch.")
        yield Case(f"codes-{name}", Embedded, (codes.to(dtype), keep))
    half = lambda: nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32)).half()  # noqa: E731
    yield Case("mlp-f16", half, (random(3, 16).half(),), tolerance=5e-3)
    images = lambda: nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 4, 1)).half()  # noqa: E731
    yield Case("cnn-f16", images, (positive(1, 3, 9, 9).half(),), tolerance=5e-3)
    double = lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh()).double()  # noqa: E731
    yield Case("mlp-f64", double, (random(3, 6).double(),))
    yield Case("mlp-q40", quantized, (random(3, 64),), tolerance=1e-3)
    halved = lambda: quantized(dtype=torch.float16)  # noqa: E731
    yield Case("mlp-q40-f16", halved, (random(3, 64).half(),), tolerance=5e-3)
    embedded = lambda: nn.Sequential(nn.Embedding(9, 32), quantized(32))  # noqa: E731
    yield Case("embedded-q40", embedded, (whole(2, 3),), tolerance=1e-3)

    for name, engine in (("each", "qnnpack"), ("channels", "fbgemm")):
        yield Case(f"mlp-i8-{name}", lambda e=engine: dense_of_8_bits(e), (random(4, 16),))
        yield Case(f"cnn-i8-{name}", lambda e=engine: images_of_8_bits(e), (random(2, 3, 8, 8),))


def dense_of_8_bits(engine: str) -> nn.Module:
    return of_8_bits(engine, nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))


def images_of_8_bits(engine: str) -> nn.Module:
    return of_8_bits(
        engine, nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=8), nn.ReLU(), nn.Flatten(), nn.Linear(32, 4),
    )  # fmt: skip


def of_8_bits(engine: str, *layers: nn.Module) -> nn.Module:
    """Layers with 8-bit weights and results; four random inputs calibrate the scales.

    Weights have one scale per channel with fbgemm, and one in all with qnnpack.
    """
    from torch.ao import quantization as quantization_of

    ao: Any = quantization_of
    network = ao.QuantWrapper(nn.Sequential(*layers)).eval()
    network.qconfig = ao.get_default_qconfig(engine)
    ao.prepare(network, inplace=True)
    shape = (2, 3, 8, 8) if isinstance(layers[0], nn.Conv2d) else (4, 16)
    for seed in range(4):
        network(random(*shape, seed=seed))
    return ao.convert(network)


def quantized(inputs: int = 64, dtype: torch.dtype = torch.float32) -> nn.Module:
    """Linear layers with 4-bit weights; inputs and results have type `dtype`."""
    from torch_to_nnef.tensor.quant import fp_to_tract_q4_0_with_min_max_calibration as of_4_bits

    first, second = nn.Linear(inputs, 96, dtype=dtype), nn.Linear(96, 32, dtype=dtype)
    for layer in (first, second):
        layer.weight = nn.Parameter(of_4_bits(layer.weight.data), requires_grad=False)
    return nn.Sequential(first, nn.ReLU(), second)


def cases() -> Iterator[Case]:
    yield from images()
    yield from types()
