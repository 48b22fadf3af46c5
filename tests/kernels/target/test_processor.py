"""Identity and features of the processor, by the system and by LLVM."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nnefc.kernels.target import isa, processor
from nnefc.kernels.target.isa import NATIVE, host
from nnefc.support.errors import NnefError

ROWS = {
    "x86-64-v2": "sse4_1 sse4_2 popcnt",
    "x86-64-v3": "avx2 fma f16c bmi2 abm movbe",
    "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
}
"""Linux names of the features that each row adds."""
LIST = """\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Some  Processor @ 2.00GHz
stepping\t: 4
flags\t\t: {flags}

processor\t: 1
vendor_id\t: GenuineIntel
cpu family\t: 7
"""

Told = Callable[[str | None], None]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Told:
    """`told(text)`: the system's list of processors is this text, or is missing if None."""
    monkeypatch.delenv("NNEFC_ISA", raising=False)
    file = tmp_path / "cpuinfo"
    monkeypatch.setattr(processor, "_LIST", file)
    monkeypatch.setattr(processor, "described", processor.described.__wrapped__)
    monkeypatch.setattr(processor, "identity", processor.identity.__wrapped__)

    def tell(text: str | None) -> None:
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_text(text)

    return tell


x86_only = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="features of x86-64"
)


@x86_only
def test_the_system_and_llvm_agree() -> None:
    import llvmlite.binding as llvm

    present: Any = llvm.get_host_cpu_features()  # pyright: ignore[reportUnknownMemberType]
    listed = " ".join(ROWS.values()).replace("_", ".").replace("abm", "lzcnt")
    names = set(listed.split())
    assert processor.x86_features() & names == {name for name in names if present[name]}


@x86_only
def test_rows_follow_from_features(told: Told) -> None:
    flags = "fpu sse2"
    for name, more in ROWS.items():
        for missing in more.split():
            some = " ".join(flag for flag in more.split() if flag != missing)
            told(LIST.format(flags=f"{flags} {some}"))
            try:
                assert host.__wrapped__().name < name
            except NnefError as error:
                assert name == "x86-64-v2", error
        flags += f" {more}"
        told(LIST.format(flags=flags))
        assert host.__wrapped__().name == name
        assert host.__wrapped__().cpu == NATIVE


@x86_only
@pytest.mark.parametrize(
    ("row", "feature", "bits"),
    [("x86-64-v3", "avx_vnni", 256), ("x86-64-v4", "avx512_vnni", 512), ("x86-64-v4", "", 0)],
)
def test_byte_dot_products_are_a_feature(told: Told, row: str, feature: str, bits: int) -> None:
    names = list(ROWS)
    flags = " ".join(ROWS[name] for name in names[: names.index(row) + 1])
    told(LIST.format(flags=f"{flags} {feature}"))
    found = host.__wrapped__()
    assert found.name == row
    assert found.byte_dot == (f"llvm.x86.avx512.vpdpbusd.{bits}" if feature else "")


@x86_only
@pytest.mark.parametrize("feature", ["avx512_bf16", ""])
def test_fast_products_of_bfloat16_are_a_feature(told: Told, feature: str) -> None:
    """Those of Intel's processors are slower than products of float32."""
    text = LIST.format(flags=f"{' '.join(ROWS.values())} {feature}")
    told(text)
    assert not host.__wrapped__().bfloat16_dot
    told(text.replace("GenuineIntel", "AuthenticAMD"))
    intrinsic = "llvm.x86.avx512bf16.dpbf16ps.512"
    assert host.__wrapped__().bfloat16_dot == (intrinsic if feature else "")


@x86_only
@pytest.mark.parametrize("granted", [True, False])
def test_matrix_registers_are_granted(
    told: Told, granted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isa, "grants_matrices", lambda: granted)
    flags = f"{' '.join(ROWS.values())} avx512_bf16 amx_bf16 amx_tile amx_int8"
    told(LIST.format(flags=flags))
    assert host.__wrapped__().matrix_dot == ("tdpbf16ps" if granted else "")
    assert host.__wrapped__().matrix_byte_dot == ("tdpbusd" if granted else "")
    told(LIST.format(flags=flags.replace("amx_bf16", "")))
    assert not host.__wrapped__().matrix_dot
    told(LIST.format(flags=flags.replace("amx_int8", "")))
    assert not host.__wrapped__().matrix_byte_dot


@x86_only
def test_row_without_features_from_the_system(told: Told) -> None:
    before = host.__wrapped__()
    told(None)
    assert processor.described() == {}
    assert host.__wrapped__() == before
    assert processor.identity() == " ".join(processor.llvm_target())


@x86_only
def test_identity_distinguishes_processors(told: Told) -> None:
    whole = LIST.format(flags="fpu sse2 avx2")
    told(whole)
    assert (
        processor.described()["model name"] == processor.model_name() == "Some  Processor @ 2.00GHz"
    )
    seen = {processor.identity()}
    for old, new in (
        ("Genuine", "Authentic"),
        (": 6", ": 5"),
        (": 85", ": 8"),
        (": 4", ": 3"),
        ("avx2", "fma"),
    ):
        told(whole.replace(old, new, 1))
        seen.add(processor.identity())
    assert len(seen) == 6
    told(whole.replace("Some ", "Other").replace("family\t: 7", "family\t: 8"))
    assert processor.identity() in seen


@x86_only
def test_identity_tells_whether_matrix_registers_are_granted(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code for this processor is not loaded where Linux refuses its registers."""
    monkeypatch.setattr(processor, "grants_matrices", lambda: True)
    told(LIST.format(flags="fpu sse2 amx_tile amx_bf16"))
    granted = processor.identity()
    monkeypatch.setattr(processor, "grants_matrices", lambda: False)
    assert processor.identity() != granted
    told(LIST.format(flags="fpu sse2"))
    assert "without" not in processor.identity()


def test_identity_distinguishes_arm_processors(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    text = (
        "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n"
        "CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n"
    )
    told(text)
    identity = processor.identity()
    assert identity == "0x41; 0x3; 0xd0c; 1; fp asimd"
    told(text.replace("243.75", "100.0"))
    assert processor.identity() == identity
    assert processor.arm_features() == {"fp", "asimd"}
    told(text.replace("asimd", "asimd asimddp"))
    assert "dotprod" in processor.arm_features()
    monkeypatch.delenv("NNEFC_ISA", raising=False)
    assert "sdot" in host.__wrapped__().byte_dot
    assert not host.__wrapped__().bfloat16_dot
    told(text.replace("asimd", "asimd asimddp bf16"))
    assert "bfdot" in host.__wrapped__().bfloat16_dot


def test_units_for_half_vectors(told: Told) -> None:
    text = LIST.format(flags="avx512f")
    for vendor, half in (("GenuineIntel", False), ("AuthenticAMD", True)):
        told(text.replace("GenuineIntel", vendor))
        assert processor.has_half_units() == half
    told(None)
    assert not processor.has_half_units()


@x86_only
@pytest.mark.parametrize("row", ROWS)
def test_only_vectors_of_512_bits_have_halves(told: Told, row: str) -> None:
    flags = " ".join(ROWS[name] for name in ROWS if name <= row)
    told(LIST.format(flags=flags).replace("GenuineIntel", "AuthenticAMD"))
    assert host.__wrapped__().halves == (row == "x86-64-v4")
