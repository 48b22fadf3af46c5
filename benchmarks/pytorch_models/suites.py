"""The suites by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from benchmarks.pytorch_models.model_case import Suite

SUITES: Final[Mapping[str, str]] = {
    "torchvision": "torchvision",
    "detection": "torchvision",
    "timm": "timm",
    "transformers": "transformers",
    "generate": "transformers",
}
"""The packages of the suites."""


def suite(name: str) -> Suite:
    """A suite; imports its package, which must be installed."""
    return import_module(f"benchmarks.pytorch_models.{name}_models").SUITE
