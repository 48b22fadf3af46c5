"""`quantize`: from a model of reals and samples to a graph with codes of 8 bits."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

from nnefc.api.importing import graph_from
from nnefc.options.arguments import check_flags, check_names, check_progress
from nnefc.options.import_config import IMPORT_OPTIONS, ImportOptions, Path

if TYPE_CHECKING:
    from nnefc.ir import Graph
    from nnefc.support.progress import Progress


def quantize(
    source: Path | Graph,
    data: str | os.PathLike[str] | Iterable[Any] | Mapping[str, Any],
    *,
    activations: Literal["uint8", "int8"] = "uint8",
    observer: Literal["min-max", "percentile", "entropy", "mean-square"] = "mean-square",
    percentile: float | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    layout: Literal["auto", "nchw", "nhwc"] = "auto",
    threads: int | None = None,
    progress: Progress | None = None,
    strict: bool = False,
    **options: Unpack[ImportOptions],
) -> Graph:
    """Quantize a model after training: convolutions and matrix products read codes of 8 bits.

    Weights become int8 codes with one scale per channel.  Activations become codes with one scale
    and a whole zero point, chosen from the values that they have for samples.  Biases and all other
    operations stay as they are.  `nnefc.compile` takes the graph.

    Args:
        source: As for `import_model`, or a graph, which is not modified.
        data: Samples of the inputs, usually some hundreds: an array for a model with one input, a
            dict of arrays by name, an iterable of both, or a folder of .npy, .npz and .dat files
            and pictures.  Axis 0 of an array may have several samples.
        activations: The type of the codes of activations.
        observer: How the range of an activation is chosen.  "min-max" covers all values,
            "percentile" leaves out the outermost ones, "entropy" keeps the distribution of values
            by Kullback-Leibler divergence, "mean-square" has the least mean square error.
        percentile: For the observer "percentile": the percentage of values in the range; None:
            99.99.
        mean: Subtracted from the values 0..1 of pictures: a number, or one for each channel.
        std: Divides the values of pictures after that.
        layout: Axes of inputs that take pictures; "auto": "nhwc" if only the last axis can have
            the channels.
        threads: Threads that run the model on the samples; None: all usable CPUs.
        progress: Called as `progress(done, total, label)` before each sample, and at the end.
        strict: As for `import_model`; not with a graph.
        options: As for `compile`; not with a graph.

    Returns:
        A graph with operations `quantize` and `dequantize`.

    Raises:
        NnefError: `quantization/...` for samples that do not fit or give NaN, and for models
            without products or with states; as `import_model` does.
    """
    from nnefc.driver.quantize.config import QuantizeConfig
    from nnefc.driver.quantize.quantize_graph import quantize_graph, require_quantizable
    from nnefc.driver.quantize.samples import Pictures, read_samples

    check_names(quantize, options, IMPORT_OPTIONS)
    check_progress(progress)
    check_flags(strict=strict)
    config = QuantizeConfig.of(activations, observer, percentile, threads)
    graph = graph_from(source, strict=strict, **options)
    require_quantizable(graph)
    samples = read_samples(data, graph.inputs, Pictures(mean, std, layout))
    return quantize_graph(graph, samples, config, progress).graph
