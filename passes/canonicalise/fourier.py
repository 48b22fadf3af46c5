"""Rules of `canonicalise` for Fourier transforms: real inputs, and unused results."""

from __future__ import annotations

from nnefc.ir import Op
from nnefc.ops.standard.slice_pad_tile_gather import slice_ranges
from nnefc.passes.canonicalise.rules import NewOp, Result, rule
from nnefc.passes.op_queries import is_zero, producer

_NAMES = ("fft", "stft")


@rule(*_NAMES)
def _of_real_numbers(op: Op) -> Result:
    """Remove imaginary parts that are zero."""
    pad = producer(op.inputs[0], "pad")
    if pad is None or op.attributes.get("inverse") or pad.attributes["border"] != "constant":
        return None
    *others, last = pad.attributes["padding"]
    if any(padding != (0, 0) for padding in others) or last != (0, 1):
        return None
    if pad.inputs[0].type.dims[-1] != 1 or not is_zero(pad.attributes["value"], 1.0):
        return None
    return NewOp(op.name, [pad.inputs[0], *op.inputs[1:]], op.attributes)


@rule("slice")
def _first_results(op: Op) -> Result:
    """Compute only the results that a slice takes."""
    transform = producer(op.inputs[0], *_NAMES)
    if transform is None or len(transform.output.users) > 1:
        return None
    a = op.attributes
    dims = op.inputs[0].type.dims
    axis: int = transform.attributes["axis"] + (transform.name == "stft")
    taken = slice_ranges(dims, a["axes"], a["begin"], a["end"], a.get("stride", ()))
    whole = all(r.take_all(n) for d, (r, n) in enumerate(zip(taken, dims)) if d != axis)
    bins = taken[axis].count
    if not whole or not taken[axis].take_all(bins):
        return None
    attributes = {**transform.attributes, "bins": bins}
    return NewOp(transform.name, transform.inputs, attributes)
