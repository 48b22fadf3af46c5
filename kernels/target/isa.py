"""Instruction sets: the facts about the machine that code generation uses.

A kernel never tests for an architecture by name.  It reads vector length, number of registers,
register tile and intrinsics from one of these rows.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Collection, Mapping
from functools import cache
from typing import Final, NamedTuple

from nnefc.kernels.target.processor import (
    arm_features,
    grants_matrices,
    has_half_units,
    x86_features,
)
from nnefc.support.errors import NnefError

NATIVE: Final = "native"
"""Value of `Isa.cpu`: the processor of this machine with all of its features."""


class Isa(NamedTuple):
    """An instruction set: options for LLVM, and features that kernels may use."""

    name: str
    triple: str
    """LLVM target triple; the object format is ELF on every system, as `codegen.linker` expects."""
    cpu: str
    """LLVM processor, i.e. scheduling model and base features, or `NATIVE`."""
    vector_bits: int
    """Width of the vectors that kernels emit."""
    registers: int
    """Architectural vector registers."""
    tile: tuple[int, int]
    """Rows x vectors of the dense register tile (fits the registers without spilling)."""
    pause: str
    """Intrinsic for a spin-wait hint."""
    permute: str
    """Intrinsic that permutes lanes or bytes of one or two vectors: `vector.permute`."""
    features: str = ""
    """LLVM feature string, in addition to the features of the processor."""
    fma: bool = True
    """Whether a multiply-add is one instruction that rounds once."""
    exact_fma: bool = False
    """Whether multiply-adds of float32 round once without such an instruction; for kernels that are
    `exact`."""
    float16: bool = True
    """Whether one instruction converts a vector of float16 to float32 or back."""
    halves: bool = False
    """Whether arithmetic on half a vector takes half the time of a whole vector."""
    reciprocal: str = ""
    """Intrinsic for reciprocals of float32 with an error below 2**-14, or empty.  Takes a vector,
    another for the lanes that a mask leaves out, and the mask, an integer."""
    lookup: str = ""
    """Intrinsic that looks up 16 lanes of a vector by the low four bits of indices, or empty."""
    byte_pairs: str = ""
    """Intrinsic that multiplies unsigned with signed bytes and adds pairs of products in 16 bits,
    or empty."""
    pair_products: str = ""
    """Intrinsic that multiplies 16-bit integers and adds pairs of products in 32 bits, or empty."""
    packs: str = ""
    """Intrinsics that saturate two vectors of signed integers to half the bits, quarter by quarter
    of 128 bits, or empty.  {} stands for the types: ssdw, uswb or sswb."""
    byte_shuffle: str = ""
    """Intrinsic that looks up bytes in a vector of 16 bytes, or in four of them (`tbl4`), or empty
    where that takes longer than byte by byte."""
    short_shuffle: str = ""
    """Intrinsic that looks up 16 bytes in one vector of 16 bytes, or in two of them (`tbl2`); an
    index with its highest bit set gives 0."""
    byte_permute: str = ""
    """Intrinsic that looks up bytes in two whole vectors, or empty.  It is an optional extension,
    which `host` sets."""
    codes: str = "uint8"
    """Item type of the codes that `byte_dot` multiplies with int8."""
    byte_dot: str = ""
    """Intrinsic that adds groups of four products of bytes to 32 bits, or empty.  It is an optional
    extension, which `host` and `variants` set."""
    byte_squares: str = ""
    """Intrinsic that multiplies two rows of eight codes with two columns of int8 and adds the
    products to 2 x 2 sums of 32 bits, or empty.  It is an optional extension, which `host` and
    `variants` set."""
    bfloat16_dot: str = ""
    """Intrinsic that adds pairs of products of bfloat16 to float32, or empty.  It is an optional
    extension, which `variants` sets, and `host` where it is faster than products of float32.  On
    Intel's processors `vdpbf16ps` takes two cycles: half as many products as of float32."""
    float16_fma: str = ""
    """Intrinsic for multiply-adds of vectors of float16, twice as many per instruction as of
    float32, or empty.  It is an optional extension, which `host` and `variants` set."""
    bfloat16_squares: str = ""
    """Intrinsic that multiplies two rows of four bfloat16 with two columns and adds the products to
    2 x 2 sums of float32, or empty.  All processors of the row with `bfloat16_dot` have it."""
    pair_sums: str = ""
    """Intrinsic that adds neighbouring float16 of two vectors, or empty."""
    matrix_dot: str = ""
    """Intrinsic of LLVM, after `llvm.x86.`, that multiplies registers of 16 rows of bfloat16, or
    empty.  It is an optional extension, which `host` and `variants` set."""
    matrix_byte_dot: str = ""
    """As `matrix_dot`, for codes of the type `codes` and int8."""

    @property
    def llvm_features(self) -> str:
        """`features`, and the features that the optional extensions need."""
        optional = (f"+{feature}" for feature in self.extensions)
        return ",".join(filter(None, [self.features, *optional]))

    @property
    def extensions(self) -> list[str]:
        """LLVM's names of the features that optional fields need."""
        return [
            extension.feature
            for extension in EXTENSIONS
            if extension.row == self.name and getattr(self, extension.field) == extension.intrinsic
        ]

    @property
    def adds_beside_products(self) -> bool:
        """Whether vectors of integers are added in units beside those that multiply them: on
        AMD's processors since Zen 4.
        """
        return self.halves

    @property
    def float32_lanes(self) -> int:
        """float32 items of one vector."""
        return self.vector_bits // 32


