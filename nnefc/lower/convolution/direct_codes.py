"""Direct convolution of blocked codes, requantized in registers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nnefc.ir import DType, TensorType
from nnefc.kernels.convolution import direct_codes
from nnefc.kernels.convolution.direct_codes import CODES
from nnefc.kernels.movement import widen
from nnefc.kernels.movement.widen import WIDEN
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.dot_words import PAIR_ITEM, dot_of, word_items
from nnefc.lower.blocked.tensors import Tensor
from nnefc.lower.context import Lowering
from nnefc.lower.convolution.code_convolution import CodeConvolution
from nnefc.lower.convolution.direct_launches import (
    ChannelSlice,
    channel_slices,
    choose_units,
    input_fields,
    output_blocks,
)
from nnefc.lower.convolution.direct_tables import pixel_table
from nnefc.lower.partition import ceil_div, units_per_tile
from nnefc.program.program import Ref
from nnefc.program.tables.direct import tap_runs, used_as_text, whole_run, with_digits
from nnefc.program.tables.phases import Phase, phases, pixels_of, tap_grid
from nnefc.support.machine_model import VECTOR_ITEMS_PER_NS
from nnefc.symbolic.traced_array import length, traced_call

Array = npt.NDArray[Any]

LEAST_READS: Final = 24
"""Least times that products read a code, at which a copy in 16 bits saves time."""


def lower_direct_codes(lower: Lowering, conv: CodeConvolution) -> None:
    """A convolution of one group, or of whole blocks per group."""
    _, outputs, inputs = conv.filter.shape[:3]
    blocks = conv.y.layout.block, conv.x.layout.block
    assert conv.groups == 1 or outputs % blocks[0] == inputs % blocks[1] == 0
    if conv.kind == "codes" and profits_from_pairs(conv):
        conv = replace(conv, x=widened(lower, conv.x))
    for phase in phases(conv.window):
        _launch_phase(lower, conv, phase)


def profits_from_pairs(conv: CodeConvolution) -> bool:
    """Whether a copy of x in 16 bits takes less time than it saves."""
    window, outputs = conv.window, conv.filter.shape[1]
    reads = outputs * window.volume / math.prod(window.stride)
    return not host().byte_dot and reads >= LEAST_READS


def widened(lower: Lowering, x: Tensor) -> Tensor:
    """A copy of x in 16 bits, halo included."""
    layout = replace(x.layout, itemsize=DType(PAIR_ITEM).itemsize)
    type_ = TensorType(DType(PAIR_ITEM), x.shape, layout)
    memory = lower.scratch(layout.volume(x.shape) * layout.itemsize, "widened")
    y = Tensor.whole(memory, type_)
    planes, items = x.batch * x.blocks, math.prod(layout.extents(x.shape)) * layout.block
    plane_block = units_per_tile(planes, items / VECTOR_ITEMS_PER_NS, lower.threads)
    words = WIDEN.pack(
        x=x.at,
        y=memory,
        blocks=x.blocks,
        x_plane=x.plane_bytes,
        y_plane=y.plane_bytes,
        x_batch=x.batch_bytes,
        y_batch=y.batch_bytes,
        items=items,
        planes=planes,
        plane_block=plane_block,
    )
    lower.launch(widen.planes(str(x.dtype)), words, ceil_div(planes, plane_block))
    return replace(y, at=Ref(memory.buffer))


def _launch_phase(lower: Lowering, conv: CodeConvolution, phase: Phase) -> None:
    """Launch the outputs of a phase, one launch per channel slice."""
    taps = tuple(tuple(number for number, _ in tap) for tap in tap_grid(phase))
    step, inputs = conv.x.layout.entry, conv.filter.shape[2]
    depth = ceil_div(inputs, step) * len(taps) if taps else 1
    filter_, digits = conv.filter, len(conv.digits) if taps else 1
    used = None if digits == 1 else _used(conv, taps)
    runs: Any
    entries: Any
    if conv.reads_border:
        of_digits = "" if used is None else used_as_text(used)
        runs, entries = traced_call(whole_run, phase, conv.x.plane, inputs, of_digits)
        starts = _starts_of(conv, taps, [range(len(taps))])
    else:
        runs, entries = tap_runs(phase, conv.x.plane, 0, inputs, depth, by_taps=False)
        ends = runs[:, 2:].tolist()
        starts = _starts_of(conv, taps, [entries[a:b, 1] % max(len(taps), 1) for a, b in ends])
        if used is not None:
            runs, entries = with_digits(runs, entries, used)
    if used is not None:
        filter_ = np.stack(conv.digits, -1)
        taps = tuple((*tap, digit) for digit in range(digits) for tap in taps)
        depth *= digits
    tables = {"taps": lower.table(entries), "runs": lower.table(runs)}
    dot = dot_of(conv.kind)
    for channels in channel_slices(conv, 0, threes=conv.overlaps):
        width = channels.panels.width
        packing = (taps, step, width, depth, False, word_items(conv.kind), dot.planes)
        part = _of_slice(conv, channels, filter_, axis=1)
        terms = [_panels(conv, channels, term) for term in conv.terms]
        scale = np.stack(terms, axis=-2) if terms else np.zeros(1, np.int32)
        tables |= {
            "filter": lower.packed(part, "direct", packing, DType(dot.weights)),
            "starts": lower.table(_panels(conv, channels, starts)),
            "scale": lower.table(scale),
        }
        _launch(lower, conv, phase, channels, tables, (depth, length(runs)))


def _used(conv: CodeConvolution, taps: Sequence[tuple[int, ...]]) -> Array:
    """bool [steps, digits, taps]: whether an entry of the reduction has weights in a digit."""
    step = conv.x.layout.entry
    # [inputs, digits, taps]
    used = np.array([[np.any(x[(..., *tap)], (0, 1)) for tap in taps] for x in conv.digits])
    used = used.transpose(2, 0, 1)
    padded = np.zeros((ceil_div(len(used), step) * step, *used.shape[1:]), np.bool_)
    padded[: len(used)] = used
    return np.any(padded.reshape(-1, step, *used.shape[1:]), 1)


def _of_slice(conv: CodeConvolution, channels: ChannelSlice, items: Array, axis: int) -> Array:
    """The items [.., groups, outputs, ..] of a channel slice; outputs are `axis`."""
    groups = slice(channels.groups.start, None, channels.groups.step)
    columns = slice(channels.first, channels.first + channels.panels.width * channels.panels.count)
    return items[(*[slice(None)] * (axis - 1), groups, columns)]


def _panels(conv: CodeConvolution, channels: ChannelSlice, items: Array) -> Array:
    """[.., groups * outputs] as [.., groups of a slice, panels, width], padded with zeros."""
    *before, _ = items.shape
    panels = channels.panels
    part = _of_slice(conv, channels, items.reshape(*before, conv.groups, -1), len(before) + 1)
    padded = np.zeros((*part.shape[:-1], panels.count * panels.width), items.dtype)
    padded[..., : part.shape[-1]] = part
    return padded.reshape(*part.shape[:-1], panels.count, panels.width)


def _starts_of(
    conv: CodeConvolution, taps: Sequence[Any], runs: Sequence[Sequence[int] | Array]
) -> Array:
    """int32 [runs, groups * outputs]: biases less x_zero times the weights that a run reads.

    `runs`: the taps that they read.
    """
    outputs = conv.bias.size
    if not taps:
        return np.broadcast_to(conv.bias, (1, outputs))
    weights = conv.weights
    sums = np.stack([weights[(..., *tap)].sum(axis=2, dtype=np.int64) for tap in taps])
    of_taps = sums.reshape(len(taps), outputs)
    rows: list[Array] = []
    for each in runs:
        read = np.unique(np.asarray(each))
        rows.append(conv.bias - conv.x_zero * of_taps[read].sum(axis=0))
    return np.stack(rows).astype(np.int32)


def _launch(
    lower: Lowering,
    conv: CodeConvolution,
    phase: Phase,
    channels: ChannelSlice,
    tables: dict[str, Ref],
    counts: tuple[int, int],
) -> None:
    """Launch a channel slice of the outputs of a phase; `counts`: of entries and runs."""
    y, pixels, panels = conv.y, pixels_of(phase), channels.panels
    residual = conv.residual or y
    outputs = tuple(axis.outputs for axis in phase)
    filter_bytes = tables["filter"].buffer.nbytes
    units = choose_units(conv, pixels, channels, filter_bytes, lower.threads)
    first, group_blocks = output_blocks(conv, channels)
    words = CODES.pack(
        **input_fields(lower, conv, phase, channels.groups),
        **tables,
        bounds=lower.table(conv.bounds),
        y=Ref(y.at.buffer, y.at.offset + first * y.plane_bytes, writes=True),
        y_pixels=pixel_table(lower, y, outputs, phase, conv.x, whole=conv.reads_border),
        residual=Ref(residual.at.buffer, residual.at.offset + first * residual.plane_bytes),
        residual_pixels=pixel_table(
            lower, residual, outputs, phase, conv.x, whole=conv.reads_border
        ),
        y_batch=y.batch_bytes,
        y_group=group_blocks * y.plane_bytes,
        y_plane=y.plane_bytes,
        residual_batch=residual.batch_bytes,
        residual_group=group_blocks * residual.plane_bytes,
        residual_plane=residual.plane_bytes,
        groups=len(channels.groups),
        group_tiles=panels.count,
        pixels=pixels,
        depth=counts[0],
        run_count=counts[1],
        pixel_block=units.pixel_block,
        part_tiles=units.panel_block,
        units=units.count,
        unit_block=units.per_tile,
    )
    entry = conv.x.layout.entry
    form = conv.ending, panels.vectors, entry, conv.kind, conv.overlaps
    kernel = direct_codes.convolution(*form)
    lower.launch(kernel, words, ceil_div(units.count, units.per_tile))
