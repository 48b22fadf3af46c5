"""Fixtures for the kernel benchmarks (`pytest benchmarks/kernels`)."""

from __future__ import annotations

from typing import Any

import pytest

from nnefc.runtime.machine.roofline import Roofline
from nnefc.runtime.machine.roofline import measure_roofline as measure_machine


@pytest.fixture(scope="session")
def machine() -> Roofline:
    """The limits of one thread, measured once per session."""
    return measure_machine(1, 0.5)


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: Any) -> None:
    """Add the limits of one thread to the JSON of pytest-benchmark."""
    limits = measure_machine(1, 0.5)
    machine_info["limits"] = {
        "fma_gflops": limits.fma_gflops,
        "read_gbps": limits.read_gbps,
        "copy_gbps": limits.copy_gbps,
    }
