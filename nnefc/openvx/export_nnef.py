"""Write a graph of layers as an NNEF document with a quantization file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from nnefc.support.errors import Diagnostics

if TYPE_CHECKING:
    from nnefc.emit.convert.nnef_model import NnefModel
    from nnefc.frontends.openvx.layers import Layer
    from nnefc.support.limits import Limits

RULE: Final = "openvx/export"
COMMENT: Final = "# A graph of OpenVX layers.\n"
COMMENT_ON_CODES: Final = """\
# The quantization file says how tensors are rounded: those of U8 and S8 to whole numbers, those of
# Q7.8 to multiples of 1/256.  Halves go up, where the text of OpenVX rounds them to even codes, or
# everything towards zero: results of a layer differ from the text's by one unit at most.  Those of
# the conformance suite's arithmetic may differ by more.
"""


def document_of_layers(layers: Sequence[Layer], limits: Limits) -> NnefModel:
    """The document; raises NnefError with every violated rule, or with every layer that NNEF 1.0.2
    cannot say.
    """
    from nnefc.emit.convert.nnef_quantized import quantized_document
    from nnefc.frontends.openvx.build_graph import build_graph
    from nnefc.frontends.openvx.node_order import place
    from nnefc.frontends.openvx.reals_of_codes import CODED
    from nnefc.frontends.openvx.standard_forms import STANDARD_FORMS, refusal
    from nnefc.frontends.openvx.verify import verify

    diagnostics = Diagnostics(limit=limits.errors)
    verified = verify(layers, diagnostics)
    for layer in verified.layers:
        why = refusal(layer, verified.layouts)
        if why:
            diagnostics.error(RULE, f"NNEF 1.0.2 cannot say what it computes: {why}", place(layer))
    diagnostics.raise_errors()
    network = build_graph(verified, STANDARD_FORMS, limits, diagnostics, on_reals=True)
    network.graph.name = "layers"
    document = quantized_document(network.graph)
    has_codes = any(layout.format in CODED for layout in verified.layouts.values())
    comment = COMMENT + (COMMENT_ON_CODES if has_codes else "")
    return replace(
        document, text=comment + document.text, quantization=document.quantization or None
    )
