"""What onnxruntime tells of itself, for programs that ask."""

from __future__ import annotations

from typing import Final

from nnefc.support.package import VERSION

CPU: Final = "CPUExecutionProvider"


def get_available_providers() -> list[str]:
    """The providers of `InferenceSession`: `CPUExecutionProvider`."""
    return [CPU]


def get_all_providers() -> list[str]:
    """`["CPUExecutionProvider"]`, as `get_available_providers`."""
    return [CPU]


def get_device() -> str:
    """`CPU`."""
    return "CPU"


def get_version_string() -> str:
    """The version of nnefc."""
    return VERSION


def set_default_logger_severity(severity: int) -> None:
    """Accept a severity, which has no effect: nnefc writes no log."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """Accept a verbosity, which has no effect: nnefc writes no log."""


def disable_telemetry_events() -> None:
    """Do nothing: nnefc sends nothing to anybody."""


def enable_telemetry_events() -> None:
    """Do nothing, as `disable_telemetry_events`."""
