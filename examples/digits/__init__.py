"""Handwritten digits: a small trained network and data that it has not seen.

Installed as `nnefc.cli.digits`; `nnefc demo` runs it.  `train.py` makes the files.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent

ARCHIVE = FOLDER / "digits.nnef.tgz"
"""The network: image float32[1,1,8,8] in 0..1 to probabilities float32[1,10]."""

INT8 = FOLDER / "digits_int8.nnef.tgz"
"""The network after `nnefc quantize`: NNEF 1.0.2 with graph.quant, weights of 8 bits."""

IMAGES = FOLDER / "images"
"""One PNG per digit, `0.png` to `9.png`, from the held-out part."""

HELD_OUT = FOLDER / "held_out.npz"
"""450 images the network was not trained on: images uint8[450,8,8] in 0..16, labels uint8[450]."""
