"""Kernels compiled for instruction sets other than this machine's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nnefc import NnefError
from nnefc.kernels.target import isa

PROGRAM = """
import sys
from nnefc.kernels.target import isa
row = isa.TABLE[sys.argv[1]]
isa.host = lambda: row
from nnefc.kernels.codegen.linker import link
from nnefc.kernels.product import matmul
from nnefc.runtime.compile.kernel_compiler import object_code

KERNELS = [
    matmul.gemm("float32", (1, 2), (), stored="q4_0"),
    matmul.gemm("float32", (3, 4), (2, 3), stored="float16"),
    matmul.gemm("float32", (3,), (), stored="q8_1"),
]
link(map(object_code, KERNELS))
"""


@pytest.mark.parametrize("name", ["x86-64-v2", "aarch64"])
def test_products_of_compressed_weights_link(name: str) -> None:
    """Code has no undefined symbols; `tests/models/test_widths.py` has the other kernels."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["avx2", "x86-64", "AARCH64", " "])
def test_unknown_names_of_instruction_sets_are_errors(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = isa.host.__wrapped__().name
    monkeypatch.setenv("NNEFC_ISA", name)
    with pytest.raises(NnefError) as caught:
        isa.host.__wrapped__()
    (error,) = caught.value.errors
    assert error.rule == "input/environment"
    assert repr(name) in error.message
    assert best in error.message
    assert "leave NNEFC_ISA out" in error.hint


def able(best: isa.Isa, *features: str) -> list[str]:
    """The names that a machine with the row and the features accepts."""
    return list(isa._able(best, features))  # pyright: ignore[reportPrivateUsage]


def test_rows_and_extensions_of_other_machines_are_refused() -> None:
    assert able(isa.X86_64_V3) == ["x86-64-v2", "x86-64-v3"]
    assert able(isa.X86_64_V3, "avxvnni") == [*able(isa.X86_64_V3), "x86-64-v3+avxvnni"]
    plain = ["x86-64-v2", "x86-64-v3", "x86-64-v4-256", "x86-64-v4"]
    assert able(isa.X86_64_V4) == plain
    assert [name for name in able(isa.X86_64_V4, "avx512vnni") if name not in plain] == [
        "x86-64-v4-256+avx512vnni",
        "x86-64-v4+avx512vnni",
    ]
    every = able(isa.X86_64_V4, "avx512vnni", "avx512bf16")
    assert [name for name in every if "bf16" in name] == [
        "x86-64-v4-256+avx512vnni+avx512bf16",
        "x86-64-v4+avx512vnni+avx512bf16",
        "x86-64-v4+avx512vnni+avx512bf16+halves",
    ]
    assert able(isa.AARCH64) == ["aarch64"]
    assert able(isa.AARCH64, "dotprod") == ["aarch64", "aarch64+dotprod"]


def test_names_select_rows_for_any_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes compile for the same row."""
    for name, row in isa.executable_variants().items():
        monkeypatch.setenv("NNEFC_ISA", name)
        assert isa.host.__wrapped__() == row
        assert isa.environment_value(row) == name
    monkeypatch.delenv("NNEFC_ISA")
    best = isa.host.__wrapped__()
    assert best.cpu == isa.NATIVE
    monkeypatch.setenv("NNEFC_ISA", isa.environment_value(best))
    assert isa.host.__wrapped__() == best


def test_variants_have_the_optional_fields_of_processors() -> None:
    names = [name for row in isa.TABLE.values() for name in isa.variants(row)]
    assert names == [
        "x86-64-v2",
        "x86-64-v3",
        "x86-64-v3+avxvnni",
        "x86-64-v4-256",
        "x86-64-v4-256+avx512vnni",
        "x86-64-v4-256+avx512vnni+avx512bf16",
        "x86-64-v4",
        "x86-64-v4+avx512vnni",
        "x86-64-v4+avx512vnni+avx512bf16",
        "x86-64-v4+avx512vnni+avx512bf16+halves",
        "x86-64-v4+avx512vnni+avx512bf16+amx-bf16",
        "x86-64-v4+avx512vnni+avx512bf16+amx-bf16+amx-int8",
        "aarch64",
        "aarch64+dotprod",
        "aarch64+dotprod+fullfp16",
        "aarch64+dotprod+fullfp16+bf16",
        "aarch64+dotprod+fullfp16+bf16+i8mm",
    ]


def test_processes_that_build_may_use_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in isa.TABLE.values():
        for name, variant in isa.variants(row).items():
            monkeypatch.setenv("NNEFC_ISA", f"build:{name}")
            assert isa.host.__wrapped__() == variant
    monkeypatch.setenv("NNEFC_ISA", "build:aarch64+halves")
    with pytest.raises(NnefError, match="unknown instruction set 'aarch64"):
        isa.host.__wrapped__()


def printed_for(name: str, program: str) -> str:
    """What a program prints that compiles for a row or a variant, whatever this machine is."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NNEFC_ISA": f"build:{name}"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "instruction"),
    [
        ("x86-64-v3+avxvnni", "vpdpbusd"),
        ("x86-64-v4+avx512vnni", "vpdpbusd"),
        ("x86-64-v4-256+avx512vnni", "vpdpbusd"),
        ("x86-64-v4", "vpmaddubsw"),
        ("aarch64+dotprod", "sdot"),
    ],
)
def test_variants_compile_their_instructions(name: str, instruction: str) -> None:
    """A kernel of fixed-point products, for machines that this one cannot be."""
    program = """
from nnefc.kernels.codegen.object_code import emit_assembly
from nnefc.kernels.product import matmul
from nnefc.kernels.target.isa import host
from nnefc.runtime.compile.compile_unit import shipped_row_of
kernel = matmul.gemm("float32", (1, 2), (), stored="q4_0")
row = shipped_row_of(kernel, host())
print(emit_assembly(kernel.function(), kernel.symbol, row))
"""
    assert instruction in printed_for(name, program)