_X86 = "x86_64-unknown-linux-gnu"

X86_64_V2 = Isa(
    name="x86-64-v2",
    triple=_X86,
    cpu="x86-64-v2",
    vector_bits=128,
    registers=16,
    fma=False,
    float16=False,
    tile=(6, 2),
    pause="llvm.x86.sse2.pause",
    permute="llvm.x86.ssse3.pshuf.b.128",
    byte_pairs="llvm.x86.ssse3.pmadd.ub.sw.128",
    pair_products="llvm.x86.sse2.pmadd.wd",
    packs="llvm.x86.sse2.pack{}.128",
    short_shuffle="llvm.x86.ssse3.pshuf.b.128",
)
"""SSE4.2: the oldest x86-64 that is supported (every processor since 2009)."""
X86_64_V3 = X86_64_V2._replace(
    name="x86-64-v3",
    cpu="x86-64-v3",
    vector_bits=256,
    fma=True,
    float16=True,
    permute="llvm.x86.avx2.permps",
    byte_pairs="llvm.x86.avx2.pmadd.ub.sw",
    pair_products="llvm.x86.avx2.pmadd.wd",
    packs="llvm.x86.avx2.pack{}",
    byte_shuffle="llvm.x86.avx2.pshuf.b",
)
"""AVX2 and FMA."""
X86_64_V4 = X86_64_V3._replace(
    name="x86-64-v4",
    cpu="x86-64-v4",
    # LLVM avoids 512-bit registers on many processors by default.
    features="-prefer-256-bit",
    vector_bits=512,
    registers=32,
    tile=(8, 3),
    permute="llvm.x86.avx512.vpermi2var.ps.512",
    reciprocal="llvm.x86.avx512.rcp14.ps.512",
    lookup="llvm.x86.avx512.permvar.sf.512",
    byte_pairs="llvm.x86.avx512.pmaddubs.w.512",
    pair_products="llvm.x86.avx512.pmaddw.d.512",
    packs="llvm.x86.avx512.pack{}.512",
    byte_shuffle="llvm.x86.avx512.pshuf.b.512",
)
"""AVX-512 F, BW, CD, DQ, VL."""
X86_64_V4_256 = X86_64_V4._replace(
    name="x86-64-v4-256",
    features="",
    vector_bits=256,
    registers=16,
    tile=(6, 2),
    permute="llvm.x86.avx512.vpermi2var.ps.256",
    reciprocal="llvm.x86.avx512.rcp14.ps.256",
    lookup="",
    byte_pairs="llvm.x86.avx2.pmadd.ub.sw",
    pair_products="llvm.x86.avx2.pmadd.wd",
    packs=X86_64_V3.packs,
    byte_shuffle=X86_64_V3.byte_shuffle,
)
"""AVX-512 with vectors of 256 bits, for processors on which vectors of 512 bits are no faster."""
AARCH64 = Isa(
    name="aarch64",
    triple="aarch64-unknown-linux-gnu",
    cpu="generic",
    vector_bits=128,
    registers=32,
    tile=(8, 3),
    pause="llvm.aarch64.hint",
    permute="llvm.aarch64.neon.tbl2.v16i8",
    byte_shuffle="llvm.aarch64.neon.tbl4.v16i8",
    short_shuffle="llvm.aarch64.neon.tbl2.v16i8",
    codes="int8",
    bfloat16_squares="llvm.aarch64.neon.bfmmla",
    pair_sums="llvm.aarch64.neon.faddp.v8f16",
)
"""NEON."""
TABLE = {isa.name: isa for isa in (X86_64_V2, X86_64_V3, X86_64_V4_256, X86_64_V4, AARCH64)}


