"""The features that C programs check."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nnefc.emit.features import required_features
from nnefc.kernels.target.isa import EXTENSIONS, TABLE, variants

HEADER = Path("/usr/aarch64-linux-gnu/include/asm/hwcap.h")
CAPABILITIES = {
    "dotprod": "HWCAP_ASIMDDP",
    "fullfp16": "HWCAP_ASIMDHP",
    "bf16": "HWCAP2_BF16",
    "i8mm": "HWCAP2_I8MM",
}


def required(name: str) -> list[int]:
    row, *extensions = name.split("+")
    return required_features(cast(Any, SimpleNamespace(isa=row, extensions=extensions, cpu="")))


def test_each_extension_is_checked() -> None:
    for row in {each.row for each in EXTENSIONS}:
        words = [required(name) for name in variants(TABLE[row]) if "halves" not in name]
        for less, more in pairwise(words):
            assert less != more
            assert all(x & y == x for x, y in zip(less, more, strict=True))


@pytest.mark.skipif(not HEADER.exists(), reason="no headers of Linux for aarch64")
def test_bits_of_arm_are_those_of_linux() -> None:
    bits = dict(re.findall(r"define (HWCAP2?_\w+)\s+\(1U?L?L? << (\d+)\)", HEADER.read_text()))
    for feature, name in CAPABILITIES.items():
        words = [0, 0]
        words["2" in name.partition("_")[0]] = 1 << int(bits[name])
        assert required(f"aarch64+{feature}")[:2] == words
    assert CAPABILITIES.keys() == {each.feature for each in EXTENSIONS if each.row == "aarch64"}
