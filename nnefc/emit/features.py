"""The processor features that the code of a build requires."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from nnefc.kernels.embedded.model_layout import FEATURE_WORDS
from nnefc.kernels.target.isa import TABLE
from nnefc.kernels.target.processor import described

if TYPE_CHECKING:
    from nnefc.runtime.artifact.build_static import CodeBuild

# Bits of the words that `kernels.embedded.functions` reads, by Linux's names.
_BITS: Final[tuple[dict[str, int], ...]] = (
    {
        **{"pni": 0, "pclmulqdq": 1, "ssse3": 9, "fma": 12, "cx16": 13, "sse4_1": 19},
        **{"sse4_2": 20, "movbe": 22, "popcnt": 23, "aes": 25, "avx": 28, "f16c": 29},
    },
    {
        **{"bmi1": 3, "avx2": 5, "bmi2": 8, "avx512f": 16, "avx512dq": 17, "adx": 19},
        **{"avx512ifma": 21, "avx512cd": 28, "sha_ni": 29, "avx512bw": 30, "avx512vl": 31},
    },
    {
        **{"avx512vbmi": 1, "avx512_vbmi2": 6, "gfni": 8, "vaes": 9, "vpclmulqdq": 10},
        **{"avx512_vnni": 11, "avx512_bitalg": 12, "avx512_vpopcntdq": 14},
    },
    {"avx512_vp2intersect": 8, "amx_bf16": 22, "avx512_fp16": 23, "amx_tile": 24, "amx_int8": 25},
    {"avx_vnni": 4, "avx512_bf16": 5, "avx_ifma": 23},
    {"lahf_lm": 0, "abm": 5, "sse4a": 6, "xop": 11, "fma4": 16, "tbm": 21},
)
_SAVED: Final = {"avx": 0b110, "avx512f": 0b11100000, "amx_tile": 0b11 << 17}
"""Bits of XCR0: registers that the operating system must save."""

# "System V Application Binary Interface, AMD64 Architecture Processor Supplement", 3.1.1
_V2: Final = "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"
_V3: Final = f"{_V2} avx avx2 bmi1 bmi2 f16c fma abm movbe"
_V4: Final = f"{_V3} avx512f avx512bw avx512cd avx512dq avx512vl"
LEVELS: Final = {"x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4, "x86-64-v4-256": _V4}
_OPTIONAL: Final = {
    "avxvnni": {"avx_vnni"},
    "avx512vnni": {"avx512_vnni"},
    "avx512bf16": {"avx512_bf16"},
    "amx-bf16": {"amx_bf16", "amx_tile"},
    "amx-int8": {"amx_int8", "amx_tile"},
}
"""Linux's names of the features that extensions of x86-64 need."""
_CAPABILITIES: Final = {
    **{"dotprod": (0, 20), "fullfp16": (0, 10)},
    **{"bf16": (1, 14), "i8mm": (1, 13)},
}
"""The word and the bit of extensions of aarch64: HWCAP_ASIMDDP, HWCAP_ASIMDHP, HWCAP2_BF16,
HWCAP2_I8MM."""
_HWCAP, _HWCAP2 = 16, 26


def required_features(build: CodeBuild) -> list[int]:
    """`FEATURE_WORDS` words of feature bits that must be set.

    Code for this processor may use all of its features that compilers use.
    """
    if TABLE[build.isa].triple.startswith("aarch64"):
        words = _hardware_capabilities() if build.cpu else _capabilities_of(build.extensions)
        return words + [0] * (FEATURE_WORDS - len(words))
    names = set(LEVELS[build.isa].split())
    for extension in build.extensions:
        names |= _OPTIONAL[extension]
    if build.cpu:
        names |= set(described().get("flags", "").split())
    words = [sum(1 << bit for name, bit in row.items() if name in names) for row in _BITS]
    return [*words, sum(bits for name, bits in _SAVED.items() if name in names)]


def _capabilities_of(extensions: Sequence[str]) -> list[int]:
    """Linux's feature words (AT_HWCAP, AT_HWCAP2) with the bits of extensions."""
    bits = [_CAPABILITIES[extension] for extension in extensions]
    return [sum(1 << bit for word, bit in bits if word == each) for each in range(2)]


def _hardware_capabilities() -> list[int]:
    """Linux's feature words (AT_HWCAP, AT_HWCAP2) of this machine."""
    ask = ctypes.CDLL(None).getauxval
    ask.restype, ask.argtypes = ctypes.c_ulong, (ctypes.c_ulong,)
    return [ctypes.c_int64(ask(kind)).value for kind in (_HWCAP, _HWCAP2)]
