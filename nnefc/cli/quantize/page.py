"""An HTML page with the noise and the saturation of every layer of a quantized model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any, Final

from nnefc.cli.quantize import weights
from nnefc.cli.quantize.report import agreement_text, decibels, summary, values_text
from nnefc.cli.support.html_page import Bar, html_table, page
from nnefc.cli.support.printing import size

MOST_DECIBELS: Final = 60.0
"""The ratio whose bar has the whole width."""
_COLUMNS: Final = [
    *("layer", "operation", "signal to noise", "", "agreement", "saturated", "", "operand"),
    *("values", "scale", "zero point"),
]


def quantized_page(facts: Mapping[str, Any]) -> str:
    """The page of `quantized_facts`."""
    rows = [row for layer in facts["layers"] for row in _rows(layer)]
    lines = "".join(f"<p>{escape(line)}</p>" for line in summary(facts))
    return page(str(facts["output"]), lines + html_table(_COLUMNS, rows))


def weights_page(facts: Mapping[str, Any]) -> str:
    """The page of `write_weights`."""
    rows: list[list[Any]] = []
    for row in facts["weights"]:
        ratio: float = row["signal_to_noise"] or 0.0
        length = min(max(ratio, 0.0), MOST_DECIBELS) / MOST_DECIBELS
        sizes = size(row["bytes_before"]), size(row["bytes_after"])
        shape = "x".join(map(str, row["shape"]))
        bar = Bar(length, weights.outcome(row))
        rows.append([row["layer"], row["operation"], shape, *sizes, weights.outcome(row), bar])
    lines = "".join(f"<p>{escape(line)}</p>" for line in weights.summary(facts))
    columns = ["layer", "operation", "shape", "before", "after", "signal to noise", ""]
    return page(str(facts["output"]), lines + html_table(columns, rows))


def _rows(layer: Mapping[str, Any]) -> list[list[Any]]:
    """The row of a layer; one more for each further operand."""
    ratio: float = layer["signal_to_noise"]
    length = 0.0 if math.isnan(ratio) else min(ratio, MOST_DECIBELS) / MOST_DECIBELS
    first: list[Any] = [layer["layer"], layer["operation"], decibels(ratio)]
    first += [Bar(length, decibels(ratio)), agreement_text(layer)]
    operands = [_operand(each) for each in layer["activations"]]
    kept = "" if layer.get("quantized", True) else "reals"
    rest = operands or [["", "", kept, "", "", ""]]
    return [first + rest[0], *(["", "", "", "", "", *each] for each in rest[1:])]


def _operand(facts: Mapping[str, Any]) -> list[Any]:
    """The cells of an operand.  A bar is as long as the root of the part: most parts are small."""
    part: float = facts["saturated"]
    return [
        f"{part:.2%}",
        Bar(math.sqrt(part), f"{part:.4%} of the values have the first or last code"),
        facts["tensor"],
        values_text(facts),
        facts["scale"],
        facts["zero_point"],
    ]
