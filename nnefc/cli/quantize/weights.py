"""`nnefc quantize --weights`: write a model whose weights are in blocks, and show their noise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnefc.cli.convert.command import ONNX
from nnefc.cli.convert.report import conversion_facts
from nnefc.cli.quantize.report import decibels
from nnefc.cli.quantize.write import write_model
from nnefc.cli.support.diagnostics import naming_file
from nnefc.cli.support.import_and_compile import read
from nnefc.cli.support.printing import console, print_table, progress, size, table
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from nnefc.driver.quantize.config import WeightsConfig
    from nnefc.driver.quantize.weights_in_blocks import BlockWeight, WeightsInBlocks
    from nnefc.emit.convert.extents import Extents
    from nnefc.emit.convert.nnef_model import NnefModel
    from nnefc.emit.convert.onnx.model import OnnxModel
    from nnefc.options.import_config import ImportConfig


def write_weights(
    model: str, importing: ImportConfig, config: WeightsConfig, output: Path, to: str
) -> dict[str, Any]:
    """Write a model with its weights in blocks; returns the facts for JSON."""
    from nnefc.driver.quantize.weights_in_blocks import weights_in_blocks
    from nnefc.emit.convert.extents import Extents, require_values, symbolic_form
    from nnefc.ir import Graph
    from nnefc.support.errors import Diagnostics

    if to == "nnef":
        message = "NNEF 1.0.2 has no weights in blocks"
        raise NnefError.of("input/argument", message, hint="leave out --to, or give --to tract")
    graph, extents = read(model, importing, sources=True), Extents()
    with naming_file(model):
        if not isinstance(graph, Graph):
            require_values(graph, importing.shapes)
            graph, extents = symbolic_form(graph, importing.shapes, Diagnostics())
        with progress("rounding weights", late=True) as advance:
            quantized = weights_in_blocks(graph, *config, advance)
        written = _converted(quantized, extents, output)
    files = write_model(written, output)
    return weights_facts(conversion_facts(written.converted, output, files), quantized)


def _converted(quantized: WeightsInBlocks, extents: Extents, output: Path) -> NnefModel | OnnxModel:
    """What is to be written."""
    from nnefc.emit.convert.tract_model import tract_model
    from nnefc.support.block_formats import BLOCK_BYTES

    if not output.name.lower().endswith(ONNX):
        because = [f"weights in blocks, {quantized.format}"]
        return tract_model(quantized.graph, extents, because, tuple(BLOCK_BYTES))
    from nnefc.frontends.onnx.package import require_onnx

    require_onnx(str(output))
    from nnefc.emit.convert.onnx.model import onnx_model

    return onnx_model(quantized.graph, extents)


def weights_facts(written: Mapping[str, Any], quantized: WeightsInBlocks) -> dict[str, Any]:
    """The facts of a model with weights in blocks, for JSON; `written`: those of the file."""
    from nnefc.ops.tools.cost import stored_bytes

    return {
        **written,
        "weight_bytes_before": stored_bytes(quantized.reals),
        "blocks": quantized.format,
        "weights": list(map(_row, quantized.weights)),
    }


def _row(weight: BlockWeight) -> dict[str, Any]:
    noise = weight.noise
    return {
        "layer": weight.name,
        "operation": weight.operation,
        "shape": list(weight.shape),
        "quantized": noise is not None,
        **({"reason": weight.reason} if noise is None else {}),
        "signal_to_noise": None if noise is None else noise.decibels,
        "bytes_before": weight.bytes_before,
        "bytes_after": weight.bytes_before if noise is None else weight.bytes_after,
    }


def print_weights(facts: Mapping[str, Any]) -> None:
    """Print a row for each matrix, and what was written."""
    out = console()
    numeric = ["before", "after", "signal to noise"]
    view = table("layer", "operation", "shape", *numeric, numeric=numeric)
    for row in facts["weights"]:
        sizes = size(row["bytes_before"]), size(row["bytes_after"])
        shape = "x".join(map(str, row["shape"]))
        view.add_row(row["layer"], row["operation"], shape, *sizes, outcome(row))
    print_table(out, view, optional=["operation", "shape"])
    for line in summary(facts):
        out.print(line, soft_wrap=True)


def outcome(row: Mapping[str, Any]) -> str:
    """The noise of a matrix, or why it stays."""
    return decibels(row["signal_to_noise"]) if row["quantized"] else f"reals: {row['reason']}"


def summary(facts: Mapping[str, Any]) -> list[str]:
    """The written file in a line, and another one if tract cannot run it."""
    sizes = f"{size(facts['weight_bytes'])} instead of {size(facts['weight_bytes_before'])}"
    lines = [f"wrote {facts['output']}: {facts['format']}, weights in {facts['blocks']}, {sizes}"]
    if facts["blocks"] == "q8_0" and "tract" in facts["format"]:
        lines.append("tract 0.23 reads these blocks, but multiplies only those of q4_0")
    return lines
