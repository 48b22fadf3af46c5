"""The processor of this machine: its name and features, from the system or from LLVM.

LLVM takes 40 MB of memory, so it is loaded only if the system does not list the features.
"""

from __future__ import annotations

import platform
from functools import cache
from typing import Any, Final

_LIST: Final = "/proc/cpuinfo"
REQUEST_MATRICES: Final = (158, 0x1023, 18)
"""The system call of x86-64 that requests matrix registers: arch_prctl, ARCH_REQ_XCOMP_PERM and
XFEATURE_XTILEDATA."""
_FIRST: Final = 8192
"""Bytes of the list that are read: enough for the first processor, as listing many takes long."""
_IDENTITY: Final = {
    "x86_64": ("vendor_id", "cpu family", "model", "stepping", "flags"),
    "aarch64": ("CPU implementer", "CPU variant", "CPU part", "CPU revision", "Features"),
}
"""Fields that identify a processor, the last of them its enabled features, by architecture."""


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
    """The product name of the processor, or else the name of its architecture."""
    return described().get("model name") or platform.processor() or platform.machine()


def x86_features() -> set[str]:
    """LLVM names of the features of an x86-64 processor that the system has enabled.

    Features that Linux names differently are missing, except SSE 4, LZCNT, VNNI, BF16 and AMX.
    """
    flags = described().get("flags")
    if flags is None:
        return {name for name, present in _llvm_features().items() if present}
    for linux, llvm in (
        ("sse4_", "sse4."),
        ("abm", "lzcnt"),
        ("_vnni", "vnni"),
        ("512_bf16", "512bf16"),
        ("amx_bf16", "amx-bf16"),
        ("amx_int8", "amx-int8"),
    ):
        flags = flags.replace(linux, llvm)
    return set(flags.split())


def arm_features() -> set[str]:
    """Linux names of the features of an aarch64 processor.

    Only `dotprod`, `fullfp16`, `bf16` and `i8mm` are LLVM's names.
    """
    features = described().get("Features")
    if features is None:
        return {name for name, present in _llvm_features().items() if present}
    features = features.replace("asimddp", "dotprod").replace("asimdhp", "fullfp16")
    return set(features.split())


def has_half_units() -> bool:
    """Whether vectors of 512 bits take two passes through units for 256 bits.

    AMD's Zen 4 does so.  Some later AMD processors have full-width units; on these the answer True
    costs nothing.
    """
    return described().get("vendor_id") == "AuthenticAMD"


def grants_matrices() -> bool:
    """Whether Linux lets this process use the matrix registers of a processor that has them."""
    import ctypes

    return ctypes.CDLL(None).syscall(*REQUEST_MATRICES) == 0


@cache
def identity() -> str:
    """A text that is equal for two processors if LLVM generates the same code for them."""
    fields = described()
    wanted = _IDENTITY.get(platform.machine(), ())
    if not wanted or not fields.keys() >= set(wanted):
        return " ".join(llvm_target())
    text = "; ".join(fields[name] for name in wanted)
    # code for this processor may use the registers
    refused = "amx_bf16" in fields[wanted[-1]].split() and not grants_matrices()
    return f"{text}; without matrix registers" if refused else text


@cache
def llvm_target() -> tuple[str, str]:
    """Name and features of this processor, as LLVM's target machine takes them."""
    import llvmlite.binding as llvm

    name = str(llvm.get_host_cpu_name())  # pyright: ignore[reportUnknownMemberType,reportUnknownArgumentType]
    return name, _llvm_features().flatten()


@cache
def _llvm_features() -> Any:
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_features()  # pyright: ignore[reportUnknownMemberType]
