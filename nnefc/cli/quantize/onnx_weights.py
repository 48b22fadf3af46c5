"""Weights in blocks in an ONNX file whose other nodes stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from nnefc.driver.quantize.block_codes import Array
    from nnefc.driver.quantize.config import WeightsConfig
    from nnefc.driver.quantize.weights_in_blocks import BlockWeight
    from nnefc.emit.convert.onnx.model import OnnxModel
    from nnefc.emit.convert.onnx.stored_weights import OnnxMatrix
    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.frontends.onnx.model import OnnxModel as ReadModel
    from nnefc.ir import Graph
    from nnefc.options.import_config import ImportConfig
    from nnefc.support.progress import Progress


def editable(
    source: Graph | GraphSource, importing: ImportConfig, output: Path
) -> ReadModel | None:
    """The ONNX model whose nodes can stay: it is written as ONNX, with its shapes and symbols."""
    from nnefc.cli.convert.command import ONNX

    if not output.name.lower().endswith(ONNX) or importing.shapes or importing.symbols:
        return None
    from nnefc.ir import Graph

    if isinstance(source, Graph) or source.description()["dialect"] != "onnx":
        return None
    from nnefc.emit.convert.onnx.stored_weights import can_be_edited
    from nnefc.frontends.onnx.source import OnnxSource

    if not isinstance(source, OnnxSource) or not can_be_edited(source.model):
        return None
    return source.model


def edited(
    model: ReadModel, config: WeightsConfig, progress: Progress | None = None
) -> tuple[OnnxModel, list[BlockWeight], int]:
    """(the model with its weights in blocks, all matrices, bytes of weights before)

    Raises NnefError as `weights_in_blocks` does.
    """
    from nnefc.driver.quantize.block_codes import STORED
    from nnefc.driver.quantize.variables import require_finite_items
    from nnefc.driver.quantize.weights_in_blocks import BlockWeight, choose, rounded_rows
    from nnefc.emit.convert.onnx.stored_weights import (
        edited_model,
        matrices_of,
        rows_of,
        weight_bytes,
    )

    matrices = matrices_of(model)
    weights = [
        BlockWeight(each.name, each.operation, each.shape, each.nbytes, each.reason)
        for each in matrices
    ]
    choose(weights, config.keep)
    blocks: dict[OnnxMatrix, Array] = {}
    for i, (matrix, weight) in enumerate(zip(matrices, weights, strict=True)):
        if progress is not None:
            progress(i, len(matrices), weight.name)
        if weight.reason:
            continue
        rows = rows_of(model, matrix)
        require_finite_items(matrix.tensor, rows)
        made = rounded_rows(rows, config.format)
        if made is None:
            weight.reason = "a scale exceeds float16"
            continue
        blocks[matrix], weight.noise = made
        weight.bytes_after = blocks[matrix].nbytes
    written = edited_model(model, blocks, STORED[config.format])
    return written, weights, weight_bytes(model.proto)
