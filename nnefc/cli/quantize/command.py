"""`nnefc quantize`: write a model with codes of 8 bits, and show the noise of every layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from nnefc.cli.convert.command import ONNX, To, check_format, check_target
from nnefc.cli.convert.report import conversion_facts
from nnefc.cli.quantize.options import ChoiceOptions, SampleOptions
from nnefc.cli.quantize.page import quantized_page, weights_page
from nnefc.cli.quantize.report import print_quantized, quantized_facts, saturation_warnings
from nnefc.cli.quantize.weights import print_weights, write_weights
from nnefc.cli.quantize.write import write_model, write_page
from nnefc.cli.support.diagnostics import naming_file, report
from nnefc.cli.support.import_and_compile import read
from nnefc.cli.support.option_groups import DocumentOptions
from nnefc.cli.support.options import Json, Model, Threads, usage
from nnefc.cli.support.outputs import check_suffix
from nnefc.cli.support.printing import print_json, progress

if TYPE_CHECKING:
    from nnefc.driver.quantize.config import QuantizeConfig
    from nnefc.driver.quantize.quantize_graph import Quantized
    from nnefc.driver.quantize.samples import Pictures
    from nnefc.emit.convert.nnef_model import NnefModel
    from nnefc.emit.convert.onnx.model import OnnxModel
    from nnefc.emit.convert.tract_model import To as Language
    from nnefc.frontends.common.graph_source import GraphSource, Shapes
    from nnefc.ir import Graph
    from nnefc.options.import_config import ImportConfig

Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        "-d",
        help="Samples of the inputs: a folder with .npy, .npz and .dat files and pictures, or one "
        "such file. Axis 0 of an array may have several samples; an .npz has inputs by name. "
        "Needed without --weights.",
    ),
]
Output = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        readable=False,
        help="What to write: an ONNX file (.onnx) with QuantizeLinear and DequantizeLinear, an "
        "NNEF archive (.tgz, .tar.gz, .tar) with graph.quant, or a folder with both. With "
        "--weights: an ONNX file with MatMulNBits, or NNEF in the dialect of tract.",
    ),
]
Html = Annotated[
    Path | None,
    typer.Option(
        readable=False,
        help="Write a page with bars for the noise and the saturation of every layer.",
    ),
]


def quantize(
    model: Model,
    output: Output,
    choices: ChoiceOptions,
    pictures: SampleOptions,
    data: Data = None,
    to: To = "auto",
    html: Html = None,
    threads: Threads = None,
    json: Json = False,
    *,
    document: DocumentOptions,
) -> None:
    """Quantize a model after training: convolutions and matrix products read codes of 8 bits.

    Weights become int8 with one scale per channel; activations become codes with one scale and a
    zero point, chosen from the values that they have for samples. The samples should be like those
    of later calls; some hundreds suffice.

    The table has a row for each layer and output: the ranges of the operands that became codes, and
    the ratio of signal to noise in decibels, measured on the samples. The noise of a layer
    includes that of the layers before it. Outputs also have the measure that --keep 0.5% limits.

    With --weights q8_0 or q4_0, only weights are quantized, in blocks of 32, and nothing is run.

    Examples:

        nnefc quantize net.onnx --data samples/ -o net-int8.onnx

        nnefc quantize net.nnef.tgz -d pictures/ --mean 0.5 --std 0.25 -o net-int8.nnef.tgz

        nnefc quantize net.onnx --data samples/ --keep 0.5% -o net-int8.onnx

        nnefc quantize net.onnx --data samples/ --signal-to-noise 30 -o net-int8.onnx

        nnefc quantize net.onnx --data samples/ --equalise --html report.html -o net-int8.onnx

        nnefc quantize llm.onnx --weights q4_0 -o llm-q4.onnx
    """
    check_target(model, output)
    check_format(to, output)
    check_suffix("--html", html, ".html")
    importing = document.config_of(model)
    if choices.weights is not None:
        samples = {"--data": data, **pictures.given()}
        config = choices.weights_config(samples)
        facts = write_weights(model, importing, config, output, to)
        page, show = weights_page, print_weights
    elif data is None:
        raise usage("--data is missing", "or --weights q8_0, to quantize weights alone")
    else:
        options = choices.config(threads), pictures.pictures()
        facts = _write_codes(model, importing, *options, data, output, to)
        page, show = quantized_page, print_quantized
    write_page(html, page(facts) if html is not None else "")
    print_json(facts) if json else show(facts)


def _write_codes(
    model: str,
    importing: ImportConfig,
    config: QuantizeConfig,
    how: Pictures,
    data: Path,
    output: Path,
    to: str,
) -> dict[str, Any]:
    """Write a model whose products read codes; returns the facts for JSON."""
    from nnefc.driver.quantize.layer_noise import layer_noise
    from nnefc.driver.quantize.quantize_graph import quantize_graph
    from nnefc.driver.quantize.samples import Folder

    source, graph = _read(model, importing, data)
    samples = Folder.of(data, graph.inputs, how)
    with progress("observing", late=True) as advance:
        quantized = quantize_graph(graph, samples, config, advance)
    with naming_file(model):
        written = _converted(quantized, source, importing.shapes, output, to)
    with progress("comparing", late=True) as advance:
        rows = layer_noise(quantized, samples, config.threads, advance)
    files = write_model(written, output)
    facts = conversion_facts(written.converted, output, files)
    facts = quantized_facts(facts, config, quantized, rows)
    report(saturation_warnings(facts))
    return facts


def _read(model: str, config: ImportConfig, data: Path) -> tuple[Graph | GraphSource, Graph]:
    """The model, and its graph for the extents of the samples."""
    from nnefc.driver.quantize.quantize_graph import require_quantizable
    from nnefc.driver.quantize.sample_shapes import shapes_of_samples
    from nnefc.emit.convert.extents import require_values
    from nnefc.ir import Graph

    source = read(model, config._replace(records=False), sources=True)
    graph = source
    if not isinstance(graph, Graph):
        require_values(graph, config.shapes)
        graph = graph.graph({**shapes_of_samples(graph.types(), data), **config.shapes})
    require_quantizable(graph)
    return source, graph


def _converted(
    quantized: Quantized, source: Graph | GraphSource, shapes: Shapes, output: Path, to: str
) -> NnefModel | OnnxModel:
    """What is to be written: the quantized model, whose symbols stay symbols."""
    from nnefc.emit.convert.extents import Extents, symbolic_form
    from nnefc.ir import Graph
    from nnefc.support.errors import Diagnostics

    graph, extents = quantized.graph, Extents()
    if not isinstance(source, Graph) and source.unbound(shapes):
        symbolic, extents = symbolic_form(source, shapes, Diagnostics())
        graph = quantized.applied_to(symbolic)
    if output.name.lower().endswith(ONNX):
        from nnefc.frontends.onnx.package import require_onnx

        require_onnx(str(output))
        from nnefc.emit.convert.onnx.model import onnx_model

        return onnx_model(graph, extents)
    from nnefc.emit.convert.nnef_quantized import document_of_codes

    return document_of_codes(graph, extents, cast("Language", to))