class _Extension(NamedTuple):
    """An extension with an intrinsic for an optional field of `Isa`."""

    row: str
    feature: str
    """LLVM's name."""
    field: str
    intrinsic: str


MATRICES: Final = {"matrix_dot": "amx-bf16", "matrix_byte_dot": "amx-int8"}
"""Fields for matrix registers, which Linux may refuse, and their features."""
EXTENSIONS: Final = (
    _Extension("x86-64-v3", "avxvnni", "byte_dot", "llvm.x86.avx512.vpdpbusd.256"),
    _Extension("x86-64-v4-256", "avx512vnni", "byte_dot", "llvm.x86.avx512.vpdpbusd.256"),
    _Extension("x86-64-v4-256", "avx512bf16", "bfloat16_dot", "llvm.x86.avx512bf16.dpbf16ps.256"),
    _Extension("x86-64-v4", "avx512vnni", "byte_dot", "llvm.x86.avx512.vpdpbusd.512"),
    _Extension("x86-64-v4", "avx512bf16", "bfloat16_dot", "llvm.x86.avx512bf16.dpbf16ps.512"),
    _Extension("x86-64-v4", MATRICES["matrix_dot"], "matrix_dot", "tdpbf16ps"),
    _Extension("x86-64-v4", MATRICES["matrix_byte_dot"], "matrix_byte_dot", "tdpbusd"),
    _Extension("aarch64", "dotprod", "byte_dot", "llvm.aarch64.neon.sdot.v4i32.v16i8"),
    _Extension("aarch64", "fullfp16", "float16_fma", "llvm.fma.v8f16"),
    _Extension("aarch64", "bf16", "bfloat16_dot", "llvm.aarch64.neon.bfdot.v4f32.v8bf16"),
    _Extension("aarch64", "i8mm", "byte_squares", "llvm.aarch64.neon.smmla.v4i32.v16i8"),
)
"""By row; a processor with one of them has those before it."""
BUILD: Final = "build:"
"""Prefix of NNEFC_ISA in a process that compiles for a row without running the code.  The name of
the row may be that of one of its `variants`."""


def row_of(name: str) -> Isa:
    """The row of that name; raises NnefError `input/option` for an unknown name."""
    if name not in TABLE:
        raise NnefError.of(
            "input/option",
            f"unknown instruction set {name!r}",
            hint=f"one of {', '.join(TABLE)}, or {NATIVE} for this processor",
        )
    return TABLE[name]


def variants(row: Isa) -> dict[str, Isa]:
    """The row, and those with the optional fields of other processors, by name.

    Processors with `halves` are those of AMD since Zen 4, which have `bfloat16_dot`.
    """
    rows, name, extended = {row.name: row}, row.name, row
    for extension in EXTENSIONS:
        if extension.row == row.name:
            extended = _with(extended, extension)
            name = f"{name}+{extension.feature}"
            rows[name] = extended
            if row is X86_64_V4 and extension.field == "bfloat16_dot":
                rows[f"{name}+halves"] = extended._replace(halves=True)
    return rows


def _with(row: Isa, extension: _Extension) -> Isa:
    """The row with the field of an extension."""
    return row._replace(**{extension.field: extension.intrinsic})


