"""Dequantization of block-quantized weights, in the formats of `nnefc.support.block_formats`."""

from __future__ import annotations

import numpy as np

from nnefc.ir import DType, Shape, TensorType
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.attribute_checks import attempt, one_of, positive, rank_allowed, volume
from nnefc.ops.core.spec import Call, OpSpec, Sample
from nnefc.ops.core.traits import OPAQUE, Folding
from nnefc.ops.core.value_text import listing
from nnefc.support.block_formats import BLOCK_BYTES, BLOCK_FORMATS, BLOCK_ITEMS


def _dequantize_blocks(call: Call) -> TensorType:
    one_of(call, "format", tuple(BLOCK_BYTES))
    shape = positive(call, "shape")
    rank_allowed(call, len(shape))
    stored = attempt(lambda: call.shape("input"))
    if attempt(lambda: call.dtype("input")) not in (None, DType.UINT8):
        call.require(False, f"input must be bytes (uint8): it is of {call.dtype('input')}")
    call.stop_if_wrong()
    if stored is not None:
        nbytes = BLOCK_BYTES[call["format"]]
        rows = shape[0] if shape else 1
        blocks, rest = divmod(volume(shape[1:]), BLOCK_ITEMS)
        call.require(
            not rest and stored == (rows, blocks * nbytes),
            f"input must be [rows, blocks of a row * {nbytes}], rows of shape along dimension 0, "
            f"of whole blocks of {BLOCK_ITEMS} items: input.shape = {listing(stored)}, "
            f"shape = {listing(shape)}",
        )
    return TensorType(DType.FLOAT32, tuple(shape))


def dequantize_blocks(input: Array, *, format: str, shape: Shape) -> Array:
    """(code - zero) * scale for every item; each block of 32 codes has one scale."""
    kind = BLOCK_FORMATS[format]
    blocks = input.astype(np.uint8).reshape(-1, kind.nbytes)
    scale = np.ascontiguousarray(blocks[:, : kind.scale_bytes]).view(f"<f{kind.scale_bytes}")
    stored = blocks[:, kind.codes_at :]
    zero = blocks[:, kind.scale_bytes : kind.scale_bytes + 1]
    if kind.bits == 8:
        codes, zero = stored.view(np.int8).astype(np.float64), zero.view(np.int8)
    else:
        pairs = [stored & 15, stored >> 4]
        is_legacy = format == "q4_0_legacy"
        joined = np.stack(pairs, 2) if is_legacy else np.concatenate(pairs, 1)
        codes = joined.reshape(-1, BLOCK_ITEMS).astype(np.float64)
    middle = 8.0 if kind.bits == 4 else 0.0
    numbers = codes - (zero if kind.has_zero else middle)
    return (numbers * scale.astype(np.float64)).reshape(shape)


def _sample(format: str, shape: Shape) -> Sample:
    """A sample with codes of a multiplicative hash, and scales between 1/8 and 2.

    Without `numpy.random`, which takes 5 ms to import.
    """
    rows, count = shape[0], volume(shape) // BLOCK_ITEMS
    numbers = np.arange(count * BLOCK_BYTES[format], dtype=np.uint32)
    codes = (numbers * np.uint32(2654435761) >> 24).astype(np.uint8)
    blocks = codes.reshape(count, BLOCK_BYTES[format])
    kind = BLOCK_FORMATS[format]
    scales = (np.arange(count).reshape(count, 1) * 7 % 31 + 2) / 16
    blocks[:, : kind.scale_bytes] = scales.astype(f"<f{kind.scale_bytes}").view(np.uint8)
    if kind.has_zero and kind.bits == 4:
        blocks[:, kind.scale_bytes] &= 15
    return Sample(
        inputs=((rows, blocks.size // rows),),
        attributes={"format": format, "shape": shape},
        values={0: blocks.reshape(rows, -1).tolist()},
        dtypes={0: DType.UINT8},
    )


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        name="dequantize_blocks",
        signature="fragment dequantize_blocks( input: tensor<integer>, format: string, "
        "shape: integer[] ) -> ( output: tensor<scalar> )",
        section="tract",
        summary="Dequantizes blocks of 32 codes with a scale, in the format "
        f"{', '.join(BLOCK_BYTES)}; input: bytes, [rows, bytes of a row].",
        infer=_dequantize_blocks,
        reference=dequantize_blocks,
        traits=OPAQUE._replace(folding=Folding.NEVER),
        samples=(
            _sample("q4_0", (3, 64)),
            _sample("q4_0", (2, 4, 16, 2)),
            _sample("q4_0_legacy", (5, 32)),
            _sample("q8_1", (1, 8, 12)),
            _sample("q8_1", (2, 32)),
            _sample("q4_f32", (3, 64)),
            _sample("q4_f32_zero", (2, 4, 16, 2)),
            _sample("q8_f32", (2, 32)),
            _sample("q8_f32_zero", (3, 64)),
        ),
    ),
)
