"""`nnefc quantize --weights`: write a model whose weights are in blocks, and show their noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnefc.cli.convert.command import ONNX
from nnefc.cli.convert.report import conversion_facts
from nnefc.cli.quantize.onnx_weights import editable, edited
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
    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.ir import Graph
    from nnefc.options.import_config import ImportConfig


def write_weights(
    model: str, importing: ImportConfig, config: WeightsConfig, output: Path, to: str
) -> dict[str, Any]:
    """Write a model with its weights in blocks; returns the facts for JSON."""
    if to == "nnef":
        message = "NNEF 1.0.2 has no weights in blocks"
        raise NnefError.of("input/argument", message, hint="leave out --to, or give --to tract")
    source = read(model, importing._replace(records=False), sources=True)
    with naming_file(model):
        written, weights, before = _quantized(source, importing, config, output)
    files = write_model(written, output)
    return {
        **conversion_facts(written.converted, output, files),
        "weight_bytes_before": before,
        "blocks": config.format,
        "weights": list(map(_row, weights)),
    }


def _quantized(
    source: Graph | GraphSource, importing: ImportConfig, config: WeightsConfig, output: Path
) -> tuple[NnefModel | OnnxModel, Sequence[BlockWeight], int]:
    """(what is to be written, all matrices, bytes of weights before)"""
    from nnefc.driver.quantize.weights_in_blocks import weights_in_blocks
    from nnefc.emit.convert.extents import Extents, require_values, symbolic_form
    from nnefc.ir import Graph
    from nnefc.ops.tools.cost import stored_bytes
    from nnefc.support.errors import Diagnostics

    with progress("rounding weights", late=True) as advance:
        model = editable(source, importing, output)
        if model is not None:
            return edited(model, config, advance)
        graph, extents = source, Extents()
        if not isinstance(graph, Graph):
            require_values(graph, importing.shapes)
            graph, extents = symbolic_form(graph, importing.shapes, Diagnostics())
        quantized = weights_in_blocks(graph, *config, advance)
        before = stored_bytes(quantized.reals)
        return _converted(quantized, extents, output), quantized.weights, before


def _converted(quantized: WeightsInBlocks, extents: Extents, output: Path) -> NnefModel | OnnxModel:
    """What is to be written."""
    from nnefc.emit.convert.tract_model import tract_model
    from nnefc.support.block_formats import TRACT_FORMATS

    if not output.name.lower().endswith(ONNX):
        because = [f"weights in blocks, {quantized.format}"]
        return tract_model(quantized.graph, extents, because, TRACT_FORMATS)
    from nnefc.frontends.onnx.package import require_onnx

    require_onnx(str(output))
    from nnefc.emit.convert.onnx.model import onnx_model

    return onnx_model(quantized.graph, extents)


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
