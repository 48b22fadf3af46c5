"""Quantized networks for MNN, which cannot read quantized ONNX files.

Its own tools quantize the same float32 network: `mnnquant` observes the same inputs and makes
weights int8 with a scale per channel and activations int8 with a scale per tensor; `mnnconvert
--weightQuantBits 8` leaves activations to each run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.artifacts import Network
from benchmarks.quantized.files import SAMPLES, Method

_TOOL: Final = "import sys, _tools; _tools.{}(sys.argv)"
"""A command of MNN without its telemetry, which installs packages into the environment."""


def convert(network: Network, source: Path, target: Path) -> None:
    """Write `target` from the float32 ONNX file `source`, unless it exists."""
    if target.exists():
        return
    options = ["-f", "ONNX", "--bizCode", "nnefc", "--modelFile", str(source), "--MNNModel"]
    with TemporaryDirectory(dir=network.folder) as temporary:
        folder = Path(temporary)
        made = folder / "made.mnn"
        if network.folder.name == Method.DYNAMIC:
            _run("mnnconvert", [*options, str(made), "--weightQuantBits", "8"], made)
        else:
            plain, settings = folder / "plain.mnn", folder / "settings.json"
            _run("mnnconvert", [*options, str(plain)], plain)
            settings.write_text(json.dumps(_settings(network, folder / "samples")))
            _run("mnnquant", [str(plain), str(made), str(settings)], made)
        made.replace(target)


def _settings(network: Network, folder: Path) -> dict[str, Any]:
    """Write inputs to observe; returns the settings of `mnnquant`."""
    for i in range(SAMPLES):
        sample = folder / str(i)
        sample.mkdir(parents=True)
        arrays = network.arrays(2 + i)
        inputs = [{"name": name, "shape": list(array.shape)} for name, array in arrays.items()]
        described = {"inputs": inputs, "outputs": list(network.outputs)}
        (sample / "input.json").write_text(json.dumps(described))
        for name, array in arrays.items():
            numbers = map(str, array.ravel().tolist())
            (sample / f"{name}.txt").write_text("\n".join(numbers))
    return {
        "path": f"{folder}/",
        "input_type": "sequence",
        "used_sample_num": SAMPLES,
        "batch_size": 1,
        "quant_bits": 8,
        "feature_quantize_method": "KL",
        "weight_quantize_method": "MAX_ABS",
        "feature_clamp_value": 127,
        "weight_clamp_value": 127,
    }


def _run(tool: str, options: list[str], made: Path) -> None:
    # in a process of its own, because a failing tool may end it
    command = [sys.executable, "-c", _TOOL.format(tool), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if not made.exists():
        raise RuntimeError(f"{tool}: {(done.stdout + done.stderr).strip()[-200:]}")
