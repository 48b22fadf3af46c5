"""A model with most kinds of tables, and damaged copies of it."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.helpers.mutations import damaged_copies
from tests.helpers.tflite.write import model, operator, operator_code, subgraph, tensor, write


def rich_tables() -> dict[str, Any]:
    """The tables of a valid model with a convolution, weights, codes and a signature."""
    rng = np.random.default_rng(0)
    weights = [
        rng.standard_normal((4, 3, 3, 2)).astype(np.float32),
        rng.standard_normal(4).astype(np.float32),
        np.array([1, 100], np.int32),
        rng.standard_normal((6, 100)).astype(np.float32),
        np.array([1, 2, 3], np.int8),
    ]
    codes = [
        operator_code("CONV_2D"),
        operator_code("RESHAPE"),
        operator_code("FULLY_CONNECTED"),
        operator_code("SOFTMAX"),
    ]
    per_channel = {"scale": (0.5, 0.25, 1.0), "zero_point": (0, 0, 0), "quantized_dimension": 0}
    tensors = [
        tensor((1, 5, 5, 2), name="x", shape_signature=(-1, 5, 5, 2)),
        tensor((4, 3, 3, 2), name="filter", buffer=1),
        tensor((4,), name="bias", buffer=2),
        tensor((1, 5, 5, 4), name="y"),
        tensor((2,), "INT32", name="shape", buffer=3),
        tensor((1, 100), name="flat"),
        tensor((6, 100), name="matrix", buffer=4),
        tensor((1, 6), name="z"),
        tensor((1, 6), name="out"),
        tensor((3,), "INT8", name="codes", buffer=5, quantization=per_channel),
    ]
    operators = [
        operator(0, (0, 1, 2), (3,), "Conv2DOptions", stride_w=1, stride_h=1),
        operator(1, (3, 4), (5,), "ReshapeOptions", new_shape=(1, 100)),
        operator(2, (5, 6, -1), (7,), "FullyConnectedOptions"),
        operator(3, (7,), (8,), "SoftmaxOptions", beta=1.0),
    ]
    signature = {
        "inputs": ({"name": "image", "tensor_index": 0},),
        "outputs": ({"name": "scores", "tensor_index": 8},),
        "signature_key": "serving_default",
        "subgraph_index": 0,
    }
    return model(
        codes,
        [subgraph(tensors, operators, (0,), (8,))],
        [each.tobytes() for each in weights],
        description="rich",
        metadata=({"name": "labels", "buffer": 5},),
        signature_defs=(signature,),
    )


def rich_model() -> bytes:
    """`rich_tables` as a file."""
    return write(rich_tables())


def mutations(data: bytes, seed: int, count: int) -> Iterator[bytes]:
    """Copies of `data` with bytes changed, inserted, removed or repeated."""
    return damaged_copies(data, seed, count, _mutate)


def _mutate(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    match rng.randrange(6):
        case 0:
            data[at] = rng.randrange(256)
        case 1:
            data[at] ^= 1 << rng.randrange(8)
        case 2:
            data[at : at + 4] = rng.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)).to_bytes(
                4, "little"
            )
        case 3 if len(data) > 40:
            del data[at : at + rng.randrange(1, 20)]
        case 4:
            other = rng.randrange(len(data))
            size = rng.randrange(1, 16)
            data[at : at + size] = data[other : other + size]
        case _:
            word = at & ~3
            data[word : word + 4] = rng.randrange(-64, 2 * len(data)).to_bytes(
                4, "little", signed=True
            )


_INTEGERS = (0, 1, -1, 2, 3, 7, 100, 127, -128, 1000, 1 << 20, (1 << 31) - 1, -(1 << 31))
_FLOATS = (0.0, -1.0, math.inf, math.nan, 1e38)


def alterations(tables: dict[str, Any], seed: int, count: int) -> Iterator[bytes]:
    """Files of a model in which one to three fields have other values, or are gone or repeated."""
    rng = random.Random(seed)
    made = 0
    while made < count:
        changed = copy.deepcopy(tables)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            _alter(changed, rng)
        try:
            content = write(changed)
        except (TypeError, ValueError, OverflowError, KeyError):  # a number that the field lacks
            continue
        made += 1
        yield content


def _alter(table: dict[str, Any], rng: random.Random) -> None:
    """Change a field of a table, or of one below it, in place."""
    if not table:
        return
    name = rng.choice(list(table))
    value: Any = table[name]
    if isinstance(value, dict):
        _alter(value, rng)  # pyright: ignore[reportUnknownArgumentType]
    elif _is_union(value):
        _alter(value[1], rng)
    elif isinstance(value, tuple) and _has_tables(value) and rng.random() < 0.8:
        _alter(rng.choice(value), rng)  # pyright: ignore[reportUnknownArgumentType]
    else:
        table[name] = _other(value, rng)


def _is_union(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)  # pyright: ignore


def _has_tables(value: Any) -> bool:
    return bool(value) and isinstance(value[0], dict)


def _other(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bytes):
        return value[: rng.randrange(len(value) + 1)] + bytes(rng.randrange(5))
    if isinstance(value, tuple):
        items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        at = rng.randrange(len(items)) if items else 0
        match rng.randrange(4):
            case 0:
                return ()
            case 1 if items:
                del items[at]
            case 2 if items and isinstance(items[0], int | float):
                items[at] = _other(items[at], rng)
            case _:
                items[at:at] = items[at : at + 1]
        return tuple(items)
    if isinstance(value, float):
        return rng.choice(_FLOATS)
    if isinstance(value, str):
        return rng.choice(("", "\0", "no such name"))
    return rng.choice(_INTEGERS)
