"""Operations on regions of interest (NNEF 1.0.2 section 4.6)."""

from __future__ import annotations

import math

from nnefc.ir import Op
from nnefc.kernels.family import Family
from nnefc.kernels.window import roi as kernels
from nnefc.kernels.window.roi import ROI
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.movement.checked_index import index_words
from nnefc.lower.movement.strided import dense_pitches
from nnefc.lower.partition import ceil_div, units_per_tile


@lowering("avg_roi_pool", "max_roi_pool")
def roi_pool(lower: Lowering, op: Op) -> None:
    spatial = math.prod(op.inputs[0].type.dims[2:])
    _launch(lower, op, kernels.pool, op.name[:3], spatial)


@lowering("roi_resample")
def roi_resample(lower: Lowering, op: Op) -> None:
    samples = math.prod(op.attributes["output_size"]) << (op.output.type.rank - 2)
    _launch(lower, op, kernels.resample, op.attributes["method"], samples)


def _launch(lower: Lowering, op: Op, family: Family[str, str, str], kind: str, cost: int) -> None:
    """`cost`: input items read per output plane."""
    input_, rois, batch_index = op.inputs
    batch, channels, *extents = input_.type.dims
    outputs = op.output.type.dims[2:]
    units = rois.type.dims[0] * channels
    unit_block = units_per_tile(units, 4 * cost, lower.threads)
    words = ROI.pack(
        x=lower.read(input_),
        rois=lower.read(rois),
        batch_index=lower.read(batch_index),
        y=lower.write(op.output),
        batch=batch,
        channels=channels,
        rank=len(extents),
        extents=extents,
        pitches=dense_pitches(extents, 1),
        plane=math.prod(extents),
        outputs=outputs,
        cells=math.prod(outputs),
        units=units,
        unit_block=unit_block,
        shape=index_words(lower, op, batch_index, [batch], counts_from_end=False),
    )
    kernel = family(kind, str(input_.type.dtype), str(batch_index.type.dtype))
    lower.launch(kernel, words, ceil_div(units, unit_block), indices=batch_index)
