"""Builds and arrays into the file of an artifact: what is stored, and in which form."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import numpy as np

from nnefc.kernels.abi import PACKING_VERSION, Image
from nnefc.packing.inverse import restorable
from nnefc.program.packed_weight import PackedWeight
from nnefc.runtime.artifact.build import Array, ArraySlice, Constant, PackedArray, TargetBuild
from nnefc.runtime.artifact.file import Piece
from nnefc.runtime.artifact.writer import Writer
from nnefc.runtime.memory.tensors import TensorSpec, can_hold_addresses
from nnefc.runtime.plan.launch_info import total_work

_ROOM: Final = 1 << 20
"""Bytes by which packed forms may be larger than the arrays, all together, and beside a ..."""
_SHARE: Final = 32
"""... part of the weights."""
_TABLE: Final = 1 << 14
"""Bytes of an array of numbers that is not the graph's which is in the head."""


@dataclass(frozen=True, slots=True, eq=False)
class StateVariable:
    """A variable that the graph updates."""

    label: str
    initial: Array
    now: Array


@dataclass(frozen=True, slots=True, eq=False)
class PortableModel:
    """A model without code: what does not depend on the processor."""

    name: str
    version: str
    """Of nnefc."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    ir: str
    """The graph, its large constants by name."""
    arrays: Mapping[str, Array]
    """What the graph names, each in one piece of memory."""
    states: Sequence[StateVariable]
    options: Mapping[str, Any]
    """How it is to be lowered."""

    @property
    def nbytes(self) -> int:
        """Bytes that a file of it takes at least."""
        return sum(array.nbytes for array in self.arrays.values())


def write_artifact(file: BinaryIO, model: PortableModel, builds: Sequence[TargetBuild]) -> None:
    """Write an artifact.  Constants of the first build are stored as kernels read them, of those
    that follow only what the first one has too.
    """
    writer = Writer(file)
    arrays = list(model.arrays.values())
    stored = _Stored(writer, arrays)
    for number, pieces in _packed(arrays, builds[:1]).items():
        stored.pack(number, pieces)
    targets = [_target(writer, build, stored) for build in builds]
    content: dict[str, Any] = {
        "name": model.name,
        "nnefc": model.version,
        "packing": PACKING_VERSION,
        "inputs": [_tensor(spec) for spec in model.inputs],
        "outputs": [_tensor(spec) for spec in model.outputs],
        "options": dict(model.options),
        "states": [
            {
                "label": state.label,
                "dtype": state.initial.dtype.name,
                "shape": state.initial.shape,
                "initial": writer.head(state.initial),
                "now": writer.head(state.now),
            }
            for state in model.states
        ],
        "targets": targets,
        "arrays": [
            {"name": name, "dtype": array.dtype.name, "shape": array.shape, **stored.place(i)}
            for i, (name, array) in enumerate(model.arrays.items())
        ],
    }
    content["ir"] = writer.head(model.ir.encode())
    writer.finish(content)


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "dtype": spec.dtype.name, "shape": spec.shape}


def _packed(arrays: Sequence[Array], builds: Sequence[TargetBuild]) -> dict[int, list[PackedArray]]:
    """The arrays that are stored as the packings of a build, which give them back.

    Those that are filled up with the fewest zeros come first, as far as there is room.
    """
    pieces: defaultdict[int, list[PackedArray]] = defaultdict(list)
    read: set[int] = set()
    for constant in (c for build in builds for c in build.constants):
        if isinstance(constant, PackedArray):
            pieces[constant.array].append(constant)
        elif isinstance(constant, ArraySlice):
            read.add(constant.array)
    room = _ROOM + sum(array.nbytes for array in arrays) // _SHARE
    larger: dict[int, int] = {}
    for number, packings in pieces.items():
        array = arrays[number]
        if number not in read and restorable(array.size, [each.packed for each in packings]):
            larger[number] = sum(each.nbytes for each in packings) - array.nbytes
    chosen: dict[int, list[PackedArray]] = {}
    for number, excess in sorted(larger.items(), key=lambda pair: pair[1]):
        if excess > room:
            break
        room -= excess
        chosen[number] = pieces[number]
    return chosen


class _Stored:
    """Where arrays are in the file, and packings of them."""

    def __init__(self, writer: Writer, arrays: Sequence[Array]) -> None:
        self._writer = writer
        self._arrays = arrays
        self._whole: dict[int, dict[str, Piece]] = {}
        self._pieces: dict[PackedArray, Piece] = {}
        self._packings: dict[int, list[PackedArray]] = {}

    def pack(self, number: int, packings: Sequence[PackedArray]) -> None:
        """Store an array as these packings of it."""
        self._packings[number] = list(packings)
        for each in packings:
            source = each.packed.view.of(self._arrays[number])
            made = PackedWeight(source, each.packed.packing, each.packed.parameters).array()
            self._pieces[each] = self._writer.weights(made)

    def whole(self, number: int) -> dict[str, Piece]:
        """Where an array is, which is stored as it is."""
        if number not in self._whole:
            self._whole[number] = self.put(self._arrays[number])
        return self._whole[number]

    def put(self, array: Array, table: int = 0) -> dict[str, Piece]:
        """Store an array: numbers that are more bytes than `table` are weights."""
        if not can_hold_addresses(array.dtype) and array.nbytes > table:
            return {"weights": self._writer.weights(array)}
        return {"head": self._writer.head(np.ascontiguousarray(array))}

    def place(self, number: int) -> dict[str, Any]:
        """Of an array, for the manifest."""
        packings = self._packings.get(number)
        if packings is None:
            return self.whole(number)
        return {"packed": [self.packing(each) for each in packings]}

    def packing(self, each: PackedArray) -> dict[str, Any]:
        """Of a packing; where it is only if it is stored so."""
        packed = each.packed
        found = {
            "array": each.array,
            "view": packed.view,
            "packing": packed.packing,
            "parameters": packed.parameters,
            **({"dtype": packed.dtype} if packed.dtype else {}),
        }
        piece = self._pieces.get(each)
        return found if piece is None else {**found, "weights": piece}

    def constant(self, constant: Constant) -> dict[str, Any]:
        """Of a constant."""
        if isinstance(constant, PackedArray):
            return self.packing(constant)
        if isinstance(constant, ArraySlice):
            ((kind, (offset, _)),) = self.whole(constant.array).items()
            return {kind: (offset + constant.offset, constant.nbytes)}
        return self.put(constant, _TABLE)


def _target(writer: Writer, build: TargetBuild, stored: _Stored) -> dict[str, Any]:
    plan = build.plan
    return {
        "isa": build.isa,
        "cpu": build.cpu,
        "interface": build.interface,
        "code": writer.head(build.image.code),
        "native": [_image(writer, image) for image in build.native],
        "launches": writer.head(plan.launches),
        "launch_of": writer.head(plan.launch_of),
        "params": writer.head(plan.params),
        "table": plan.table,
        "arena": (plan.arena_bytes, plan.arena_lower_bound),
        "parallel": plan.parallel,
        "states": build.states,
        "infos": writer.head(_json(_infos(build))),
        "work": total_work(build.launches),
        "constants": [stored.constant(constant) for constant in build.constants],
        "constant_bytes": sum(constant.nbytes for constant in build.constants),
    }


def _image(writer: Writer, image: Image) -> dict[str, Any]:
    return {"code": writer.head(image.code), "symbols": image.symbols}


def _infos(build: TargetBuild) -> Iterator[tuple[Any, ...]]:
    for info in build.launches:
        work = info.work
        yield info.label, info.kernel, info.tiles, work.flops, work.read, work.written, info.times


def _json(values: Iterator[Any]) -> bytes:
    return json.dumps(list(values)).encode()
