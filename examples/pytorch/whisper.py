"""A small Whisper of transformers, with random weights: speech in, tokens out.

The encoder and the decoder are compiled by `torch.compile(..., backend="nnefc")`.  The speech is
noise, as its spectrogram.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (transformers may be missing, and is not typed)

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration


def network(width: int, layers: int, positions: int) -> Any:
    """A Whisper for `positions` pairs of frames."""
    torch.manual_seed(0)
    config = WhisperConfig(
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=width // 64,
        decoder_attention_heads=width // 64,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        max_source_positions=positions,
        vocab_size=2000,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
        decoder_start_token_id=1,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    return WhisperForConditionalGeneration(config).eval()


def transcribed(model: Any, speech: Any, tokens: int) -> tuple[Any, float]:
    """The tokens of some speech, and the seconds that they took."""
    start = time.perf_counter()
    with torch.inference_mode():
        found = model.generate(speech, do_sample=False, max_new_tokens=tokens)
    return found, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--positions", type=int, default=1500)
    parser.add_argument("--tokens", type=int, default=32)
    options = parser.parse_args()
    model = network(options.width, options.layers, options.positions)
    speech = torch.randn(1, 80, 2 * options.positions)
    want, theirs = transcribed(model, speech, options.tokens)
    for part in (model.model.encoder, model.model.decoder):
        part.forward = torch.compile(part.forward, backend="nnefc")
    transcribed(model, speech, options.tokens)  # compiles
    found, ours = transcribed(model, speech, options.tokens)
    same = int((found == want).sum()) if found.shape == want.shape else 0
    print(
        f"speech: {same} of {want.numel()} tokens as PyTorch's; nnefc {1e3 * ours:.0f} ms, "
        f"PyTorch {1e3 * theirs:.0f} ms"
    )


if __name__ == "__main__":
    main()