@pytest.mark.parametrize("name", ["x86-64-v4+avx512vnni", "x86-64-v4+avx512vnni+avx512bf16+halves"])
def test_products_of_pairs_are_added_by_one_instruction(name: str) -> None:
    """LLVM may split `vpdpwssd` into a product and an addition where it sees a long chain.

    With additions in units of their own, two of three rows have half as many products, and their
    words are added before.  All sums stay in registers.
    """
    program = """
from nnefc.kernels.codegen.object_code import emit_assembly
from nnefc.kernels.product import block_matmul
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.expression_epilogue import Epilogue
from nnefc.kernels.vector.expression_argument import Expression
from nnefc.runtime.compile.compile_unit import shipped_row_of
end = Epilogue(Expression(("float32",), (), (0,)), ())
kernel = block_matmul.product("q4_0", "int16", end)
print(emit_assembly(kernel.function(), kernel.symbol, shipped_row_of(kernel, host())))
"""
    text = printed_for(name, program)
    loops = re.findall(r"^\.LBB\w+:\n((?:\t.*\n)+?)\tj[a-z]+\t", text, re.M)
    adds = name.endswith("halves")
    panels = 3
    (few, all_) = [loop for loop in loops if "vpdpwssd" in loop and "vpbroadcastd" in loop]
    for loop, rows in ((few, 3), (all_, 6)):
        assert "vpmaddwd" not in loop and "rsp" not in loop
        assert loop.count("vpaddw") == (rows * 2 // 3 * panels * 2 if adds else 0)
        products = rows // 3 * (4 if adds else 6) * panels
        assert loop.count("vpdpwssd") == products


@pytest.mark.parametrize(
    ("feature", "kernel", "instruction"),
    [
        ("amx-bf16", "matrix_matmul.product(Epilogue(NONE, ()))", "tdpbf16ps"),
        ("amx-bf16", "attention_halves.rows('bfloat16', (), (), None)", "tdpbf16ps"),
        ("amx-int8", "matrix_code_matmul.product(Epilogue(NONE, ()))", "tdpbusd"),
    ],
)
def test_products_in_matrix_registers_are_compiled_on_any_machine(
    feature: str, kernel: str, instruction: str
) -> None:
    program = f"""
from nnefc.kernels.codegen.linker import link
from nnefc.kernels.codegen.object_code import emit_assembly
from nnefc.kernels.product import attention_halves, matrix_code_matmul, matrix_matmul
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.expression_epilogue import Epilogue
from nnefc.kernels.vector.expression_argument import Expression
from nnefc.runtime.compile.compile_unit import shipped_row_of
from nnefc.runtime.compile.kernel_compiler import object_code
NONE = Expression(("{"int32" if feature == "amx-int8" else "float32"}",), (), (0,))
kernel = {kernel}
print(emit_assembly(kernel.function(), kernel.symbol, shipped_row_of(kernel, host())))
link([object_code(kernel)])
"""
    names = (name for row in isa.TABLE.values() for name in isa.variants(row))
    (name,) = (name for name in names if name.endswith(feature))
    printed = printed_for(name, program)
    assert instruction in printed
    assert "ldtilecfg" in printed
