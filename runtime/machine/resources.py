"""Processors, memory and caches that this process may use."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Final

from nnefc.support.errors import NnefError

_CGROUP_OF_PROCESS: Final = "/proc/self/cgroup"
_CGROUP_ROOT: Final = "/sys/fs/cgroup"
_MEMORY_INFO: Final = "/proc/meminfo"
_CPU_CACHES: Final = "/sys/devices/system/cpu/cpu0/cache"
_MEMORY_FILES: Final = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    2: ("memory.max", "memory.current"),
}
"""Files with the limit and the present use in bytes, by version of control groups."""


# -- processors


def usable_cpus() -> int:
    """Processors this process may use: affinity mask and control group quota, at least 1."""
    if sys.platform != "linux":
        return 1
    count = len(os.sched_getaffinity(0))
    for quota in cpu_quotas():
        count = min(count, max(1, -int(-quota // 1)))
    return count


def compile_jobs() -> int | None:
    """The number of processes that may compile, from `NNEFC_JOBS`; None if unset or empty.

    Raises NnefError `input/environment` if the variable is not a positive number.
    """
    text = os.environ.get("NNEFC_JOBS")
    if not text:
        return None
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise NnefError.of(
        "input/environment",
        f"NNEFC_JOBS is {text!r}; expected a positive number of processes",
        hint="NNEFC_JOBS=1 compiles in the process that asks for it",
    )


def compiles_ahead() -> bool:
    """Whether kernels for other models are compiled after a call, from `NNEFC_AHEAD`.

    Raises NnefError `input/environment` if the variable is neither empty, `on` nor `off`.
    """
    return _is_on("NNEFC_AHEAD", "NNEFC_AHEAD=off compiles only kernels that models need")


def stores_models() -> bool:
    """Whether compiled models are stored in the cache, from `NNEFC_KEEP`.

    Raises NnefError `input/environment` as `compiles_ahead` does.
    """
    return _is_on("NNEFC_KEEP", "NNEFC_KEEP=off stores kernels only, no compiled models")


def uses_shipped() -> bool:
    """Whether kernels of the installation are used, from `NNEFC_SHIPPED`.

    Raises NnefError `input/environment` as `compiles_ahead` does.
    """
    return _is_on("NNEFC_SHIPPED", "NNEFC_SHIPPED=off compiles all kernels on this machine")


def _is_on(variable: str, hint: str) -> bool:
    """Whether an environment variable is `on`, also if it is not set, or `off`."""
    text = os.environ.get(variable, "")
    if text.lower() in ("", "on", "off"):
        return text.lower() != "off"
    message = f"{variable} is {text!r}; expected on or off"
    raise NnefError.of("input/environment", message, hint=hint)


# -- control groups of Linux


def groups(controller: str) -> Iterator[tuple[str, int]]:
    """(folder, version) of the control groups around this process that `controller` may limit."""
    try:
        lines = _read(_CGROUP_OF_PROCESS).splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        folder = os.path.join(_CGROUP_ROOT, controller) if controllers else _CGROUP_ROOT
        group = os.path.join(folder, path.strip("/")).rstrip("/")
        while group == _CGROUP_ROOT or group.startswith(f"{_CGROUP_ROOT}/"):
            yield group, 1 if controllers else 2
            group = os.path.dirname(group)


def cpu_quotas() -> Iterator[float]:
    """The number of processors each group may use at a time, for groups with such a limit."""
    for group, version in groups("cpu"):
        try:
            if version == 1:
                quota = _read(group, "cpu.cfs_quota_us")
                period = _read(group, "cpu.cfs_period_us")
            else:
                quota, period = _read(group, "cpu.max").split()
            if quota != "max" and int(quota) > 0:
                yield int(quota) / int(period)
        except (OSError, ValueError):
            continue


# -- memory


def free_memory() -> int | None:
    """Bytes that this process can still use without swapping or being killed; None if unknown."""
    try:
        free = 1024 * _field(_MEMORY_INFO, "MemAvailable:")
    except (OSError, ValueError):
        return None
    for group, version in groups("memory"):
        try:
            limit, used = (int(_read(group, name)) for name in _MEMORY_FILES[version])
            # The page cache counts as used, but the system drops it when memory is short.
            cached = _field(os.path.join(group, "memory.stat"), "inactive_file")
            free = min(free, limit - used + cached)
        except (OSError, ValueError):  # the file is missing, or says "max"
            continue
    return max(free, 0)


@cache
def largest_cache() -> int:
    """Bytes of the largest processor cache that the system reports; 0 if it reports none."""
    return max(_cache_sizes(), default=0)


def _cache_sizes() -> Iterator[int]:
    try:
        names = os.listdir(_CPU_CACHES)
    except OSError:
        return
    for name in names:
        if not name.startswith("index"):
            continue
        try:
            size = re.fullmatch(r"(\d+)([KMG]?)\s*", _read(_CPU_CACHES, name, "size"))
        except OSError:
            continue
        if size:
            yield int(size[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[size[2]]


def _field(path: str, name: str) -> int:
    """The number after `name` at the start of a line."""
    for line in _read(path).splitlines():
        words = line.split()
        if words[:1] == [name]:
            return int(words[1])
    raise ValueError(f"{path} has no {name}")


def _read(*parts: str) -> str:
    with open(os.path.join(*parts)) as file:
        return file.read()
