"""Damaged ONNX files: a model with most kinds of messages, its mutations, and what they may do."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.message import Message
from onnx import ModelProto, TensorProto, helper

from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits
from tests.helpers import imports
from tests.helpers.mutations import damaged_copies
from tests.helpers.onnx.models import model, node, tensor, weight

LIMITS = Limits(tensor_bytes=1 << 24, steps=5000)
"""Small enough that nothing large is allocated for a valid model."""


def rich_model() -> ModelProto:
    """A valid model with symbols, weights, external data, a function, an If and a Loop."""
    rng = np.random.default_rng(0)
    then = helper.make_graph(
        [node("Relu", ["h"], ["t"])], "then", [], [tensor("t", ["N", 8])], [weight("u", [1, 2])]
    )
    other = helper.make_graph([node("Identity", ["h"], ["e"])], "else", [], [tensor("e", ["N", 8])])
    body = helper.make_graph(
        [
            node("Identity", ["go"], ["on"]),
            node("Add", ["sum", "b"], ["next"], name="step"),
        ],
        "body",
        [tensor("i", [], TensorProto.INT64), tensor("go", [], TensorProto.BOOL), tensor("sum", [])],
        [tensor("on", [], TensorProto.BOOL), tensor("next", None)],
    )
    function = helper.make_function(
        "own",
        "Scale",
        ["a"],
        ["s"],
        [
            helper.make_node("Constant", [], ["f"], value=weight("", np.float32(2))),
            helper.make_node("Mul", ["a", "f"], ["s"], name="scale"),
        ],
        [helper.make_opsetid("", 17)],
    )
    outside = TensorProto(name="b", data_type=TensorProto.FLOAT, dims=[8])
    outside.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", "offset": "64", "length": "32"}.items():
        outside.external_data.add(key=key, value=value)
    typed = helper.make_tensor("typed", TensorProto.FLOAT, [8], [0.5] * 8)
    return model(
        [
            node("MatMul", ["x", "w"], ["m"], name="product"),
            node("Add", ["m", "b"], ["h0"], name="sum"),
            node("Scale", ["h0"], ["h"], name="call", domain="own"),
            node("If", ["yes"], ["c"], name="choice", then_branch=then, else_branch=other),
            node("Loop", ["three", "", "c"], ["l"], name="turns", body=body),
            node("Shape", ["l"], ["shape"]),
            node("Gather", ["shape", "zero"], ["rows"], axis=0),
            node("Unsqueeze", ["rows", "axes"], ["row_list"]),
            node("Concat", ["row_list", "rest"], ["to"], axis=0),
            node("Reshape", ["l", "to"], ["r"], name="reshape"),
            node("Add", ["r", "typed"], ["y"], name="last"),
        ],
        [tensor("x", ["N", 16])],
        [tensor("y", ["N", 8])],
        [
            weight("w", rng.standard_normal((16, 8)).astype(np.float32)),
            outside,
            typed,
            weight("yes", np.bool_(True)),
            weight("three", np.int64(3)),
            weight("zero", np.int64(0)),
            weight("axes", np.array([0], np.int64)),
            weight("rest", np.array([-1, 8][1:], np.int64)),
        ],
        functions=[function],
        domains=["own"],
    )


def write_external(folder: Path) -> None:
    """Write the file with the external data of `rich_model`."""
    (folder / "w.bin").write_bytes(np.arange(40, dtype=np.float32).tobytes())


def import_or_refuse(path: Path) -> NnefError | None:
    """Import a damaged file for sample shapes; the error, or None if it is valid."""
    return imports.import_or_refuse(path, LIMITS)


def mutations(data: bytes, seed: int, count: int) -> Iterator[bytes]:
    """Copies of `data` with bytes changed, inserted, removed, swapped or repeated."""
    return damaged_copies(data, seed, count, _mutate)


def _mutate(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    match rng.randrange(7):
        case 0:
            data[at] = rng.randrange(256)
        case 1:
            data[at] ^= 1 << rng.randrange(8)
        case 2:
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        case 3:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 5)))
        case 4 if len(data) > 40:
            del data[at : at + rng.randrange(1, 20)]
        case 5:
            other = rng.randrange(len(data))
            size = rng.randrange(1, 16)
            data[at : at + size] = data[other : other + size]
        case _:
            data[at : at + 1] = b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"


INTEGERS = (0, 1, -1, 2, 3, 7, 100, -100, 1 << 31, -(1 << 31), 1 << 40, (1 << 63) - 1, -(1 << 63))
FLOATS = (0.0, -1.0, math.inf, -math.inf, math.nan, 1e38)


def alterations(model: ModelProto, seed: int, count: int) -> Iterator[ModelProto]:
    """Copies of a model in which one to three fields have other values, or are gone or repeated."""
    rng = random.Random(seed)
    texts = sorted({str(at.value) for at in _places(model) if isinstance(at.value, str)})
    for _ in range(count):
        changed = ModelProto()
        changed.CopyFrom(model)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            _alter(rng.choice(list(_places(changed))), texts, rng)
        yield changed


class _Place(NamedTuple):
    """A value in a message: of a field, or of an item of a repeated field."""

    message: Any
    field: str
    value: Any
    position: int | None
    values: tuple[int, ...]
    """The numbers of an enumeration."""


def _places(message: Message) -> Iterator[_Place]:
    for field, value in message.ListFields():
        enum = tuple(field.enum_type.values_by_number) if field.enum_type else ()
        single = isinstance(value, str | bytes | int | float | Message)
        for i, each in enumerate([value] if single else value):
            yield _Place(message, field.name, each, None if single else i, enum)
            if isinstance(each, Message):
                yield from _places(each)


def _alter(at: _Place, texts: list[str], rng: random.Random) -> None:
    """Change a value in place."""
    items = getattr(at.message, at.field)
    if at.position is not None and rng.randrange(3) == 0:
        if rng.randrange(2):
            del items[at.position]
        else:
            items.extend([at.value] * rng.randrange(1, 3))
        return
    if isinstance(at.value, Message):
        if at.position is None:
            at.message.ClearField(at.field)
        else:
            items[at.position].CopyFrom(rng.choice(list(items)))
        return
    if isinstance(at.value, str):
        new: Any = rng.choice([*texts, "", "\0", "no such name"])
    elif isinstance(at.value, bytes):
        new = at.value[: rng.randrange(len(at.value) + 1)] + bytes(rng.randrange(5))
    elif isinstance(at.value, float):
        new = rng.choice(FLOATS)
    elif at.values:
        new = rng.choice(at.values)
    else:
        new = rng.choice(INTEGERS)
    try:
        if at.position is None:
            setattr(at.message, at.field, new)
        else:
            items[at.position] = new
    except ValueError:  # the field has 32 bits
        return
