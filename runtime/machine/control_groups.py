"""What Linux lets this process have: the limits of the control groups that it is in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

_MINE: Final = "/proc/self/cgroup"
_ROOT: Final = "/sys/fs/cgroup"
_MACHINE: Final = "/proc/meminfo"
_MEMORY: Final = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    2: ("memory.max", "memory.current"),
}
"""Names of files by the version of control groups: bytes at most, bytes now."""


def groups(controller: str) -> Iterator[tuple[str, int]]:
    """Folders of the groups around this process that `controller` may limit, and their version."""
    try:
        lines = _read(_MINE).splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        folder = os.path.join(_ROOT, controller) if controllers else _ROOT
        group = os.path.join(folder, path.strip("/")).rstrip("/")
        while group == _ROOT or group.startswith(f"{_ROOT}/"):
            yield group, 1 if controllers else 2
            group = os.path.dirname(group)


def cpu_quotas() -> Iterator[float]:
    """Processors that each group may use at the same time, where that is limited."""
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


def free_memory() -> int | None:
    """Bytes that this process may still use without anything being swapped or killed.

    None where the system does not tell.
    """
    try:
        free = 1024 * _field(_MACHINE, "MemAvailable:")
    except (OSError, ValueError):
        return None
    for group, version in groups("memory"):
        try:
            limit, used = (int(_read(group, name)) for name in _MEMORY[version])
            # Files that were read lately count as used; the system drops them when it must.
            cached = _field(os.path.join(group, "memory.stat"), "inactive_file")
            free = min(free, limit - used + cached)
        except (OSError, ValueError):  # there is no such file, or it says "max"
            continue
    return max(free, 0)


def _field(path: str, name: str) -> int:
    """The number behind a name at the start of a line."""
    for line in _read(path).splitlines():
        words = line.split()
        if words[:1] == [name]:
            return int(words[1])
    raise ValueError(f"{path} has no {name}")


def _read(*parts: str) -> str:
    with open(os.path.join(*parts)) as file:
        return file.read()
