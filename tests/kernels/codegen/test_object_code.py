"""Object code, the linker and executable memory."""

from __future__ import annotations

import ctypes
import struct
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.kernels.codegen import Image
from nnefc.kernels.codegen.linker import link
from nnefc.kernels.codegen.object_code import emit, emit_assembly
from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.target.isa import TABLE, host
from nnefc.kernels.vector.memory import LOAD, STORE, bits_float64, copysign, float64_bits, helper
from nnefc.runtime.compile.executable_memory import ExecutableImage
from nnefc.runtime.compile.kernel_compiler import compile_functions, compile_kernels
from nnefc.support.errors import NnefError
from tests.helpers.examples import examples

_load, _store = LOAD["int64"], STORE["int64"]


@helper
def _twice(x: int) -> int:
    return x + x


def plus(a: int, b: int) -> int:
    return _twice(a) + b


def fill(address: int, count: int, value: int) -> None:
    for i in range(count):
        _store(address, i, value)


def copy_words(x: int, y: int, count: int) -> None:
    for i in range(count):
        _store(y, i, _load(x, i))


def sign_of(x: int) -> int:
    """A function that needs a constant in memory on most machines."""
    return float64_bits(copysign(3.25, bits_float64(x)))


def _undefined(data: bytes) -> set[str]:
    """Names of undefined symbols, by a reader of ELF that is independent of the linker."""
    (start,) = struct.unpack_from("<Q", data, 0x28)
    names: set[str] = set()
    for i in range(struct.unpack_from("<H", data, 0x3C)[0]):
        head = struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * i)
        if head[1] != 2:
            continue
        strings = struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * head[6])[4]
        for at in range(head[4] + 24, head[4] + head[5], 24):
            name, _, _, section = struct.unpack_from("<IBBH", data, at)
            if section == 0:
                names.add(data[strings + name : data.index(b"\0", strings + name)].decode())
    return names


@pytest.mark.slow
@pytest.mark.parametrize("isa", TABLE.values(), ids=lambda isa: isa.name)
@pytest.mark.parametrize("function", [plus, fill, copy_words, sign_of])
def test_objects_are_clean(function: object, isa: object) -> None:
    data = emit(function, "f", isa)  # type: ignore[arg-type]
    assert _undefined(data) == set()
    image = link([data])
    assert list(image.symbols) == ["f"]


def test_functions_run() -> None:
    code = compile_functions([("plus", plus), ("fill", fill), ("sign", sign_of)])
    word = ctypes.c_int64
    assert ctypes.CFUNCTYPE(word, word, word)(code.entry("plus"))(20, 2) == 42
    x = np.arange(5)
    ctypes.CFUNCTYPE(None, *[word] * 3)(code.entry("fill"))(x.ctypes.data, 3, -1)
    assert x.tolist() == [-1, -1, -1, 3, 4]
    bits = struct.unpack("<q", struct.pack("<d", -1.0))[0]
    got = ctypes.CFUNCTYPE(word, word)(code.entry("sign"))(bits)
    assert struct.unpack("<d", struct.pack("<q", got))[0] == -3.25


def test_loops_vectorise_for_every_instruction_set() -> None:
    wide = {"x86-64-v2": "xmm", "x86-64-v3": "ymm", "x86-64-v4": "zmm", "aarch64": "q0"}
    for name, register in wide.items():
        assert register in emit_assembly(fill, "f", TABLE[name]), name


def test_compile_errors() -> None:
    def wrong(a: int) -> int:
        return a + "text"  # type: ignore[operator]

    with pytest.raises(NnefError, match="cannot compile wrong") as caught:
        emit(wrong, "wrong", host())
    assert caught.value.errors[0].rule == "internal/code-generation"
    assert "numba" in caught.value.errors[0].hint


# -- the linker against objects made by hand


