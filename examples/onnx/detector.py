"""A detector of coloured squares, whose number of results depends on the image.

The weights are made by hand, so that the network finds what is drawn. It has the parts of an
exported detector: a convolution that scores every cell, boxes that are computed from the size of
the image, `NonMaxSuppression`, and gathers of what that selects.
"""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from network import Array, Network

import nnefc

COLOURS: Final = ("red", "green", "blue")
SIDE: Final = 16
"""The side of a square in pixels."""
STRIDE: Final = 4
"""Pixels between two cells."""
MARGIN: Final = 4
"""Pixels around a square that a filter sees."""


def filters() -> Array:
    """Weights [colours, 3, y, x]: a colour inside the square, and not around it."""
    size = SIDE + 2 * MARGIN
    inside = np.pad(np.ones((SIDE, SIDE), np.float32), MARGIN)
    around = 1 - inside
    weights = np.zeros((3, 3, size, size), np.float32)
    weights[:] = -0.5 * inside / inside.sum()
    for colour in range(3):
        weights[colour, colour] = inside / inside.sum() - around / around.sum()
    return weights


def cell_centres(net: Network, scores: str, axis: int) -> str:
    """One coordinate of the centres of all cells in pixels, [h, w, 1], for scores [1, 3, h, w]."""
    extents = net("Slice", net("Shape", scores), [2], [4])
    count = net("Squeeze", net("Slice", extents, [axis], [axis + 1]))
    index = net("Cast", net("Range", np.int64(0), count, np.int64(1)), to=1)
    centres = net("Add", net("Mul", index, np.float32(STRIDE)), np.float32(STRIDE / 2))
    line = net("Reshape", centres, [-1, 1, 1] if axis == 0 else [1, -1, 1])
    return net("Expand", line, net("Concat", extents, [1], axis=0))


def write(path: Path) -> Path:
    """image [1, 3, height, width] -> boxes [found, 4], scores [found], labels [found]"""
    net = Network()
    image = net.input("image", "float32", [1, 3, "height", "width"])
    pad = (SIDE + 2 * MARGIN - STRIDE) // 2
    raw = net("Conv", image, filters(), strides=[STRIDE] * 2, pads=[pad] * 4)
    sure = net("Sigmoid", net("Mul", net("Sub", raw, np.float32(0.4)), np.float32(20)))
    rows, columns = cell_centres(net, raw, 0), cell_centres(net, raw, 1)
    centres = net("Concat", rows, columns, axis=2)
    half = np.float32(SIDE / 2)
    corners = net("Concat", net("Sub", centres, half), net("Add", centres, half), axis=2)
    boxes = net("Reshape", corners, [1, -1, 4])
    by_class = net("Reshape", sure, [1, len(COLOURS), -1])
    # Rows (batch, class, box) of what is selected: their number is known after the call.
    selected = net(
        "NonMaxSuppression", boxes, by_class, np.int64(20), np.float32(0.3), np.float32(0.5)
    )
    at = net("Squeeze", net("Slice", selected, [2], [3], [1]), [1])
    net("Gather", net("Squeeze", boxes, [0]), at, axis=0, result="boxes")
    net("GatherND", by_class, selected, result="scores")
    net("Squeeze", net("Slice", selected, [1], [2], [1]), [1], result="labels")
    net.output("boxes", "float32", ["found", 4])
    net.output("scores", "float32", ["found"])
    net.output("labels", "int64", ["found"])
    return net.save(path)


def draw(seed: int, height: int, width: int) -> tuple[Array, set[tuple[int, int, int]]]:
    """An image with squares on a noisy ground, and (label, row, column) of their corners."""
    rng = np.random.default_rng(seed)
    image = rng.random((1, 3, height, width), np.float32) * np.float32(0.2)
    drawn = set[tuple[int, int, int]]()
    for row in range(0, height - 31, 32):
        for column in range(0, width - 31, 32):
            label = int(rng.integers(-2, 3))
            if label < 0:
                continue
            y, x = row + int(rng.integers(0, 12)), column + int(rng.integers(0, 12))
            image[0, :, y : y + SIDE, x : x + SIDE] = 0
            image[0, label, y : y + SIDE, x : x + SIDE] = 1
            drawn.add((label, y, x))
    return image, drawn


def placed(boxes: Array, labels: Array, drawn: set[tuple[int, int, int]]) -> set[Any]:
    """The drawn squares that have a box of their colour within two pixels."""
    return {
        square
        for square in drawn
        for (y, x, *_), label in zip(boxes.tolist(), labels.tolist(), strict=True)
        if label == square[0] and max(abs(y - square[1]), abs(x - square[2])) <= 2
    }


def main() -> None:
    ort: Any = import_module("onnxruntime")
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "detector.onnx")
        other = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        model = nnefc.compile(path)
        print(model)
        for seed, height, width in ((0, 96, 128), (1, 64, 64), (2, 160, 96)):
            image, drawn = draw(seed, height, width)
            boxes, scores, labels = model(image)
            wanted = other.run(["boxes", "scores", "labels"], {"image": image})
            far = max(
                float(np.abs(a - b).max(initial=0))
                for a, b in zip((boxes, scores, labels), wanted, strict=True)
            )
            print(f"image of {height} x {width}: difference {far:.1e}")
            for box, score, label in zip(boxes, scores, labels, strict=True):
                print(f"  {COLOURS[label]} at {box.tolist()}, score {score:.2f}")
            correct = len(placed(boxes, labels, drawn))
            print(f"  {len(drawn)} drawn, {len(boxes)} found, {correct} of them where they are")


if __name__ == "__main__":
    main()
