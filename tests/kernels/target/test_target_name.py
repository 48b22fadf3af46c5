"""Names of targets with extensions."""

from __future__ import annotations

import pytest

from nnefc.kernels.target import target_name as names
from nnefc.kernels.target.isa import EXTENSIONS, TABLE, Isa, variants
from nnefc.kernels.target.target_name import (
    completed,
    missing_extensions,
    target_name,
    target_row,
)
from nnefc.support.errors import NnefError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x86-64-v2", "x86-64-v2"),
        ("x86-64-v3+vnni", "x86-64-v3+avxvnni"),
        ("x86-64-v4+vnni", "x86-64-v4+avx512vnni"),
        ("x86-64-v4-256+bf16", "x86-64-v4-256+avx512vnni+avx512bf16"),
        ("x86-64-v4+amx-bf16", "x86-64-v4+avx512vnni+avx512bf16+amx-bf16"),
        ("x86-64-v4+amx+vnni", "x86-64-v4+avx512vnni+avx512bf16+amx-bf16+amx-int8"),
        ("aarch64+dotprod", "aarch64+dotprod"),
        ("aarch64+fp16", "aarch64+dotprod+fullfp16"),
        ("aarch64+bf16+dotprod", "aarch64+dotprod+fullfp16+bf16"),
        ("aarch64+i8mm", "aarch64+dotprod+fullfp16+bf16+i8mm"),
    ],
)
def test_names_are_completed_by_the_extensions_that_they_include(text: str, name: str) -> None:
    assert target_name(text) == name
    assert target_row(text) == variants(TABLE[name.partition("+")[0]])[name]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("pdp-11+vnni", "unknown instruction set 'pdp-11'", "one of x86-64-v2, "),
        (
            "aarch64+sme9",
            "unknown extension 'sme9' of the .* aarch64",
            "extensions: dotprod, fp16, bf16",
        ),
        ("aarch64+", "unknown extension ''", "its extensions: dotprod"),
        (
            "x86-64-v2+vnni",
            "of x86-64-v3, x86-64-v4-256, x86-64-v4, not of x86-64-v2",
            "it has none",
        ),
        ("x86-64-v4+dotprod", "extension of aarch64, not of x86-64-v4", "vnni, bf16, amx"),
    ],
)
def test_wrong_extensions_are_errors(text: str, message: str, hint: str) -> None:
    with pytest.raises(NnefError, match=message) as caught:
        target_name(text)
    (error,) = caught.value.errors
    assert error.rule == "input/option"
    assert error.hint is not None
    assert hint in error.hint


def test_names_are_completed_in_shells() -> None:
    assert completed("") == ["native", *TABLE]
    assert completed("aar") == ["aarch64"]
    assert "aarch64+dotprod" in completed("aarch64+")
    assert completed("x86-64-v4+vnni+a") == [
        *("x86-64-v4+vnni+avx512vnni", "x86-64-v4+vnni+avx512bf16"),
        *("x86-64-v4+vnni+amx", "x86-64-v4+vnni+amx-bf16", "x86-64-v4+vnni+amx-int8"),
    ]
    assert completed("pdp-11+") == []


def test_extensions_that_a_machine_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    def on(row: Isa, *features: str, grants: bool = True) -> list[str]:
        monkeypatch.setattr(names, "host", lambda: row)
        monkeypatch.setattr(names, "x86_features", lambda: set(features))
        monkeypatch.setattr(names, "arm_features", lambda: {"bf16"})
        monkeypatch.setattr(names, "grants_matrices", lambda: grants)
        return missing_extensions(
            "x86-64-v4", [e.feature for e in EXTENSIONS if e.row == "x86-64-v4"]
        )

    native, every = TABLE["x86-64-v4"]._replace(cpu="native"), ("avx512vnni", "avx512bf16")
    matrices = ("amx-bf16", "amx-int8")
    assert on(native) == [*every, *matrices]
    assert on(native, *every) == [*matrices]
    assert on(native, *every, *matrices) == []
    assert on(native, *every, *matrices, grants=False) == [*matrices]
    # a row that NNEFC_ISA names has its own extensions
    assert on(TABLE["x86-64-v4"], *every) == [*every, *matrices]
    assert on(target_row("x86-64-v4+vnni"), *every) == ["avx512bf16", *matrices]
    assert missing_extensions("aarch64", ["dotprod", "bf16"]) == ["dotprod"]
