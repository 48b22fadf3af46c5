"""A decoder like GPT-2 with random weights, whose key-value cache a session keeps.

The file has the inputs and outputs of an exported decoder: `past_key_values.0.key` and so on come
back as `present.0.key`, extended by the new tokens. onnxruntime is called with these arrays. The
session of nnefc keeps them, and appends new items in place.
"""

from __future__ import annotations

import argparse
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from network import Array, Network

import nnefc

VOCABULARY: Final = 500
LONGEST: Final = 256
WIDTH: Final = 64
HEADS: Final = 4


def causal_mask(net: Network, places: str, total: str) -> str:
    """0 where a key is not behind the query, otherwise -1e9: [queries, keys]"""
    keys = net("Range", np.int64(0), total, np.int64(1))
    is_later = net("Greater", net("Unsqueeze", keys, [0]), net("Unsqueeze", places, [1]))
    return net("Mul", net("Cast", is_later, to=1), np.float32(-1e9))


def write(path: Path, layers: int) -> Path:
    """input_ids [1, tokens], past_key_values.N.key ... -> logits, present.N.key ..."""
    net = Network()
    ids = net.input("input_ids", "int64", [1, "tokens"])
    cache = [
        [
            net.input(f"past_key_values.{i}.{kind}", "float32", [1, HEADS, "past", WIDTH // HEADS])
            for kind in ("key", "value")
        ]
        for i in range(layers)
    ]
    before = net("Squeeze", net("Slice", net("Shape", cache[0][0]), [2], [3]))
    new = net("Squeeze", net("Slice", net("Shape", ids), [1], [2]))
    total = net("Add", before, new)
    places = net("Range", before, total, np.int64(1))
    mask = causal_mask(net, places, total)
    tokens = net.embedding(ids, VOCABULARY, WIDTH)
    x = net("Add", tokens, net.embedding(places, LONGEST, WIDTH))
    for i, (past_key, past_value) in enumerate(cache):
        y = net.norm(x, WIDTH)
        q, k, v = (net.heads(y, WIDTH, HEADS) for _ in range(3))
        k = net("Concat", past_key, k, axis=2, result=f"present.{i}.key")
        v = net("Concat", past_value, v, axis=2, result=f"present.{i}.value")
        x = net("Add", x, net.attention(q, k, v, mask, WIDTH, HEADS))
        x = net("Add", x, net.feed_forward(net.norm(x, WIDTH), WIDTH))
    net("Identity", net.dense(net.norm(x, WIDTH), WIDTH, VOCABULARY), result="logits")
    net.output("logits", "float32", [1, "tokens", VOCABULARY])
    for i in range(layers):
        for kind in ("key", "value"):
            net.output(f"present.{i}.{kind}", "float32", [1, HEADS, "total", WIDTH // HEADS])
    return net.save(path)


def with_session(model: nnefc.DynamicModel, prompt: list[int], count: int) -> list[Array]:
    """Scores of each new token; the session keeps the cache."""
    session = model.session(states={"past_key_values.*": "present.*"})
    tokens, scores = prompt, list[Array]()
    for _ in range(count):
        logits = session(np.array([tokens]))
        scores.append(logits[0, -1])
        tokens = [int(scores[-1].argmax())]
    return scores


def with_arrays(session: Any, prompt: list[int], count: int) -> list[Array]:
    """The same with onnxruntime: every call takes the cache, and returns a longer one."""
    names = [each.name for each in session.get_inputs()][1:]
    cache = [np.zeros((1, HEADS, 0, WIDTH // HEADS), np.float32) for _ in names]
    tokens, scores = prompt, list[Array]()
    for _ in range(count):
        feeds = {"input_ids": np.array([tokens]), **dict(zip(names, cache, strict=True))}
        logits, *cache = session.run(None, feeds)
        scores.append(logits[0, -1])
        tokens = [int(scores[-1].argmax())]
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=20)
    options = parser.parse_args()
    ort: Any = import_module("onnxruntime")
    prompt = [7, 50, 3, 99]
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "decoder.onnx", options.layers)
        other = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        model = nnefc.compile(path)
        assert isinstance(model, nnefc.DynamicModel)  # since it has symbols
        scores = np.stack(with_session(model, prompt, options.tokens))
        wanted = np.stack(with_arrays(other, prompt, options.tokens))
        far = float(np.abs(scores - wanted).max() / np.abs(wanted).max())
        equal = int((scores.argmax(1) == wanted.argmax(1)).sum())
        print(f"{equal} of {options.tokens} tokens are equal; difference {far:.1e}")
        print(*scores.argmax(1))


if __name__ == "__main__":
    main()
