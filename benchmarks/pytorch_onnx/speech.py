"""Models of speech."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (transformers is not typed)

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.pytorch_onnx.network import Extents, Network, entry, randomise
from benchmarks.pytorch_onnx.text import VOCABULARY, cross_decoder, transformers


class HiddenStates(nn.Module):
    """The last hidden states of a model with one input."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x).last_hidden_state


def _whisper(small: bool) -> tuple[Any, Any]:
    """(configuration, model); by default Whisper-tiny"""
    library = transformers()
    sizes = {
        "vocab_size": VOCABULARY,
        "num_mel_bins": 8,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "max_source_positions": 20,
        "max_target_positions": 32,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 3,
    }
    config = library.WhisperConfig(**(sizes if small else {}))
    return config, library.WhisperForConditionalGeneration(config)


@entry("whisper_encoder", "Whisper encoder", "transformers")
def whisper_encoder(small: bool) -> Network:
    config, model = _whisper(small)
    frames = 2 * config.max_source_positions

    def inputs(extents: Extents) -> dict[str, Tensor]:
        return {"x": torch.randn(extents["batch"], config.num_mel_bins, frames)}

    module = randomise(HiddenStates(model.model.encoder))
    axes = {"x": {0: "batch"}}
    return Network(module, inputs, ("y",), axes, {"batch": 1}, {"batch": 3})


@entry("whisper_decoder", "Whisper decoder with cache", "transformers")
def whisper_decoder(small: bool) -> Network:
    config, model = _whisper(small)
    heads = config.decoder_attention_heads
    sizes = config.decoder_layers, heads, config.d_model // heads
    return cross_decoder(model, *sizes, config.max_source_positions, masked=False)


@entry("wav2vec2", "wav2vec2", "transformers")
def wav2vec2(small: bool) -> Network:
    library = transformers()
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "conv_dim": (16, 16, 16),
        "conv_kernel": (10, 3, 2),
        "conv_stride": (5, 2, 2),
        "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 4,
    }
    config = library.Wav2Vec2Config(**(sizes if small else {}))

    def inputs(extents: Extents) -> dict[str, Tensor]:
        return {"x": torch.randn(extents["batch"], extents["samples"])}

    axes = {"x": {0: "batch", 1: "samples"}}
    count = 800 if small else 16000
    extents, others = {"batch": 2, "samples": count}, {"batch": 1, "samples": count + 333}
    module = randomise(HiddenStates(library.Wav2Vec2Model(config)))
    return Network(module, inputs, ("y",), axes, extents, others)