def environment_value(isa: Isa) -> str:
    """The value of NNEFC_ISA with which another process compiles for `isa` as this one does."""
    own = os.environ.get("NNEFC_ISA", "")
    if own.startswith(BUILD):
        return own
    if isa.cpu == NATIVE:
        return ""
    named = (name for name, row in variants(row_of(isa.name)).items() if row == isa)
    return next(named, isa.name)


@cache
def host() -> Isa:
    """The row for this machine, tuned for its processor and with all of its extensions.

    `NNEFC_ISA` may name another of the `variants` that this machine can execute, for tests and
    comparisons; its code does not depend on the processor.  In a process that only compiles for
    other machines it may name any of them, see `BUILD`.

    Raises NnefError `input/environment` if `NNEFC_ISA` names no such row, and `internal/machine` if
    no row fits this machine.
    """
    wanted = os.environ.get("NNEFC_ISA", "")
    if wanted.startswith(BUILD):
        name = wanted.removeprefix(BUILD)
        return variants(row_of(name.partition("+")[0])).get(name) or row_of(name)
    if sys.byteorder != "little" or sys.maxsize < 1 << 32:
        raise _unsupported("a 64-bit little-endian processor")
    row = _row()
    if wanted:
        return _named(wanted, _able(row, _features(row)))
    halves = row is X86_64_V4 and has_half_units()
    permutes = row is X86_64_V4 and "avx512vbmi" in _features(row)
    extended = _extended(row)
    slower = [] if halves or row is AARCH64 else ["bfloat16_dot"]
    # A field that this module reads would be part of the keys of all kernels.
    matrices = not set(MATRICES.values()).isdisjoint(extended.extensions)
    refused = MATRICES if matrices and not grants_matrices() else ()
    return extended._replace(
        cpu=NATIVE,
        halves=halves,
        byte_permute="llvm.x86.avx512.vpermi2var.qi.512" if permutes else "",
        **dict.fromkeys((*slower, *refused), ""),
    )


def executable() -> list[Isa]:
    """The rows whose code runs on this machine, best first; the first is `host()`."""
    best = host()
    able = [isa for isa in TABLE.values() if isa.triple == best.triple]
    names = [isa.name for isa in able]
    return [best, *reversed(able[: names.index(best.name)])]


def executable_variants() -> dict[str, Isa]:
    """The `variants` of rows whose code runs on this machine, by name, oldest first."""
    row = _row()
    return _able(row, _features(row))


def _able(best: Isa, features: Collection[str]) -> dict[str, Isa]:
    """The variants that a machine with the row `best` and these features can execute."""
    rows = [isa for isa in TABLE.values() if isa.triple == best.triple]
    named: dict[str, Isa] = {}
    for row in rows[: rows.index(best) + 1]:
        named |= variants(row)
    return {name: isa for name, isa in named.items() if set(isa.extensions) <= set(features)}


def _named(name: str, able: Mapping[str, Isa]) -> Isa:
    """The row `name` of those that this machine can execute."""
    if name in able:
        return able[name]
    raise NnefError.of(
        "input/environment",
        f"NNEFC_ISA is {name!r}; this machine can execute {', '.join(able)}",
        hint="leave NNEFC_ISA out for the newest of them",
    )


def _row() -> Isa:
    machine = platform.machine().lower()
    if machine in ("aarch64", "arm64"):
        return AARCH64
    if machine not in ("x86_64", "amd64"):
        raise _unsupported("x86-64 or aarch64")
    features = x86_features()
    if {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= features:
        return X86_64_V4
    if {"avx2", "fma", "f16c", "bmi2", "lzcnt", "movbe"} <= features:
        return X86_64_V3
    if {"sse4.1", "sse4.2", "popcnt"} <= features:
        return X86_64_V2
    raise _unsupported("x86-64 with SSE4.2")


def _features(row: Isa) -> set[str]:
    """The features of this processor, whose row is `row`."""
    return arm_features() if row is AARCH64 else x86_features()


def _extended(row: Isa) -> Isa:
    """The row with the extensions of this machine."""
    features = _features(row)
    for extension in EXTENSIONS:
        if extension.row == row.name and extension.feature in features:
            row = _with(row, extension)
    return row


def _unsupported(needed: str) -> NnefError:
    return NnefError.of(
        "internal/machine",
        f"no code generation for this machine ({platform.machine()}); needed: {needed}",
    )
