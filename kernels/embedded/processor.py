"""Detects the features of the processor that an embedded model runs on."""

from __future__ import annotations

from nnefc.kernels.embedded.libc import function
from nnefc.kernels.embedded.model_layout import CPUID, FEATURE_WORDS, FEATURES, XGETBV
from nnefc.kernels.vector.memory import LOAD, STORE, helper, procedure

_load, _store, _load_int = LOAD["int64"], STORE["int64"], LOAD["int32"]
_getauxval = function("getauxval", 1)
_one, _three = procedure(1), procedure(3)
_HWCAP, _HWCAP2 = 16, 26


@helper
def _find_features(code: int, data: int, found: int):
    """Store the `FEATURE_WORDS` words of this processor at `found`, which has 16 bytes of scratch
    behind them.
    """
    if _load(data + CPUID) == 0:
        _store(found, _getauxval(_HWCAP))
        _store(found + 8, _getauxval(_HWCAP2))
        return
    cpuid, answer = code + _load(data + CPUID), found + 8 * FEATURE_WORDS
    _three(cpuid, 0, 0, answer)
    leaves = _load_int(answer)
    _three(cpuid, 1, 0, answer)
    basic = _load(answer + 8) & 0xFFFFFFFF
    _store(found, basic)
    if leaves >= 7:
        _three(cpuid, 7, 0, answer)
        _store(found + 8, _load(answer) >> 32 & 0xFFFFFFFF)
        _store(found + 16, _load(answer + 8) & 0xFFFFFFFF)
        _store(found + 24, _load(answer + 8) >> 32 & 0xFFFFFFFF)
        _three(cpuid, 7, 1, answer)
        _store(found + 32, _load(answer) & 0xFFFFFFFF)
    _three(cpuid, 0x80000001, 0, answer)
    _store(found + 40, _load(answer + 8) & 0xFFFFFFFF)
    if basic >> 27 & 1 != 0:  # OSXSAVE: programs may execute XGETBV
        _one(code + _load(data + XGETBV), found + 48)


@helper
def can_execute(code: int, data: int, found: int):
    """1 if this processor has all features that the code needs, else 0."""
    _find_features(code, data, found)
    for i in range(FEATURE_WORDS):
        needed = _load(data + FEATURES + 8 * i)
        if _load(found + 8 * i) & needed != needed:
            return 0
    return 1
