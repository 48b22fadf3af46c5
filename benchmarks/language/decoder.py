"""A decoder like Llama: its sizes, its weights, and a call of it as a document in tract's dialect.

A call takes tokens after earlier ones, whose keys and values are inputs: a step is one token after
many, a prompt many tokens after none.

Weights are products of 4-bit codes and scales of a few bits, so that all storage types hold the
same numbers, and the results of engines can be compared.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from nnefc.formats.tensor_header import TensorHeader
from nnefc.formats.tract_items import NO_WIDTH, VENDOR

Array = np.ndarray[Any, Any]

EPSILON: Final = 1e-5
BLOCK: Final = 32
BLOCKS: Final = {"q4_0": 0x3040, "q8_1": 0x3081}
"""Codes of tract's types of blocks."""
STORED: Final = {"float32": 4.0, "float16": 2.0, "q4_0": 18 / 32, "q8_1": 36 / 32}
"""Bytes of a weight, by storage type."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a decoder; the embedding table is also the matrix of the last layer."""

    layers: int = 12
    width: int = 768
    heads: int = 12
    hidden: int = 2048
    vocabulary: int = 32000

    @property
    def head(self) -> int:
        return self.width // self.heads

    def matrices(self) -> dict[str, tuple[int, int]]:
        """Shapes [outputs, inputs] of matrices by label."""
        width, hidden = self.width, self.hidden
        shapes = {"table": (self.vocabulary, width)}
        for i in range(self.layers):
            shapes |= {f"layer{i}/{name}": (width, width) for name in ("q", "k", "v", "o")}
            shapes |= {f"layer{i}/{name}": (hidden, width) for name in ("gate", "up")}
            shapes[f"layer{i}/down"] = (width, hidden)
        return shapes

    def gains(self) -> list[str]:
        """Labels of the gains of the normalisations."""
        names = [f"layer{i}/{name}" for i in range(self.layers) for name in ("before", "between")]
        return [*names, "last"]

    def weight_bytes(self, stored: str) -> float:
        """Bytes of weights that a step reads: all matrices, the table once."""
        return sum(math.prod(shape) for shape in self.matrices().values()) * STORED[stored]


