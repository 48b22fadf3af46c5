"""An encoder of text as BERT's, with random weights, for texts of any length and in batches.

The function `classify` runs with a session of onnxruntime and with one of nnefc: only the line that
makes the session differs.
"""

from __future__ import annotations

import argparse
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from network import Array, Network

from nnefc.onnx import InferenceSession

LETTERS: Final = 256
"""The tokens are the bytes of a text."""
LONGEST: Final = 512
CLASSES: Final = ("question", "statement", "order")
WIDTH: Final = 64
HEADS: Final = 4


def write(path: Path, layers: int) -> Path:
    """input_ids, attention_mask [batch, tokens] -> logits [batch, classes]"""
    net = Network()
    ids = net.input("input_ids", "int64", ["batch", "tokens"])
    keep = net.input("attention_mask", "int64", ["batch", "tokens"])
    length = net("Squeeze", net("Slice", net("Shape", ids), [1], [2]))
    places = net("Range", np.int64(0), length, np.int64(1))
    letters = net.embedding(ids, LETTERS, WIDTH)
    x = net.norm(net("Add", letters, net.embedding(places, LONGEST, WIDTH)), WIDTH)
    hidden = net("Sub", np.float32(1), net("Cast", net("Unsqueeze", keep, [1, 2]), to=1))
    mask = net("Mul", hidden, np.float32(-1e9))
    for _ in range(layers):
        q, k, v = (net.heads(x, WIDTH, HEADS) for _ in range(3))
        attended = net.attention(q, k, v, mask, WIDTH, HEADS)
        x = net.norm(net("Add", x, attended), WIDTH)
        x = net.norm(net("Add", x, net.feed_forward(x, WIDTH)), WIDTH)
    first = net("Gather", x, np.int64(0), axis=1)
    pooled = net("Tanh", net.dense(first, WIDTH, WIDTH))
    net("Identity", net.dense(pooled, WIDTH, len(CLASSES)), result="logits")
    net.output("logits", "float32", ["batch", len(CLASSES)])
    return net.save(path)


def classify(session: Any, texts: list[str]) -> Array:
    """Scores [texts, classes]; shorter texts are padded, and the mask hides the padding."""
    tokens = [list(text.encode()) for text in texts]
    longest = max(map(len, tokens))
    ids = np.array([each + [0] * (longest - len(each)) for each in tokens])
    keep = np.array([[1] * len(each) + [0] * (longest - len(each)) for each in tokens])
    (logits,) = session.run(["logits"], {"input_ids": ids, "attention_mask": keep})
    return logits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=2)
    options = parser.parse_args()
    ort: Any = import_module("onnxruntime")
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "classifier.onnx", options.layers)
        other = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        session = InferenceSession(path, providers=["CPUExecutionProvider"])
        print(*session.get_inputs(), sep="\n")
        for texts in (
            ["Where is it?"],
            ["It lies on the table."],
            ["Where is it?", "It lies on the table.", "Take it!"],
        ):
            scores, wanted = classify(session, texts), classify(other, texts)
            far = float(np.abs(scores - wanted).max() / np.abs(wanted).max())
            print(f"{len(texts)} texts: difference {far:.1e}")
            for text, best in zip(texts, scores.argmax(1), strict=True):
                print(f"  {text} {CLASSES[best]} (weights are random)")


if __name__ == "__main__":
    main()
