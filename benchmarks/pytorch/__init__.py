"""nnefc on modules of PyTorch, against PyTorch's own ways to run them and OpenVINO."""

from __future__ import annotations

from typing import Final

OURS: Final = ("nnefc", "backend")
TITLES: Final = {
    "nnefc": "nnefc",
    "backend": "nnefc's backend",
    "eager": "PyTorch eager",
    "inductor": "Inductor",
    "openvino": "OpenVINO",
}