def elf(
    *,
    machine: int = 62,
    code: bytes = b"\x90" * 16,
    flags: int = 6,
    symbols: tuple[tuple[str, int, int, int], ...] = (("f", 1, 1, 0),),
    relocations: tuple[tuple[int, int, int, int], ...] = (),
    data: bytes = b"",
    data_flags: int = 2,
    data_type: int = 1,
) -> bytes:
    """An object with sections .text (1) and .data (2); symbols are (name, binding, section, value).

    Relocations are of .text: (offset, symbol, kind, addend).
    """
    strings = b"\0" + b"".join(name.encode() + b"\0" for name, *_ in symbols)
    table, at = bytes(24), 1
    for name, binding, section, value in symbols:
        table += struct.pack("<IBBHQQ", at, binding << 4, 0, section, value, 0)
        at += len(name) + 1
    fixes = b"".join(struct.pack("<QQq", o, s << 32 | k, a) for o, s, k, a in relocations)
    parts = [
        (1, flags, code, 0, 0, 16),
        (data_type, data_flags, data, 0, 0, 8),
        (2, 0, table, 4, 1, 8),
        (3, 0, strings, 0, 0, 1),
        (4, 0, fixes, 3, 1, 8),
    ]
    body, heads = b"", bytes(64)
    for type_, flag, content, link_, info, alignment in parts:
        body += bytes(-len(body) % 16)
        at = 64 + len(body)
        heads += struct.pack(
            "<IIQQQQIIQQ", 0, type_, flag, 0, at, len(content), link_, info, alignment, 0
        )
        body += content
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack(
        "<HHIQQQIHHHHHH", 1, machine, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, 6, 4
    )
    return head + body + heads


def word_at(image: Image, at: int) -> int:
    return struct.unpack_from("<i", image.code, at)[0]


def test_relative_references() -> None:
    image = link(
        [
            elf(symbols=(("f", 1, 1, 0), ("g", 1, 0, 0)), relocations=((4, 2, 4, -4),)),
            elf(symbols=(("g", 1, 1, 8),), data=b"constant"),
        ]
    )
    assert image.symbols == {"f": 0, "g": 24}
    assert word_at(image, 4) == 24 - 4 - 4
    assert image.code[32:40] == b"constant"


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ([elf(symbols=(("f", 1, 1, 0), ("exp", 1, 0, 0)), relocations=((0, 2, 2, 0),))], "exp"),
        ([elf(), elf()], "defined twice"),
        ([elf(data=b"x" * 8, data_flags=3)], "writable data"),
        ([elf(data=b"x" * 8, data_type=8)], "writable data"),
        ([elf(symbols=(("f", 1, 0xFFF2, 4),))], "writable data"),
        ([elf(symbols=(("f", 1, 0xFFF1, 4),))], "absolute"),
        ([elf(symbols=(("f", 1, 1, 17),))], "not in code"),
        ([elf(relocations=((0, 1, 1, 0),))], "not relative"),
        ([elf(relocations=((14, 1, 2, 0),))], "outside its section"),
        ([elf(relocations=((0, 9, 2, 0),))], "malformed"),
        ([elf(machine=40)], "machine 40"),
        ([elf(), elf(machine=183, symbols=(("g", 1, 1, 0),))], "different machines"),
        ([b"\x7fELF"], "not a 64-bit"),
        ([b""], "not a 64-bit"),
        ([elf()[:80]], "malformed"),
    ],
)
def test_objects_that_cannot_be_linked(objects: list[bytes], message: str) -> None:
    with pytest.raises(NnefError, match=message) as caught:
        link(objects)
    assert caught.value.errors[0].rule == "internal/link"


@examples(2)
@given(st.data())
def test_broken_objects_never_crash_the_linker(data: st.DataObject) -> None:
    good = bytearray(elf(relocations=((4, 1, 2, -4),), data=b"constant"))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(good)))
    try:
        link([bytes(good[: cut or None])])
    except NnefError as error:
        assert error.errors[0].rule == "internal/link"


