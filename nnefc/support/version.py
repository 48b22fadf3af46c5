"""The version of nnefc."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
"""As in `pyproject.toml`."""
