"""`quantize`: from a model of reals and samples to a graph with codes of 8 bits."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Unpack, cast

from nnefc.api.importing import graph_from
from nnefc.driver.quantize.config import (
    QUANTIZE_OPTIONS,
    QuantizeConfig,
    QuantizeOptions,
    WeightsConfig,
)
from nnefc.options.arguments import check_flags, check_names, check_progress
from nnefc.options.import_config import IMPORT_OPTIONS, ImportOptions, Path
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from nnefc.ir import Graph
    from nnefc.support.progress import Progress


def quantize(
    source: Path | Graph,
    data: str | os.PathLike[str] | Iterable[Any] | Mapping[str, Any] | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    strict: bool = False,
    **options: Unpack[QuantizeOptions],
) -> Graph:
    """Quantize a model after training: convolutions and matrix products read codes of 8 bits.

    Weights become int8 codes with one scale per channel.  Activations become codes with one scale
    and a whole zero point, chosen from the values that they have for samples, and known biases
    int32 codes.  So are the operands of additions, concatenations and means between products.  All
    other operations stay as they are.  `nnefc.compile` takes the graph.

    With `weights`, only the weights of matrix products and tables of rows are quantized, in blocks
    of 32, and no samples are needed.

    Args:
        source: As for `import_model`, or a graph, which is not modified.
        data: Samples of the inputs, usually some hundreds: an array for a model with one input, a
            dict of arrays by name, an iterable of both, or a folder of .npy, .npz and .dat files
            and pictures.  Axis 0 of an array may have several samples.  None with `weights`.
        threads: Threads that run the model on the samples; None: all usable CPUs.
        progress: Called as `progress(done, total, label)` before each sample, and at the end.
        strict: As for `import_model`; not with a graph.
        options: `weights`, `activations`, `observer`, `percentile`, `keep`, `measure`,
            `signal_to_noise`, `correct_bias`, `equalise`, `mean`, `std`, `layout`: see
            `QuantizeOptions`; and those of `compile`, not with a graph.

    Returns:
        A graph with operations `quantize` and `dequantize`, or `dequantize_blocks`.

    Raises:
        NnefError: `quantization/...` for samples that do not fit or give NaN, and for models
            without products or with states; as `import_model` does.
    """
    from nnefc.driver.quantize.quantize_graph import quantize_graph, require_quantizable
    from nnefc.driver.quantize.samples import Pictures, read_samples
    from nnefc.driver.quantize.weights_in_blocks import weights_in_blocks

    check_names(quantize, options, (*QUANTIZE_OPTIONS, *IMPORT_OPTIONS))
    check_progress(progress)
    check_flags(strict=strict)
    importing = {name: value for name, value in options.items() if name in IMPORT_OPTIONS}
    if options.get("weights") is not None:
        blocks = _weights_config(options, data)
        graph = graph_from(source, strict=strict, **cast("ImportOptions", importing))
        return weights_in_blocks(graph, *blocks, progress).graph
    config = _config(options, data, threads)
    graph = graph_from(source, strict=strict, **cast("ImportOptions", importing))
    require_quantizable(graph)
    assert data is not None
    pictures = Pictures(options.get("mean"), options.get("std"), options.get("layout", "auto"))
    samples = read_samples(data, graph.inputs, pictures)
    return quantize_graph(graph, samples, config, progress).graph


def _weights_config(options: QuantizeOptions, data: object) -> WeightsConfig:
    """The checked options for weights alone; raises NnefError with all errors."""
    samples = [] if data is None else ["data"]
    beside = (*IMPORT_OPTIONS, "weights", "keep")
    others = [name for name, value in options.items() if name not in beside and value is not None]
    return WeightsConfig.of(options.get("weights"), options.get("keep", ()), samples + others)


def _config(options: QuantizeOptions, data: object, threads: int | None) -> QuantizeConfig:
    """The checked options; raises NnefError with all errors."""
    if data is None:
        hint = "or weights='q8_0' to quantize weights alone"
        raise NnefError.of("quantization/samples", "samples of the inputs are needed", hint=hint)
    config = QuantizeConfig.of(
        options.get("activations", "uint8"),
        options.get("observer", "mean-square"),
        options.get("percentile"),
        keep=options.get("keep", ()),
        measure=options.get("measure"),
        signal_to_noise=options.get("signal_to_noise"),
        correct_bias=options.get("correct_bias", False),
        equalise=options.get("equalise", False),
        threads=threads,
    )
    repeats = config.correct_bias or config.chooses_layers
    if repeats and isinstance(data, Iterator):
        raise NnefError.of(
            "quantization/samples",
            "samples are read repeatedly to correct biases and to choose layers, but an iterator "
            "can be read only once",
            hint="give a list, an array or a folder",
        )
    return config
