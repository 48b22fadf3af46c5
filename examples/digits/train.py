"""Train the network of this example and write everything the example ships.

    pip install ".[train]"
    python examples/digits/train.py

The data are the 1797 handwritten digits of 8x8 pixels from the UCI repository that
scikit-learn ships ("Optical Recognition of Handwritten Digits", test part).  A quarter
of them, 450 images, is held out: the network never sees it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from nnefc.formats.arrays import save_arrays
from nnefc.formats.container import write_container

HERE = Path(__file__).parent
SEED = 2026
EPOCHS = 60

GRAPH = """\
version 1.0;

# Handwritten digits of 8x8 pixels, grey values 0..1, to the probability of each digit.
graph digits( image ) -> ( probabilities )
{
    image = external(shape = [1, 1, 8, 8]);

    filter1 = variable(shape = [32, 1, 3, 3], label = 'conv1/filter');
    bias1 = variable(shape = [1, 32], label = 'conv1/bias');
    conv1 = conv(image, filter1, bias1, padding = [(1, 1), (1, 1)]);
    relu1 = relu(conv1);

    filter2 = variable(shape = [32, 32, 3, 3], label = 'conv2/filter');
    bias2 = variable(shape = [1, 32], label = 'conv2/bias');
    conv2 = conv(relu1, filter2, bias2, padding = [(1, 1), (1, 1)]);
    relu2 = relu(conv2);
    pool2 = max_pool(relu2, size = [1, 1, 2, 2], stride = [1, 1, 2, 2],
                     padding = [(0, 0), (0, 0), (0, 0), (0, 0)]);

    filter3 = variable(shape = [48, 32, 3, 3], label = 'conv3/filter');
    bias3 = variable(shape = [1, 48], label = 'conv3/bias');
    conv3 = conv(pool2, filter3, bias3, padding = [(1, 1), (1, 1)]);
    relu3 = relu(conv3);
    pool3 = max_pool(relu3, size = [1, 1, 2, 2], stride = [1, 1, 2, 2],
                     padding = [(0, 0), (0, 0), (0, 0), (0, 0)]);

    features = reshape(pool3, shape = [0, -1]);
    filter4 = variable(shape = [10, 192], label = 'linear/filter');
    bias4 = variable(shape = [1, 10], label = 'linear/bias');
    scores = linear(features, filter4, bias4);
    probabilities = softmax(scores);
}
"""


def network() -> nn.Sequential:
    """The graph above, as PyTorch sees it."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 48, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.4),
        nn.Linear(192, 10),
    )


def shifted(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The images, each moved by up to one pixel in both directions."""
    padded = nn.functional.pad(images, (1, 1, 1, 1))
    moves = torch.randint(0, 3, (len(images), 2), generator=generator)
    rows = moves[:, 0, None] + torch.arange(8)
    columns = moves[:, 1, None] + torch.arange(8)
    index = torch.arange(len(images))[:, None, None]
    return padded[index, 0, rows[:, :, None], columns[:, None, :]][:, None]


def train(images: torch.Tensor, labels: torch.Tensor) -> nn.Sequential:
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images), generator=generator).split(64):
            optimizer.zero_grad()
            scores = model(shifted(images[batch], generator))
            nn.functional.cross_entropy(scores, labels[batch], label_smoothing=0.05).backward()
            optimizer.step()
        schedule.step()
    return model.eval()


def weights(model: nn.Sequential) -> dict[str, np.ndarray[Any, Any]]:
    """Variables of the graph by label; NNEF wants the bias as [1, channels]."""
    names = ["conv1", "conv2", "conv3", "linear"]
    layers = [m for m in model if isinstance(m, nn.Conv2d | nn.Linear)]
    out: dict[str, np.ndarray[Any, Any]] = {}
    for name, layer in zip(names, layers, strict=True):
        assert layer.bias is not None
        out[f"{name}/filter"] = layer.weight.detach().numpy()
        out[f"{name}/bias"] = layer.bias.detach().numpy()[None]
    return out


def quantize(images: np.ndarray[Any, Any]) -> None:
    """Write the twin of the network with weights and activations of 8 bits."""
    source, target = (str(HERE / f"digits{kind}.nnef.tgz") for kind in ("", "_int8"))
    with TemporaryDirectory() as folder:
        samples = Path(folder) / "samples.npy"
        np.save(samples, images.astype(np.float32))
        command = [sys.executable, "-m", "nnefc", "quantize", source, "-d", str(samples)]
        subprocess.run([*command, "-o", target], check=True)


def main() -> None:
    digits: Any = load_digits()
    seen, held_out, seen_labels, held_out_labels = train_test_split(
        digits.images, digits.target, test_size=450, random_state=SEED, stratify=digits.target
    )
    model = train(torch.tensor(seen / 16, dtype=torch.float32)[:, None], torch.tensor(seen_labels))
    with torch.no_grad():
        scores = model(torch.tensor(held_out / 16, dtype=torch.float32)[:, None])
    print(f"held out: {(scores.argmax(1).numpy() == held_out_labels).mean():.2%} right")
    write_container(
        HERE / "digits.nnef.tgz", graph_text=GRAPH, tensors=weights(model), overwrite=True
    )
    quantize(seen[:, None] / 16)
    save_arrays(
        HERE / "held_out.npz",
        {"images": held_out.astype(np.uint8), "labels": held_out_labels.astype(np.uint8)},
    )
    for digit in range(10):
        index = int(np.flatnonzero(held_out_labels == digit)[0])
        pixels = np.round(held_out[index] * (255 / 16)).astype(np.uint8)
        Image.fromarray(pixels).save(HERE / "images" / f"{digit}.png")


if __name__ == "__main__":
    main()
