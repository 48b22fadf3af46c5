"""The decoder of `benchmarks.language.decoder` as a GGUF file, for llama.cpp.

llama.cpp rotates neighbouring items of a head, so the outputs of queries and keys are interleaved.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportMissingImports=false
# (gguf is optional)

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.language import decoder
from benchmarks.language.decoder import BLOCK, Array, Sizes

TYPES: Final = {"float32": "F32", "float16": "F16", "q4_0": "Q4_0", "q8_1": "Q8_0"}
"""llama.cpp's names of types of weights; Q8_0 is Q8_1 without an unused number."""
CONTEXT: Final = 2048
_NAMES: Final = {
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
    "before": "attn_norm",
    "between": "ffn_norm",
}


def write(path: Path, sizes: Sizes, stored: str) -> None:
    """Write the file, unless it exists."""
    if path.exists():
        return
    gguf: Any = import_module("gguf")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    writer = gguf.GGUFWriter(temporary, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(sizes.width)
    writer.add_block_count(sizes.layers)
    writer.add_feed_forward_length(sizes.hidden)
    writer.add_head_count(sizes.heads)
    writer.add_rope_dimension_count(sizes.head)
    writer.add_layer_norm_rms_eps(decoder.EPSILON)
    writer.add_vocab_size(sizes.vocabulary)
    writer.add_tokenizer_model("none")
    kind = getattr(gguf.GGMLQuantizationType, TYPES[stored])
    for label, shape in sizes.matrices().items():
        data = _matrix(sizes, label, shape, stored)
        writer.add_tensor(f"{_name(label)}.weight", data, raw_dtype=kind)
    for label in sizes.gains():
        writer.add_tensor(f"{_name(label)}.weight", decoder.gain(label, sizes.width)[0])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    temporary.rename(path)


def _name(label: str) -> str:
    """llama.cpp's name of a variable."""
    if "/" not in label:
        return {"table": "token_embd", "last": "output_norm"}[label]
    layer, name = label.split("/")
    return f"blk.{layer.removeprefix('layer')}.{_NAMES[name]}"


def _matrix(sizes: Sizes, label: str, shape: tuple[int, int], stored: str) -> Array:
    """The items of a matrix, or the bytes of its blocks [rows, bytes of a row]."""
    if stored in decoder.BLOCKS:
        blocks = decoder.blocks(label, shape, stored)
        if stored == "q8_1":
            blocks = np.delete(blocks, (2, 3), axis=-1)
        rows = blocks.reshape(shape[0], -1)
    else:
        rows = decoder.matrix(label, shape).astype(stored)
    if not label.endswith(("/q", "/k")):
        return rows
    halves = rows.reshape(sizes.heads, 2, sizes.head // 2, -1)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(shape[0], -1)


assert BLOCK == 32, "of llama.cpp's types"
