"""Print the codes and the noise of the layers of a quantized model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from nnefc.cli.support.printing import console, count, print_table, size, table

if TYPE_CHECKING:
    from nnefc.driver.quantize.agreement import Agreement
    from nnefc.driver.quantize.config import QuantizeConfig
    from nnefc.driver.quantize.layer_noise import LayerNoise
    from nnefc.driver.quantize.quantize_graph import Quantized
    from nnefc.ir import Value
    from nnefc.support.errors import Diagnostic

MOST_SATURATED: Final = 0.05
"""The part of the values of a tensor outside of its codes above which there is a warning."""


def quantized_facts(
    written: Mapping[str, Any],
    config: QuantizeConfig,
    quantized: Quantized,
    rows: Sequence[LayerNoise],
) -> dict[str, Any]:
    """The facts of a quantized model, for JSON; `written`: those of the file."""
    from nnefc.ops.tools.cost import stored_bytes

    return {
        **written,
        "weight_bytes_before": stored_bytes(quantized.reals),
        "observer": config.observer,
        "samples": max((row.noise.samples for row in rows), default=0),
        "layers": [
            {
                "layer": row.name,
                "operation": row.operation,
                **({} if row.operation == "output" else {"quantized": not row.kept}),
                "signal_to_noise": row.noise.decibels,
                **_agreement(row.agreement),
                "activations": [
                    _activation(quantized, value) for value in row.activations if not row.kept
                ],
            }
            for row in rows
        ],
    }


def _agreement(agreement: Agreement | None) -> dict[str, Any]:
    """How far an output agrees with that of the model of reals."""
    if agreement is None:
        return {}
    return {
        "measure": agreement.measure,
        "agreement": agreement.value,
        "loss_percent": agreement.loss,
    }


def _activation(quantized: Quantized, value: Value) -> dict[str, Any]:
    """The observed range and the codes of an operand."""
    from nnefc.driver.quantize.codes import real_limits

    histogram, parameters = quantized.histograms[value], quantized.parameters[value]
    limits, half = real_limits(parameters), parameters.scale / 2
    return {
        "tensor": value.name,
        "low": histogram.low,
        "high": histogram.high,
        "code_low": limits.low,
        "code_high": limits.high,
        "scale": parameters.scale,
        "zero_point": parameters.zero_point,
        "dtype": str(parameters.dtype),
        # the scale is rounded, so the largest value may lie little outside
        "saturated": histogram.part_outside(limits.low - half, limits.high + half),
    }


def print_quantized(facts: Mapping[str, Any]) -> None:
    """Print a row for each layer and output, and what was written."""
    out = console()
    numeric = ["scale", "zero point", "signal to noise", "agreement"]
    view = table("layer", "operation", "values", *numeric, numeric=numeric)
    for row in facts["layers"]:
        operands = row["activations"]
        view.add_row(
            row["layer"],
            row["operation"],
            ", ".join(map(values_text, operands))
            or ("" if row.get("quantized", True) else "reals"),
            ", ".join(f"{each['scale']:.4g}" for each in operands),
            ", ".join(str(each["zero_point"]) for each in operands),
            decibels(row["signal_to_noise"]),
            agreement_text(row),
        )
    print_table(out, view, optional=["values", "zero point", "scale"])
    for line in summary(facts):
        out.print(line, soft_wrap=True)


def values_text(operand: Mapping[str, Any]) -> str:
    """The range of the values of an operand, and that of the codes if it is smaller."""
    low, high, scale = operand["low"], operand["high"], operand["scale"]
    codes = operand["code_low"], operand["code_high"]
    text = f"{low:.4g} to {high:.4g}"
    if codes[0] - low <= scale and high - codes[1] <= scale:
        return text
    return f"{text} (codes: {codes[0]:.4g} to {codes[1]:.4g})"


def saturation_warnings(facts: Mapping[str, Any]) -> list[Diagnostic]:
    """Warnings about the layers that read codes of which many are the first or the last one."""
    from nnefc.support.errors import Diagnostic, Place

    found = {
        row["layer"]: each["saturated"]
        for row in facts["layers"]
        for each in row["activations"]
        if each["saturated"] > MOST_SATURATED
    }
    if not found:
        return []
    listed = ", ".join(f"{name} {part:.0%}" for name, part in [*found.items()][:5])
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    message = f"layers read many values outside of the range of the codes: {listed}{more}"
    hint = "take --observer mean-square or min-max" if facts["observer"] != "min-max" else ""
    place = Place(str(facts["output"]))
    return [Diagnostic("quantization/saturation", message, place, "warning", (), hint)]


def summary(facts: Mapping[str, Any]) -> list[str]:
    """The samples and the written file, in two lines."""
    before, after = facts["weight_bytes_before"], facts["weight_bytes"]
    return [
        f"{count(facts['samples'], 'sample')}, ranges by {facts['observer']}",
        f"wrote {facts['output']}: {facts['format']}, weights {size(after)} instead of "
        f"{size(before)}",
    ]


def agreement_text(row: Mapping[str, Any]) -> str:
    """The measure of an output and its value; empty for layers."""
    match row.get("measure"):
        case "top-1":
            return f"top-1 {100 * row['agreement']:.4g} %"
        case "cosine":
            return f"cosine {row['agreement']:.5f}"
        case "psnr":
            return f"psnr {decibels(row['agreement'])}"
        case _:
            return ""


def decibels(ratio: float) -> str:
    """A ratio in decibels; infinite without noise."""
    if math.isnan(ratio):
        return "all 0"
    return "no noise" if ratio == math.inf else f"{ratio:.1f} dB"
