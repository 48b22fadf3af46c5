"""Small networks of transformers that generate tokens."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (transformers is not typed)

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

from benchmarks.pytorch_models.model_case import Case, Make, configured_suite
from benchmarks.pytorch_models.transformers_models import network, padding_mask, token_ids


def _decoder(name: str, changes: Mapping[str, Any]) -> Case:
    """Tokens that follow two prompts, of which the second is shorter."""
    arguments = {"input_ids": token_ids(2, 9), "attention_mask": padding_mask(9)}
    return Case(network(name, changes), (), arguments)


def _seq2seq(name: str, changes: Mapping[str, Any]) -> Case:
    arguments = {"input_ids": token_ids(2, 12), "attention_mask": padding_mask(12).flip(1)}
    return Case(network(name, {"decoder_start_token_id": 1, **changes}), (), arguments)


def _speech(name: str, changes: Mapping[str, Any]) -> Case:
    shape = (2, 16, 40) if name.startswith("Whisper") else (2, 40, 16)
    arguments = {"input_features": torch.randn(*shape)}
    return Case(network(name, {"decoder_start_token_id": 1, **changes}), (), arguments)


_MODELS: Final[Mapping[Make, Mapping[str, Mapping[str, Any]]]] = {
    _decoder: {
        "LlamaForCausalLM": {},
        "MistralForCausalLM": {"sliding_window": 12},
        "MixtralForCausalLM": {"sliding_window": None},
        "Qwen2ForCausalLM": {},
        "Qwen3ForCausalLM": {},
        "Qwen3MoeForCausalLM": {},
        "GemmaForCausalLM": {},
        "Gemma2ForCausalLM": {"sliding_window": 12},
        "Gemma3ForCausalLM": {"sliding_window": 12},
        "PhiForCausalLM": {},
        "Phi3ForCausalLM": {},
        "GPT2LMHeadModel": {},
        "GPTNeoForCausalLM": {"attention_types": [[["global", "local"], 1]], "window_size": 8},
        "GPTNeoXForCausalLM": {},
        "GPTJForCausalLM": {"rotary_dim": 8},
        "OPTForCausalLM": {"ffn_dim": 64, "word_embed_proj_dim": 32},
        "BloomForCausalLM": {},
        "FalconForCausalLM": {},
        "CohereForCausalLM": {},
        "OlmoForCausalLM": {},
        "Olmo2ForCausalLM": {},
        "StableLmForCausalLM": {},
        "GptOssForCausalLM": {"sliding_window": 12},
        "MptForCausalLM": {"max_seq_len": 64, "n_heads": 4, "n_layers": 2},
        "MambaForCausalLM": {"state_size": 8, "expand": 2},
        "Mamba2ForCausalLM": {"state_size": 8, "num_heads": 8, "n_groups": 1, "chunk_size": 8},
        "RwkvForCausalLM": {"attention_hidden_size": 32},
    },
    _seq2seq: {
        "T5ForConditionalGeneration": {},
        "BartForConditionalGeneration": {},
        "MarianMTModel": {},
        "PegasusForConditionalGeneration": {},
        "M2M100ForConditionalGeneration": {},
        "ProphetNetForConditionalGeneration": {
            **{"num_encoder_layers": 2, "num_encoder_attention_heads": 4},
            "num_decoder_attention_heads": 4,
        },
        "SwitchTransformersForConditionalGeneration": {"num_sparse_encoder_layers": 1},
        "LEDForConditionalGeneration": {
            "attention_window": 8,
            "max_encoder_position_embeddings": 64,
        },
    },
    _speech: {
        "WhisperForConditionalGeneration": {"num_mel_bins": 16, "max_source_positions": 20},
        "Speech2TextForConditionalGeneration": {
            **{"input_feat_per_channel": 16, "conv_channels": 16, "max_source_positions": 40},
            "max_target_positions": 40,
        },
    },
}
"""Changes of configurations by the name of the class, for each kind of network."""

SUITE: Final = configured_suite(_MODELS, generates=True)
