"""Why operations other than products compute on reals, although operands have codes."""

from __future__ import annotations

from collections.abc import Set

from nnefc.ir import Graph, Op
from nnefc.passes.analysis.code_parameters import code_parameters
from nnefc.passes.analysis.known_data import KnownValues
from nnefc.passes.analysis.selections import SELECTIONS, on_codes, selected
from nnefc.passes.op_queries import is_elementwise, is_view
from nnefc.passes.quantize import fuse_code_resize, sum_codes

DEQUANTIZE = "dequantize"
PRODUCTS = ("matmul", "conv", "deconv")
"""Operations whose reasons are those of `passes.quantize.fuse_integers`."""


def operations_on_reals(graph: Graph, quantized: Set[Op]) -> list[tuple[Op, str]]:
    """The operations that read dequantized tensors as reals, and reasons.

    `graph`: after the passes on codes, before what is left is expanded.
    `quantized`: its `quantized_results`.
    """
    known, reasons = KnownValues(graph), list[tuple[Op, str]]()
    for op in graph.ops:
        sources = [v.op for v in op.inputs if v.op is not None and v.op.name == DEQUANTIZE]
        # known codes become known reals
        if not any(source.inputs[0] not in known for source in sources):
            continue
        reason = _reason(op, quantized)
        if reason is not None:
            reasons.append((op, reason))
    return reasons


def _reason(op: Op, quantized: Set[Op]) -> str | None:
    """Why an operation with a dequantized operand computes on reals; None if codes suffice."""
    if op.name in (*PRODUCTS, "quantize") or is_view(op):
        return None
    if is_elementwise(op):
        return None if op in quantized else "the result is not quantized"
    resizes = op.name in fuse_code_resize.ON_CODES and (
        op.attributes.get("interpolator", "linear") != "nearest"
    )
    if op.name not in SELECTIONS and op.name not in sum_codes.ON_CODES and not resizes:
        return "there is no kernel for codes"
    found = [code_parameters(v.op, DEQUANTIZE) for v in selected(op)]
    if None in found:
        return "an operand has no codes with one known scale"
    if len(set(found)) > 1:
        return "scales or zero points of operands differ, and the result is not quantized"
    codes = found[0]
    assert codes is not None
    if resizes:
        return fuse_code_resize.float_reason(op)
    if op.name in sum_codes.ON_CODES:
        return sum_codes.float_reason(op, codes)
    attributes = on_codes(op, codes)
    return attributes if isinstance(attributes, str) else None


def quantized_results(graph: Graph) -> set[Op]:
    """The operations with a quantized result, perhaps behind further element-wise operations."""
    found = set[Op]()
    for op in reversed(list(graph.ops)):
        users = [user for value in op.outputs for user in value.users]
        if any(u.name == "quantize" or (u in found and is_elementwise(u)) for u in users):
            found.add(op)
    return found
