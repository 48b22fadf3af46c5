"""Limits of processors and memory by control groups of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnefc.runtime.machine import resources
from nnefc.runtime.machine.resources import cpu_quotas, free_memory


class System:
    """A folder of files that replace those of Linux."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        for name, file in {
            "_CGROUP_OF_PROCESS": "mine",
            "_CGROUP_ROOT": "groups",
            "_MEMORY_INFO": "machine",
        }.items():
            patch.setattr(resources, name, str(folder / file))

    def write(self, **files: str) -> None:
        """Write files by path, with __ for / and _dot_ for a dot."""
        for name, text in files.items():
            path = self.folder / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    return System(tmp_path, monkeypatch)


def test_missing_files_mean_no_limit(system: System) -> None:
    assert list(cpu_quotas()) == []
    assert free_memory() is None


def test_nested_groups_of_version_2_all_limit(system: System) -> None:
    system.write(
        mine="0::/outer/inner\n",
        groups__cpu_dot_max="100000 100000\n",
        groups__outer__cpu_dot_max="max 100000\n",
        groups__outer__inner__cpu_dot_max="250000 100000\n",
    )
    assert list(cpu_quotas()) == [2.5, 1.0]


def test_groups_of_version_1_limit_processors_and_memory(system: System) -> None:
    system.write(
        mine="3:memory:/box\n2:cpu,cpuacct:/box\n1:pids:/box\n",
        groups__cpu__box__cpu_dot_cfs_quota_us="50000",
        groups__cpu__box__cpu_dot_cfs_period_us="100000",
        groups__cpu__cpu_dot_cfs_quota_us="-1",
        groups__cpu__cpu_dot_cfs_period_us="100000",
        machine="MemTotal: 9000 kB\nMemAvailable:    8000 kB\n",
        groups__memory__box__memory_dot_limit_in_bytes="5000",
        groups__memory__box__memory_dot_usage_in_bytes="4000",
        groups__memory__box__memory_dot_stat="cache 300\ninactive_file 200\n",
    )
    assert list(cpu_quotas()) == [0.5]
    assert free_memory() == 1200


def test_free_memory_is_the_least_of_all_limits(system: System) -> None:
    system.write(mine="0::/box\n", machine="MemFree: 1 kB\nMemAvailable: 8 kB\n")
    assert free_memory() == 8192
    system.write(groups__box__memory_dot_max="max", groups__box__memory_dot_current="5")
    system.write(groups__box__memory_dot_stat="inactive_file 0\n")
    assert free_memory() == 8192
    system.write(groups__box__memory_dot_max="6000")
    assert free_memory() == 5995
    system.write(groups__box__memory_dot_stat="inactive_file 4\n")
    assert free_memory() == 5999
    system.write(groups__box__memory_dot_max="3")
    system.write(groups__box__memory_dot_stat="inactive_file 0\n")
    assert free_memory() == 0
    system.write(machine="nonsense")
    assert free_memory() is None
