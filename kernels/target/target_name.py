"""Names of targets: an instruction set and its extensions, such as aarch64+dotprod."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from nnefc.kernels.target.isa import (
    AARCH64,
    EXTENSIONS,
    MATRICES,
    NATIVE,
    TABLE,
    Isa,
    host,
    row_of,
    variants,
)
from nnefc.kernels.target.processor import arm_features, grants_matrices, x86_features
from nnefc.support.errors import NnefError

_SHORT: Final = {
    **{"avxvnni": "vnni", "avx512vnni": "vnni", "avx512bf16": "bf16"},
    **{"amx-bf16": "amx", "amx-int8": "amx", "fullfp16": "fp16"},
}
"""Names that users may write instead of LLVM's; the last extension with such a name is meant."""


def target_name(text: str) -> str:
    """The name in `variants` of the target that a user has named.

    Extensions may have short names and any order.  As in `variants`, an extension includes those
    before it, which all processors with it have.

    Raises NnefError `input/option` for unknown rows and extensions, and for extensions of other
    rows.
    """
    name, *wanted = text.split("+")
    row = row_of(name)
    own = [each.feature for each in EXTENSIONS if each.row == row.name]
    count = 0
    for extension in wanted:
        numbers = [i for i, each in enumerate(own) if extension in _names(each)]
        if not numbers:
            raise _unknown(row, extension, own)
        count = max(count, numbers[-1] + 1)
    return "+".join((row.name, *own[:count]))


def target_row(text: str) -> Isa:
    """The row with the extensions of a target; raises NnefError as `target_name` does."""
    name = target_name(text)
    return variants(row_of(name.partition("+")[0]))[name]


def completed(text: str) -> list[str]:
    """The targets whose names continue `text`; those with extensions if it has a plus sign."""
    if "+" not in text:
        return [name for name in (NATIVE, *TABLE) if name.startswith(text)]
    before, _, begun = text.rpartition("+")
    row, *chosen = before.split("+")
    own = [each.feature for each in EXTENSIONS if each.row == row]
    names = dict.fromkeys(name for each in own for name in _names(each)[::-1])
    return [f"{before}+{each}" for each in names if each.startswith(begun) and each not in chosen]


def missing_extensions(row: str, extensions: Iterable[str]) -> list[str]:
    """Those of the extensions of a row that this process cannot use."""
    best = host()
    if best.cpu != NATIVE and best.name == row:
        available = set(best.extensions)
    else:
        available = arm_features() if row == AARCH64.name else x86_features()
        if not available.isdisjoint(MATRICES.values()) and not grants_matrices():
            available -= set(MATRICES.values())
    return [each for each in extensions if each not in available]


def _names(feature: str) -> list[str]:
    """LLVM's name of an extension, and its short name."""
    return [feature, _SHORT[feature]] if feature in _SHORT else [feature]


def _unknown(row: Isa, extension: str, own: Iterable[str]) -> NnefError:
    others = dict.fromkeys(each.row for each in EXTENSIONS if extension in _names(each.feature))
    if others:
        message = f"{extension!r} is an extension of {', '.join(others)}, not of {row.name}"
    else:
        message = f"unknown extension {extension!r} of the instruction set {row.name}"
    names = ", ".join(dict.fromkeys(_names(each)[-1] for each in own))
    return NnefError.of(
        "input/option", message, hint=f"its extensions: {names}" if names else "it has none"
    )
