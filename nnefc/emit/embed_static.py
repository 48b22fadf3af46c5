"""A build as an object file: code, plan, small constants, and the functions of C programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import numpy as np

from nnefc.emit.constants import ConstantPlacer, ObjectData
from nnefc.emit.features import required_features
from nnefc.emit.header import TENSOR, Interface, Tensor
from nnefc.kernels.codegen import Image
from nnefc.kernels.codegen.linker import link
from nnefc.kernels.codegen.object_file import MACHINES, Reference, Section, Symbol, object_file
from nnefc.kernels.embedded import functions, libc, model_layout
from nnefc.kernels.embedded.model_layout import (
    DIMS,
    MODEL,
    PIECE,
    STATE,
    STATUS,
    TABLE,
    UNKNOWN_STATUS,
)
from nnefc.kernels.target.isa import AARCH64, X86_64_V2
from nnefc.kernels.target.isa import TABLE as ROWS
from nnefc.runtime.artifact.build_static import CodeBuild, TargetBuild
from nnefc.runtime.compile.compile_unit import Function
from nnefc.runtime.compile.kernel_compiler import object_code_for
from nnefc.runtime.compile.support_code import SUPPORT_MODULES
from nnefc.runtime.run.team import SPINS, SYSTEM_CALLS
from nnefc.support.alignment import ALIGNMENT

Array = np.ndarray[Any, Any]

_PAGE: Final = 4096
_BASELINES: Final = {"x86_64": X86_64_V2, "aarch64": AARCH64}
"""Instruction sets of the functions of C programs, which check the processor's features."""

_SYSTEM_CALLS: Final = "futex", "setaffinity", "getaffinity", "gettid", "yield"
"""Words of `MODEL` with the numbers of `SYSTEM_CALLS`."""

# Instructions that LLVM IR lacks: CPUID(leaf, subleaf, result), XGETBV(result).
_CPUID: Final = bytes.fromhex(
    "53"  # push rbx
    "4989d0"  # mov r8, rdx
    "89f8"  # mov eax, edi
    "89f1"  # mov ecx, esi
    "0fa2"  # cpuid
    "418900"  # mov [r8], eax
    "41895804"  # mov [r8 + 4], ebx
    "41894808"  # mov [r8 + 8], ecx
    "4189500c"  # mov [r8 + 12], edx
    "5b"  # pop rbx
    "c3"  # ret
)
_XGETBV: Final = bytes.fromhex(
    "31c9"  # xor ecx, ecx
    "0f01d0"  # xgetbv
    "8907"  # mov [rdi], eax
    "895704"  # mov [rdi + 4], edx
    "c3"  # ret
)


@dataclass(frozen=True, slots=True)
class EmbeddedObject:
    """The bytes of an object file, and whether it needs the file of weights."""

    object: bytes
    has_weights: bool


def embedded_object(
    build: TargetBuild,
    arrays: Sequence[Array],
    states: Sequence[Array],
    interface: Interface,
    file: BinaryIO,
) -> EmbeddedObject:
    """The object file of a build; its weights are written to `file`.

    arrays: of the graph.  states: the initial values, in the order of the build.
    """
    machine = machine_of(build)
    code, entry_points = link_code(build, interface, machine)
    data = ObjectData(MODEL.nbytes)
    constants = ConstantPlacer(file, data, arrays)
    plan, table = build.plan, build.plan.table
    pieces = [
        PIECE.pack(in_weights=w, offset=at) for w, at in map(constants.place, build.constants)
    ]
    rows, end = _state_rows(states, constants, aligned_to(TABLE + 8 * table.size, ALIGNMENT))
    arena = aligned_to(end, _PAGE)
    weights = constants.finish()
    words = MODEL.pack(
        **common_words(build, interface, data, machine),
        **entry_points,
        weights=weights,
        block=aligned_to(arena + plan.arena_bytes, _PAGE),
        first_constant=table.constants,
        constants=len(build.constants),
        constant_table=data.words([word for row in pieces for word in row]),
        first_state=table.states,
        states=len(rows),
        state_table=data.words([word for row in rows for word in row]),
        first_input=table.inputs,
        arena=arena,
        launches=data.words(plan.launches.reshape(-1).tolist()),
        launch_count=len(plan.launches),
        params=data.words(plan.params.tolist()),
        parallel=plan.parallel,
        **dict.fromkeys(_OF_SYMBOLS, 0),
    )
    return EmbeddedObject(object_of(code, data, words, interface, machine), any(weights))


_OF_SYMBOLS: Final = (
    *("symbols", "parameters", "sessions", "session_table", "patterns", "pattern_table"),
    *("registers", "own_params", "own_launches", "dims", "own_values"),
)
"""Fields of `MODEL` for models with symbols."""


def machine_of(build: CodeBuild) -> str:
    """The architecture of a build, as triples name it."""
    return ROWS[build.isa].triple.partition("-")[0]


