"""A vision transformer, ViT-Ti/16, with random weights: exported, compiled, compared."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from comparison import milliseconds, report
from torch import Tensor, nn

import nnefc
import nnefc.pytorch


class VisionTransformer(nn.Module):
    """Patches of 16 by 16 pixels, `layers` of attention, scores of 1000 classes."""

    def __init__(self, layers: int, width: int = 192, heads: int = 3, size: int = 224) -> None:
        super().__init__()
        count = (size // 16) ** 2
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, count + 1, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.positions
        return self.head(self.norm(self.encoder(x))[:, 0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    network = VisionTransformer(options.layers).eval()
    images = torch.randn(1, 3, 224, 224)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vit.nnef.tgz"
        nnefc.pytorch.export(
            network, images, path, exporter="torch_to_nnef", dynamic_axes={"input": {0: "B"}}
        )
        model = nnefc.compile(path)
        scores = model(images.numpy())

        with torch.inference_mode():
            for batch in (1, 4):
                images = torch.randn(batch, 3, 224, 224)
                scores, wanted = model(images.numpy()), network(images)
                array = images.numpy()
                times = milliseconds(
                    lambda x=array: model(x),
                    lambda x=images: network(x),
                    seconds=options.seconds,
                )
                report(f"{batch} images", scores, wanted, *times)


if __name__ == "__main__":
    main()