def codes(label: str, shape: tuple[int, int]) -> tuple[Array, Array]:
    """Random (4-bit codes [rows, columns], scales [rows, columns / 32]) of a matrix."""
    rng = np.random.default_rng(zlib.crc32(label.encode()))
    rows, columns = shape
    unit = 2.0 ** round(-math.log2(6.3 * math.sqrt(columns)))
    scales = rng.integers(4, 8, (rows, columns // BLOCK)) / 4 * unit
    return rng.integers(0, 16, shape, np.uint8), scales.astype(np.float16)


def matrix(label: str, shape: tuple[int, int]) -> Array:
    """The float32 items of a matrix."""
    items, scales = codes(label, shape)
    return (items - np.float32(8)) * np.repeat(scales.astype(np.float32), BLOCK, 1)


def gain(label: str, width: int) -> Array:
    rng = np.random.default_rng(zlib.crc32(label.encode()))
    return rng.uniform(0.5, 1.5, (1, width)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Call:
    """`count` tokens after `past` others; `count` must be 1 if `past` is not 0."""

    past: int
    count: int = 1
    stateful: bool = False
    """Whether keys and values are states of the model; otherwise they are inputs."""

    def __post_init__(self) -> None:
        if self.past and self.count > 1:
            raise ValueError(f"{self.count} tokens after {self.past}")

    def __str__(self) -> str:
        """The name of the call in file names."""
        return f"prompt_{self.count}" if self.count > 1 else str(self.past)


def inputs(sizes: Sizes, call: Call) -> dict[str, Array]:
    """Tokens, the rotations of their positions, and the keys and values of earlier tokens."""
    positions = np.arange(call.past, call.past + call.count)[:, None]
    angles = positions / 10000.0 ** (np.arange(sizes.head // 2) * 2 / sizes.head)
    angles = np.concatenate([angles, angles], axis=1)[None, None]
    arrays: dict[str, Array] = {
        "token": (sizes.vocabulary // 3 + 7 * np.arange(call.count)) % sizes.vocabulary,
        "cosine": np.cos(angles).astype(np.float32),
        "sine": np.sin(angles).astype(np.float32),
    }
    return arrays if call.stateful else arrays | caches(sizes, call)


def caches(sizes: Sizes, call: Call) -> dict[str, Array]:
    """Keys and values of earlier tokens."""
    rng = np.random.default_rng(call.past)
    shape = (1, sizes.heads, call.past, sizes.head)
    names = [f"{x}{i}" for i in range(sizes.layers) for x in ("keys", "values")]
    return {name: rng.standard_normal(shape, np.float32) for name in names if call.past}


def outputs(sizes: Sizes) -> list[str]:
    """Names of the outputs: scores of the next token, and new keys and values."""
    return ["scores", *(f"{x}{i}" for i in range(sizes.layers) for x in ("key", "value"))]


def document(sizes: Sizes, call: Call, stored: str) -> str:
    """The document of a call; float16 weights are cast to float32."""
    head = f"graph decoder({', '.join(inputs(sizes, call))}) -> ({', '.join(outputs(sizes))})"
    registries = [f"extension tract_registry tract_{name};" for name in ("core", "transformers")]
    body = "\n".join(f"    {line};" for line in _lines(sizes, call, stored))
    return "\n".join(["version 1.0;", *registries, head, "{", body, "}", ""])


def _lines(sizes: Sizes, call: Call, stored: str) -> Iterator[str]:
    external = "tract_core_external(shape = {}, datum_type = '{}')".format
    for name, x in inputs(sizes, call).items():
        yield f"{name} = {external(list(x.shape), 'i64' if name == 'token' else 'f32')}"
    for label, shape in sizes.matrices().items():
        name, kind = _identifier(label), "" if stored in BLOCKS else "<scalar>"
        weight = f"variable{kind}(label = '{label}', shape = {list(shape)})"
        if stored == "float16":
            weight = f"tract_core_cast({weight}, to = 'f32')"
        yield f"{name} = {weight}"
    for label in sizes.gains():
        shape = [1, sizes.width]
        yield f"{_identifier(label)} = variable<scalar>(label = '{label}', shape = {shape})"
    yield "x = tract_core_gather(table, token, axis = 0, datum_type = 'f32')"
    for i in range(sizes.layers):
        yield from _attention(sizes, call, i)
        yield f"m{i} = {_normalised('x', f'layer{i}/between')}"
        yield f"g{i} = linear(m{i}, layer{i}_gate)"
        yield f"h{i} = g{i} * sigmoid(g{i}) * linear(m{i}, layer{i}_up)"
        yield f"x = x + linear(h{i}, layer{i}_down)"
    last = f"slice(x, axes = [0], begin = [{call.count - 1}], end = [{call.count}])"
    yield f"y = {_normalised(last if call.count > 1 else 'x', 'last')}"
    yield "scores = linear(y, table)"


def _normalised(x: str, label: str) -> str:
    return f"tract_core_rms_norm({x}, axis = 1, eps = {EPSILON}) * {_identifier(label)}"


def _attention(sizes: Sizes, call: Call, i: int) -> Iterator[str]:
    """The attention of a layer; with one token, splitting heads needs no transpose."""
    heads, head, count = sizes.heads, sizes.head, call.count
    yield f"n{i} = {_normalised('x', f'layer{i}/before')}"
    for name in "qkv":
        split = f"linear(n{i}, layer{i}_{name}), shape = [1, {count}, {heads}, {head}]"
        transposed = f"transpose(reshape({split}), axes = [0, 2, 1, 3])"
        reshaped = f"reshape(linear(n{i}, layer{i}_{name}), shape = [1, {heads}, 1, {head}])"
        yield f"{name}{i} = {transposed if count > 1 else reshaped}"
    yield f"query{i} = tract_transformers_apply_rope(q{i}, cosine, sine)"
    yield f"key{i} = tract_transformers_apply_rope(k{i}, cosine, sine)"
    yield f"value{i} = copy(v{i})"
    operands = f"query{i}, key{i}, value{i}"
    if call.past:
        for x in ("key", "value"):
            joined = f"concat([{x}s{i}, {x}{i}], axis = 2)"
            cached = f"tract_transformers_dyn_kv_cache({x}{i}, name = '{x}s{i}', axis = 2)"
            yield f"all_{x}s{i} = {cached if call.stateful else joined}"
        operands = f"query{i}, all_keys{i}, all_values{i}"
    causal = "true" if count > 1 else "false"
    types = f"datum_type = 'f32', acc_datum_type = 'f32', is_causal = {causal}"
    yield f"a{i} = tract_transformers_sdpa({operands}, {types})"
    merged = f"transpose(a{i}, axes = [0, 2, 1, 3])" if count > 1 else f"a{i}"
    yield f"x = x + linear(reshape({merged}, shape = [{count}, {sizes.width}]), layer{i}_o)"


def _identifier(label: str) -> str:
    return label.replace("/", "_")


def write(folder: Path, sizes: Sizes, call: Call, stored: str) -> None:
    """Write a folder of NNEF; existing files of weights are reused."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "graph.nnef").write_text(document(sizes, call, stored))
    for label, shape in sizes.matrices().items():
        path = folder / f"{label}.dat"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(_tensor(label, shape, stored))
    for label in sizes.gains():
        path = folder / f"{label}.dat"
        if not path.exists():
            path.write_bytes(_floats(gain(label, sizes.width)))


def _tensor(label: str, shape: tuple[int, int], stored: str) -> bytes:
    """The content of a tensor file."""
    if stored not in BLOCKS:
        return _floats(matrix(label, shape).astype(stored))
    data, code = blocks(label, shape, stored), BLOCKS[stored]
    header = TensorHeader(
        data_length=data.nbytes, shape=shape, bits=NO_WIDTH, code=code, vendor=VENDOR
    )
    return header.pack() + data.tobytes()


def blocks(label: str, shape: tuple[int, int], stored: str) -> Array:
    """The bytes of the blocks of a matrix, [rows, blocks of a row, bytes of a block].

    Codes of 8 bits use their whole range, as those of quantizers do.
    """
    items, scales = codes(label, shape)
    if stored == "q8_1":
        items, scales = (items - np.uint8(8)) * np.uint8(16), scales / np.float16(16)
    items = items.reshape(shape[0], -1, BLOCK)
    data = np.zeros((*items.shape[:2], round(STORED[stored] * BLOCK)), np.uint8)
    data[..., :2] = scales.astype("<f2")[..., None].view(np.uint8)
    if stored == "q4_0":
        data[..., 2:] = items[..., : BLOCK // 2] | items[..., BLOCK // 2 :] << 4
    else:
        data[..., 4:] = items
    return data


def _floats(array: Array) -> bytes:
    bits = 8 * array.itemsize
    header = TensorHeader(data_length=array.nbytes, shape=array.shape, bits=bits, code=0)
    return header.pack() + array.tobytes()
