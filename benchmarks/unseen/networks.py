"""The networks, with inputs to trace them."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.unseen import pixels, points, sequences, vision


class Unseen(NamedTuple):
    """A network and inputs."""

    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]


def _floats(*shapes: tuple[int, ...]) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: tuple(torch.rand(shape) for shape in shapes)


def _ids(count: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randint(500, (1, count)),)


_IMAGE: Final = _floats((1, 3, 224, 224))
NETWORKS: Final = {
    **{make.__name__: Unseen(make, _IMAGE) for make in (vision.Xception, vision.Ghost)},
    **{make.__name__: Unseen(make, _IMAGE) for make in (vision.Cbam, vision.ConvMixer)},
    **{make.__name__: Unseen(make, _IMAGE) for make in (vision.InceptionResidual, vision.Detr)},
    **{make.__name__: Unseen(make, _IMAGE) for make in (vision.MobileVit, vision.GroupedShuffle)},
    "PoolFormer": Unseen(vision.PoolFormer, _IMAGE),
    "Pyramid": Unseen(vision.Pyramid, _floats((1, 3, 256, 256))),
    "SuperResolution": Unseen(pixels.SuperResolution, _floats((1, 3, 48, 48))),
    "Translation": Unseen(pixels.Translation, _floats((1, 3, 64, 64))),
    "Diffusion": Unseen(pixels.Diffusion, _floats((1, 4, 16, 16), (1, 128), (1, 77, 128))),
    "Radiance": Unseen(pixels.Radiance, _floats((1024, 3))),
    "Quantizer": Unseen(pixels.Quantizer, _floats((1, 3, 64, 64))),
    "Segmenter": Unseen(pixels.Segmenter, _floats((1, 3, 128, 128))),
    "WaveNet": Unseen(sequences.WaveNet, _floats((1, 1, 256))),
    "Conformer": Unseen(sequences.Conformer, _floats((1, 100, 144))),
    "SpeechFeatures": Unseen(sequences.SpeechFeatures, _floats((1, 1, 4000))),
    "Tagger": Unseen(sequences.Tagger, _ids(24)),
    "Gemma": Unseen(sequences.Gemma, _ids(40)),
    "Parallel": Unseen(sequences.Parallel, _ids(40)),
    "Recommender": Unseen(
        sequences.Recommender, lambda: (torch.rand(16, 13), torch.randint(500, (16, 4)))
    ),
    "GraphAttention": Unseen(sequences.GraphAttention, _floats((100, 64), (100, 100))),
    "Forecast": Unseen(sequences.Forecast, _floats((4, 48, 8))),
    "Tables": Unseen(sequences.Tables, _floats((8, 20))),
    "Pose": Unseen(points.Pose, _floats((1, 3, 256, 192))),
    "Cloud": Unseen(points.Cloud, _floats((1, 3, 1024))),
    "Depth": Unseen(points.Depth, _floats((1, 3, 96, 160))),
    "Reader": Unseen(points.Reader, _floats((1, 1, 32, 128))),
}
"""By name."""


def write(name: str, path: Path) -> None:
    """Export a network with random weights."""
    import nnefc.pytorch

    torch.manual_seed(0)
    network = NETWORKS[name]
    module, inputs = network.make().eval(), network.inputs()
    nnefc.pytorch.export(module, inputs, path, exporter="torch_to_nnef")