def common_words(
    build: CodeBuild, interface: Interface, data: ObjectData, machine: str
) -> dict[str, Any]:
    """Fields of `MODEL` that do not depend on the plan."""
    return {
        "features": required_features(build),
        **dict(zip(_SYSTEM_CALLS, SYSTEM_CALLS[machine])),
        "spins": SPINS,
        "inputs": len(interface.inputs),
        "outputs": len(interface.outputs),
        "texts": [data.add(f"{text}\0".encode(), 1) for text in _texts(build)],
    }


def _texts(build: CodeBuild) -> list[str]:
    """The messages of a model; that of a wrong processor names the extensions it needs."""
    texts = dict(STATUS)
    if build.extensions:
        texts["PROCESSOR"] += f" ({build.isa} with {', '.join(build.extensions)})"
    return [*texts.values(), UNKNOWN_STATUS]


def object_of(
    code: LinkedCode,
    data: ObjectData,
    words: Sequence[int | None],
    interface: Interface,
    machine: str,
) -> bytes:
    """The object file; `words`: of `MODEL`, which begin the data."""
    symbols = _tensor_tables(interface, data)
    data.bytes[: MODEL.nbytes] = np.array(words, np.int64).tobytes()
    symbols.append(Symbol(model_layout.DATA, ".rodata", 0, MODEL.nbytes))
    sections = [
        Section(".text", bytes(code.bytes), _PAGE, executable=True, references=code.references),
        Section(".rodata", bytes(data.bytes), ALIGNMENT),
    ]
    return object_file(MACHINES[machine], sections, [*code.symbols, *symbols])


def link_code(
    build: CodeBuild, interface: Interface, machine: str
) -> tuple[LinkedCode, dict[str, int]]:
    """All code of a model, and the offsets in it that fields of `MODEL` hold, by field."""
    code = LinkedCode()
    code.add(build.image)
    executor = code.add(build.native[SUPPORT_MODULES.index("executor")])
    baseline = _BASELINES[machine]
    every = (*functions.FUNCTIONS, *(functions.SHAPE_FUNCTIONS if interface.has_symbols else ()))
    objects = [object_code_for(Function(*each), baseline) for each in every]
    exported = {name: f"{interface.name}_{name}" for name in interface.functions}
    code.add(link(objects, libc.EXTERNAL), exported)
    x86 = machine == "x86_64"
    return code, {
        "cpuid": code.add(Image(_CPUID, {"nnefc_cpuid": 0}))["nnefc_cpuid"] if x86 else 0,
        "xgetbv": code.add(Image(_XGETBV, {"nnefc_xgetbv": 0}))["nnefc_xgetbv"] if x86 else 0,
        "alone": executor["nnefc_run_alone"],
        "together": executor["nnefc_run_together"],
        "work": executor["nnefc_work"],
    }


class LinkedCode:
    """Concatenated images, each starting at a page as `linker` expects."""

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.symbols = [Symbol(model_layout.CODE, ".text", 0, 0)]
        self.references: list[Reference] = []

    def add(self, image: Image, exported: dict[str, str] | None = None) -> dict[str, int]:
        """Append an image; returns the offsets of its symbols.

        `exported`: global names of symbols; others stay local.
        """
        self.bytes += bytes(-len(self.bytes) % _PAGE)
        start = len(self.bytes)
        self.bytes += image.code
        ends = sorted([*image.symbols.values(), len(image.code)])
        for name, offset in image.symbols.items():
            size = next((end for end in ends if end > offset), offset) - offset
            external = (exported or {}).get(name)
            is_exported = external is not None
            self.symbols.append(
                Symbol(external or name, ".text", start + offset, size, exported=is_exported)
            )
        self.references += [
            Reference(start + r.place, r.kind, r.symbol, r.addend) for r in image.references
        ]
        return {name: start + offset for name, offset in image.symbols.items()}


def _state_rows(
    states: Sequence[Array], constants: ConstantPlacer, offset: int
) -> tuple[list[list[int]], int]:
    """The rows of the table of states, and the end of the states in a model's memory block.

    `states`: the initial values; `offset`: the begin of the states in the block.
    """
    rows: list[list[int]] = []
    for initial in states:
        in_weights, at = constants.place(initial)
        rows.append(
            STATE.pack(in_weights=in_weights, offset=at, nbytes=initial.nbytes, place=offset)
        )
        offset = aligned_to(offset + initial.nbytes, ALIGNMENT)
    return rows, offset


def _tensor_tables(interface: Interface, data: ObjectData) -> list[Symbol]:
    """Add the tables that describe inputs, outputs and states to `data`; returns their symbols."""
    symbols: list[Symbol] = []
    for name, tensors in interface.tables.items():
        if tensors:
            at = data.add(b"".join(map(_tensor, tensors)))
            symbols.append(Symbol(name, ".rodata", at, TENSOR.size * len(tensors), exported=True))
    return symbols


def aligned_to(at: int, alignment: int) -> int:
    return -(-at // alignment) * alignment


def _tensor(tensor: Tensor) -> bytes:
    """The bytes of a `NAME_tensor`, see `header`."""
    spec = tensor.spec
    dims = [*spec.shape, *[1] * (DIMS - len(spec.shape))]
    return TENSOR.pack(
        tensor.label, tensor.type.number, len(spec.shape), tensor.items, tensor.nbytes, *dims
    )
