"""The processor of this machine: its name and features, from the system or from LLVM.

LLVM takes 40 MB, so it is loaded only to generate code, or if the system gives no answer.
"""

from __future__ import annotations

import platform
from functools import cache
from typing import Any, Final

_LIST: Final = "/proc/cpuinfo"
_FIRST: Final = 8192
"""Bytes of Linux's list of processors, enough for the first; to list all of many takes long."""
_IDENTITY: Final = {
    "x86_64": ("vendor_id", "cpu family", "model", "stepping", "flags"),
    "aarch64": ("CPU implementer", "CPU variant", "CPU part", "CPU revision", "Features"),
}
"""By machine: fields that identify a processor, and the field of its enabled features."""


@cache
def described() -> dict[str, str]:
    """The fields of the first processor in /proc/cpuinfo; empty on other systems."""
    try:
        with open(_LIST, "rb") as file:
            text = file.read(_FIRST).decode(errors="replace")
    except OSError:
        return {}
    fields: dict[str, str] = {}
    for line in text.partition("\n\n")[0].splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields[name.strip()] = value.strip()
    return fields


def model_name() -> str:
    """The name under which it is sold, if the system knows it."""
    return described().get("model name") or platform.processor() or platform.machine()


def x86_features() -> set[str]:
    """Features of an x86-64 processor by LLVM's names, those that the system does not enable not.

    Names that Linux spells otherwise are missing, but for SSE 4, LZCNT and products of bytes.
    """
    flags = described().get("flags")
    if flags is None:
        return {name for name, present in _llvm_features().items() if present}
    for linux, llvm in (("sse4_", "sse4."), ("abm", "lzcnt"), ("_vnni", "vnni")):
        flags = flags.replace(linux, llvm)
    return set(flags.split())


def arm_features() -> set[str]:
    """Likewise of an aarch64 processor; Linux' names are other ones, but for products of bytes."""
    features = described().get("Features")
    if features is None:
        return {name for name, present in _llvm_features().items() if present}
    return set(features.replace("asimddp", "dotprod").split())


def has_half_units() -> bool:
    """Whether vectors of 512 bits take two passes of units for 256 bits.

    They do in AMD's Zen 4.  Later ones have units of either kind; treating them alike is free.
    """
    return described().get("vendor_id") == "AuthenticAMD"


@cache
def identity() -> str:
    """A text that is equal for processors for which LLVM generates the same code."""
    fields = described()
    wanted = _IDENTITY.get(platform.machine(), ())
    if not wanted or not fields.keys() >= set(wanted):
        return " ".join(llvm_target())
    return "; ".join(fields[name] for name in wanted)


@cache
def llvm_target() -> tuple[str, str]:
    """(name, features) of this processor as LLVM's target machine takes them."""
    import llvmlite.binding as llvm

    name = str(llvm.get_host_cpu_name())  # pyright: ignore[reportUnknownMemberType,reportUnknownArgumentType]
    return name, _llvm_features().flatten()


@cache
def _llvm_features() -> Any:
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_features()  # pyright: ignore[reportUnknownMemberType]
