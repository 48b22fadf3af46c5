"""Writes artifacts: chooses the form in which arrays are stored, and builds the manifest."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import numpy as np

from nnefc.kernels.codegen import Image
from nnefc.packing.inverse import restorable
from nnefc.program.packed_weight import PackedWeight
from nnefc.runtime.artifact.build import Array, ArraySlice, Constant, PackedArray, TargetBuild
from nnefc.runtime.artifact.file import Piece
from nnefc.runtime.artifact.writer import Writer
from nnefc.runtime.memory.tensors import TensorSpec, can_hold_addresses
from nnefc.runtime.plan.launch_info import total_work
from nnefc.support.package import PACKING_VERSION

_MAX_EXCESS_BYTES: Final = 1 << 20
"""Bytes by which all packings together may exceed the arrays, plus 1 / _EXCESS_SHARE of these."""
_EXCESS_SHARE: Final = 32
_MAX_TABLE_BYTES: Final = 1 << 14
"""Larger constants that are not derived from the graph are stored as weights, not in the head."""


@dataclass(frozen=True, slots=True, eq=False)
class StateVariable:
    """A variable that the graph updates."""

    label: str
    initial: Array
    current: Array


@dataclass(frozen=True, slots=True, eq=False)
class PortableModel:
    """The parts of a model that do not depend on the processor."""

    name: str
    version: str
    """The version of nnefc."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    ir: str
    """The text of the graph; large constants are named, not included."""
    arrays: Mapping[str, Array]
    """The arrays that the graph names, each contiguous."""
    states: Sequence[StateVariable]
    options: Mapping[str, Any]
    """Options of lowering."""

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays: the least size of the file."""
        return sum(array.nbytes for array in self.arrays.values())


def write_artifact(file: BinaryIO, model: PortableModel, builds: Sequence[TargetBuild]) -> None:
    """Write an artifact.

    Arrays are stored as the packings of the first build where possible.  Other packings, and those
    of further builds, are computed when the artifact is loaded (`weight_cache`).
    """
    writer = Writer(file)
    arrays = list(model.arrays.values())
    stored = _StoredArrays(writer, arrays)
    for number, packings in _choose_packed(arrays, builds[:1]).items():
        stored.pack(number, packings)
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
                "now": writer.head(state.current),
            }
            for state in model.states
        ],
        "targets": targets,
        "arrays": [
            {"name": name, "dtype": array.dtype.name, "shape": array.shape, **stored.location(i)}
            for i, (name, array) in enumerate(model.arrays.items())
        ],
    }
    content["ir"] = writer.head(model.ir.encode())
    writer.finish(content)


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "dtype": spec.dtype.name, "shape": spec.shape}


def _choose_packed(
    arrays: Sequence[Array], builds: Sequence[TargetBuild]
) -> dict[int, list[PackedArray]]:
    """The arrays to store as packings, by number; the array can be restored from its packings.

    Arrays whose packings have the least padding are chosen first, up to the limit.
    """
    packings: defaultdict[int, list[PackedArray]] = defaultdict(list)
    unpacked: set[int] = set()
    for constant in (c for build in builds for c in build.constants):
        if isinstance(constant, PackedArray):
            packings[constant.array].append(constant)
        elif isinstance(constant, ArraySlice):
            unpacked.add(constant.array)
    room = _MAX_EXCESS_BYTES + sum(array.nbytes for array in arrays) // _EXCESS_SHARE
    excesses: dict[int, int] = {}
    for number, group in packings.items():
        array = arrays[number]
        if number not in unpacked and restorable(array.size, [each.packed for each in group]):
            excesses[number] = sum(each.nbytes for each in group) - array.nbytes
    chosen: dict[int, list[PackedArray]] = {}
    for number, excess in sorted(excesses.items(), key=lambda pair: pair[1]):
        if excess > room:
            break
        room -= excess
        chosen[number] = packings[number]
    return chosen


class _StoredArrays:
    """Stores arrays and their packings in a file, each once."""

    def __init__(self, writer: Writer, arrays: Sequence[Array]) -> None:
        self._writer = writer
        self._arrays = arrays
        self._whole: dict[int, dict[str, Piece]] = {}
        self._pieces: dict[PackedArray, Piece] = {}
        self._packings: dict[int, list[PackedArray]] = {}

    def pack(self, number: int, packings: Sequence[PackedArray]) -> None:
        """Store an array as these packings."""
        self._packings[number] = list(packings)
        for each in packings:
            source = each.packed.view.of(self._arrays[number])
            items = PackedWeight(source, each.packed.packing, each.packed.parameters).array()
            self._pieces[each] = self._writer.weights(items)

    def whole(self, number: int) -> dict[str, Piece]:
        """The location of an unpacked array, which is stored on the first request."""
        if number not in self._whole:
            self._whole[number] = self.put(self._arrays[number])
        return self._whole[number]

    def put(self, array: Array, head_bytes: int = 0) -> dict[str, Piece]:
        """Store an array, as weights if it has more than `head_bytes` and cannot hold addresses."""
        if not can_hold_addresses(array.dtype) and array.nbytes > head_bytes:
            return {"weights": self._writer.weights(array)}
        return {"head": self._writer.head(np.ascontiguousarray(array))}

    def location(self, number: int) -> dict[str, Any]:
        """The manifest's entry for the location of an array."""
        packings = self._packings.get(number)
        if packings is None:
            return self.whole(number)
        return {"packed": [self.packing(each) for each in packings]}

    def packing(self, each: PackedArray) -> dict[str, Any]:
        """The manifest's entry for a packing; its location only if it is stored."""
        packed = each.packed
        entry = {
            "array": each.array,
            "view": packed.view,
            "packing": packed.packing,
            "parameters": packed.parameters,
            **({"dtype": packed.dtype} if packed.dtype else {}),
        }
        piece = self._pieces.get(each)
        return entry if piece is None else {**entry, "weights": piece}

    def constant(self, constant: Constant) -> dict[str, Any]:
        """The manifest's entry for a constant."""
        if isinstance(constant, PackedArray):
            return self.packing(constant)
        if isinstance(constant, ArraySlice):
            ((kind, (offset, _)),) = self.whole(constant.array).items()
            return {kind: (offset + constant.offset, constant.nbytes)}
        return self.put(constant, _MAX_TABLE_BYTES)


def _target(writer: Writer, build: TargetBuild, stored: _StoredArrays) -> dict[str, Any]:
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
