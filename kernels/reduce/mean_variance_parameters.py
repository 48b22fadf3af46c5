"""The parameters of `nnefc.kernels.reduce.mean_variance`."""

from __future__ import annotations

from nnefc.kernels.parameters import Layout

DIMENSIONS = 8
IN_FLIGHT = 4
"""Vectors computed at the same time."""

_FIXED = (
    f"kept_rank kept:{DIMENSIONS} reduced_rank reduced:{DIMENSIONS} volume depth width "
    "chunk chunks units unit_block part:f64 epsilon:f64"
)


def fields(operands: int) -> str:
    """Parameters, for `Layout`.

    - `x`, `y`, `o0`, ...: input, result and further operands of the expression
    - `kept`, `reduced`: extents of outer dimensions that are kept or reduced, innermost first;
      `volume`: the product of `reduced`
    - `width`: extent of the innermost dimension, along which x and y are contiguous
    - `depth`: extent of the innermost reduced dimension, if it differs from the innermost one
    - `chunk`: columns of a unit of work; `chunks`: units in a width
    - `units`: units of work; a tile is `unit_block` of them
    - `part`: the weight of an item in the mean of its row
    - `kept_x`, `reduced_x`, `depth_x`, and so on: byte strides along these dimensions
    """
    names = tensors(operands)
    references = [f"{name}:ref" for name in names]
    strides = [
        f"kept_{name}:{DIMENSIONS} reduced_{name}:{DIMENSIONS} depth_{name}" for name in names
    ]
    return " ".join([*references, _FIXED, *strides])


def tensors(operands: int) -> list[str]:
    """The parameter names of x, y and `operands` further operands."""
    return ["x", "y", *(f"o{i}" for i in range(operands))]


def offsets(operands: int) -> dict[str, int]:
    """The byte offset of each parameter by name."""
    layout = fields(operands)
    names = [field.partition(":")[0] for field in layout.split()]
    return dict(zip(names, Layout(layout).offsets, strict=True))