def test_aarch64_relocations() -> None:
    """Instructions encoded by the architecture manual, with references resolved by hand."""
    adrp, add, ldr_q, call = 0x90000000, 0x91000000, 0x3DC00000, 0x94000000
    code = struct.pack("<4I", adrp, add, ldr_q, call)
    padding = bytes(0x5000 - 16)
    image = link(
        [
            elf(
                machine=183,
                code=code + padding,
                data=bytes(64),
                symbols=(("f", 1, 1, 0), ("data", 0, 2, 0x20)),
                relocations=((0, 2, 275, 0), (4, 2, 277, 0), (8, 2, 299, 0), (12, 1, 283, 0)),
            )
        ]
    )
    words = struct.unpack_from("<4I", image.code)
    assert words[0] == adrp | (5 & 3) << 29 | (5 >> 2) << 5  # page 5 holds the data
    assert words[1] == add | 0x20 << 10
    assert words[2] == ldr_q | (0x20 >> 4) << 10  # scaled by 16 bytes
    assert words[3] == call | (-12 >> 2) & 0x3FFFFFF


def test_aarch64_misaligned_reference() -> None:
    with pytest.raises(NnefError, match="not aligned"):
        link(
            [
                elf(
                    machine=183,
                    data=bytes(16),
                    symbols=(("f", 1, 1, 0), ("data", 0, 2, 4)),
                    relocations=((0, 2, 299, 0),),
                )
            ]
        )


# -- kernels

SUM = Layout("x:ref y:ref count")


@family()
def sum_(dtype: str) -> KernelFunction:
    from nnefc.kernels.vector.memory import address, load_word

    load, store = LOAD[dtype], STORE[dtype]
    x_at, y_at, count_at = SUM.offsets

    def kernel(bases: int, params: int, first: int, last: int) -> None:
        x, y = address(bases, params + x_at), address(bases, params + y_at)
        for tile in range(first, last):
            total = load(x, 0) - load(x, 0)
            for i in range(load_word(params + count_at)):
                total += load(x, i)
            store(y + tile * 8, total)

    return kernel


def test_kernels_are_compiled_once() -> None:
    kernel = sum_("int64")
    steps: list[tuple[int, int, str]] = []
    first = compile_kernels([kernel, kernel], lambda *step: steps.append(step))  # pyright: ignore
    assert steps == [(0, 1, kernel.family), (1, 1, "")]
    second = compile_kernels([kernel])
    assert first.symbols == second.symbols
    x, y = np.arange(10), np.zeros(3, np.int64)
    bases = np.array([x.ctypes.data, y.ctypes.data])
    params = np.array([0, 16, 1, 0, 8])
    for code in (first, second):
        y[:] = 0
        code.call(kernel, bases.ctypes.data, params.ctypes.data, 1, 3)
        assert y.tolist() == [0, 44, 44]


@pytest.mark.slow
def test_executable_memory_from_a_file_where_mprotect_is_forbidden() -> None:
    """Some hardened systems refuse to make written memory executable."""
    script = """
        import ctypes, mmap
        from nnefc.runtime.compile import executable_memory
        from nnefc.runtime.compile.kernel_compiler import compile_functions
        from tests.kernels.codegen.test_object_code import plus
        class Refusing:
            def mprotect(self, *arguments):
                ctypes.set_errno(13)
                return -1
            def syscall(self, *arguments):
                return -1
        executable_memory.ctypes.CDLL = lambda *a, **k: Refusing()
        mapped = compile_functions([("plus", plus)])
        word = ctypes.c_int64
        assert ctypes.CFUNCTYPE(word, word, word)(mapped.entry("plus"))(1, 2) == 4
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=120)


def test_code_is_not_writable() -> None:
    code = ExecutableImage(link([elf(code=b"\xc3" * 16)]))
    # The system lists neighbouring mappings of equal protection as one.
    with open("/proc/self/maps") as maps:  # noqa: PTH123
        (protection,) = [
            fields[1]
            for fields in map(str.split, maps)
            if int(fields[0].split("-")[0], 16) <= code.address < int(fields[0].split("-")[1], 16)
        ]
    assert protection == "r-xp"
