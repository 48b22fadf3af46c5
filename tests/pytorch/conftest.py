"""PyTorch runs as it is written: its own compiler takes minutes, and is not what is tested."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    """The exporter compiles a function that unpacks weights of 4 bits."""
    torch = pytest.importorskip("torch")
    with torch.compiler.set_stance("force_eager"):
        yield
