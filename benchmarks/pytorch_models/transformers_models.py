"""Architectures of transformers in small configurations."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (transformers is not typed)

from __future__ import annotations

import copy
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import torch
from torch import Tensor

from benchmarks.pytorch_models.model_case import Case, Make, configured_suite
from benchmarks.pytorch_onnx.network import randomise

_TOKENS: Final = 120
"""Tokens of the vocabularies."""
_SIZES: Final[Mapping[str, Any]] = {
    **{"vocab_size": _TOKENS, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
    **{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"intermediate_size": 64, "max_position_embeddings": 64, "num_key_value_heads": 2},
    **{"head_dim": 8, "d_model": 32, "d_ff": 64, "d_kv": 8, "num_layers": 2, "num_heads": 4},
    **{"encoder_layers": 2, "decoder_layers": 2, "num_decoder_layers": 2},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 4},
    **{"encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "n_embd": 32, "n_layer": 2, "n_head": 4},
    **{"n_positions": 64, "image_size": 32, "patch_size": 8, "moe_intermediate_size": 32},
    **{"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2},
}
"""Fields of configurations, where these have them."""


def _library() -> Any:
    return import_module("transformers")


def network(name: str, changes: Mapping[str, Any]) -> Any:
    """A network of the class `name`, whose configuration has `_SIZES` and `changes`."""
    kind: Any = getattr(_library(), name)
    config_class = kind.config_class
    known = config_class().to_dict()
    sizes = {key: value for key, value in _SIZES.items() if key in known}
    return randomise(kind(config_class(**{**sizes, **changes})))


def token_ids(batch: int, length: int) -> Tensor:
    return torch.randint(3, _TOKENS, (batch, length))


def padding_mask(length: int) -> Tensor:
    """A mask of two rows, of which the second lacks its first three tokens."""
    mask = torch.ones(2, length, dtype=torch.long)
    mask[1, :3] = 0
    return mask


# -- kinds of networks


def _encoder(name: str, changes: Mapping[str, Any]) -> Case:
    arguments = {"input_ids": token_ids(2, 12), "attention_mask": padding_mask(12).flip(1)}
    return Case(network(name, changes), (), arguments)


def _decoder(name: str, changes: Mapping[str, Any]) -> Case:
    """Three tokens after a cache of nine, which the network itself makes."""
    executorch: Any = import_module("transformers.integrations.executorch")
    executorch.register_dynamic_cache_export_support()
    decoder = network(name, changes)
    with torch.no_grad():
        past = decoder(input_ids=token_ids(2, 9), attention_mask=padding_mask(9), use_cache=True)
    arguments = {"input_ids": token_ids(2, 3), "attention_mask": padding_mask(12)}
    cache = copy.deepcopy(past.past_key_values)
    return Case(decoder, (), {**arguments, "past_key_values": cache, "use_cache": True})


def _stateless(name: str, changes: Mapping[str, Any]) -> Case:
    """A decoder without a cache."""
    arguments = {"input_ids": token_ids(2, 12), "use_cache": False}
    return Case(network(name, changes), (), arguments)


def _seq2seq(name: str, changes: Mapping[str, Any]) -> Case:
    arguments = {"input_ids": token_ids(2, 12), "attention_mask": padding_mask(12).flip(1)}
    arguments["decoder_input_ids"] = token_ids(2, 5)
    return Case(network(name, changes), (), {**arguments, "use_cache": False})


def _pixels(size: int) -> Make:
    def make(name: str, changes: Mapping[str, Any]) -> Case:
        pixels = torch.randn(2, 3, size, size)
        return Case(network(name, changes), (), {"pixel_values": pixels})

    return make


def _pair(name: str, changes: Mapping[str, Any]) -> Case:
    """A picture and a text."""
    nested = {
        key: {**_small(key, name), **value} if isinstance(value, dict) else value
        for key, value in changes.items()
    }
    arguments = {"input_ids": token_ids(2, 12), "attention_mask": padding_mask(12).flip(1)}
    pixels = torch.randn(2, 3, 32, 32)
    return Case(network(name, nested), (), {**arguments, "pixel_values": pixels})


def _small(part: str, name: str) -> dict[str, Any]:
    """The sizes of a part of a configuration, such as `text_config`."""
    kind: Any = getattr(_library(), name).config_class().sub_configs[part]
    known = kind().to_dict()
    return {key: value for key, value in _SIZES.items() if key in known}


def _waves(name: str, changes: Mapping[str, Any]) -> Case:
    return Case(network(name, changes), (), {"input_values": torch.randn(2, 4000)})


def _spectrum(bins: int, frames: int) -> Make:
    """Speech recognition: a spectrum [2, bins, frames], and tokens that were said."""

    def make(name: str, changes: Mapping[str, Any]) -> Case:
        shape = (2, bins, frames) if name.startswith("Whisper") else (2, frames, bins)
        arguments: dict[str, Any] = {"input_features": torch.randn(*shape)}
        arguments["decoder_input_ids"] = token_ids(2, 5)
        return Case(network(name, changes), (), {**arguments, "use_cache": False})

    return make


def _detector(name: str, changes: Mapping[str, Any]) -> Case:
    """A network with the layers of a small ResNet."""
    layers = _library().ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 16, 16, 32],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage4"],
    )
    detector = network(name, {"backbone_config": layers, "use_timm_backbone": False, **changes})
    return Case(detector, (), {"pixel_values": torch.randn(1, 3, 64, 64)})


# -- the list

_CONVOLUTIONS: Final[Mapping[str, Any]] = {
    **{"conv_dim": (8, 8, 8), "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 3)},
    **{"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2},
}
_STAGES: Final[Mapping[str, Any]] = {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 16, 32]}
_WINDOWS: Final[Mapping[str, Any]] = {
    **{"image_size": 64, "patch_size": 4, "embed_dim": 8, "depths": [2, 2], "num_heads": [2, 4]},
    "window_size": 4,
}
_MODELS: Final[Mapping[Make, Mapping[str, Mapping[str, Any]]]] = {
    _encoder: {
        "BertForMaskedLM": {},
        "RobertaModel": {},
        "DistilBertModel": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
        "AlbertModel": {"embedding_size": 16},
        "ElectraModel": {"embedding_size": 16},
        "DebertaV2Model": {
            **{"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
            **{"position_buckets": 16, "norm_rel_ebd": "layer_norm", "share_att_key": True},
        },
        "DebertaModel": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
        "MPNetModel": {},
        "ModernBertModel": {"global_attn_every_n_layers": 2, "local_attention": 8},
        "ConvBertModel": {"embedding_size": 16},
        "FunnelModel": {"block_sizes": [1, 1], "d_head": 8, "n_head": 4, "d_inner": 64},
        "NystromformerModel": {"num_landmarks": 12, "segment_means_seq_len": 12},
        "MobileBertModel": {"embedding_size": 16, "intra_bottleneck_size": 16},
        "RoFormerModel": {"embedding_size": 16},
        "SqueezeBertModel": {"embedding_size": 32},
        "XLNetModel": {"d_inner": 64, "n_layer": 2},
        "EsmModel": {"position_embedding_type": "rotary"},
        "LayoutLMModel": {},
        "FNetModel": {},
        "XLMModel": {"emb_dim": 32, "n_layers": 2, "n_heads": 4, "n_words": 120},
        "LukeModel": {"entity_vocab_size": 20, "entity_emb_size": 16},
        "LongformerModel": {"attention_window": [8, 8]},
        "BigBirdModel": {"attention_type": "original_full"},
        "CanineModel": {
            **{"local_transformer_stride": 8, "downsampling_rate": 2, "num_hash_buckets": 64},
        },
    },
    _decoder: {
        "GPT2LMHeadModel": {},
        "GPTNeoForCausalLM": {"attention_types": [[["global", "local"], 1]], "window_size": 8},
        "GPTNeoXForCausalLM": {},
        "OPTForCausalLM": {"ffn_dim": 64, "word_embed_proj_dim": 32},
        "LlamaForCausalLM": {},
        "MistralForCausalLM": {"sliding_window": None},
        "Qwen2ForCausalLM": {},
        "Qwen3ForCausalLM": {},
        "GemmaForCausalLM": {},
        "Gemma2ForCausalLM": {"sliding_window": 64},
        "Gemma3ForCausalLM": {"sliding_window": 64},
        "PhiForCausalLM": {},
        "Phi3ForCausalLM": {},
        "FalconForCausalLM": {},
        "BloomForCausalLM": {},
        "MixtralForCausalLM": {},
        "Qwen3MoeForCausalLM": {},
        "StableLmForCausalLM": {},
        "CohereForCausalLM": {},
        "Olmo2ForCausalLM": {},
        "GptOssForCausalLM": {"sliding_window": 64},
        "GPTJForCausalLM": {"rotary_dim": 8},
        "GPTBigCodeForCausalLM": {},
        "XGLMForCausalLM": {"ffn_dim": 64, "attention_heads": 4, "num_layers": 2},
        "MptForCausalLM": {"max_seq_len": 64, "n_heads": 4, "n_layers": 2},
        "DeepseekV3ForCausalLM": {
            **{"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "kv_lora_rank": 8},
            **{"q_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8},
            **{"first_k_dense_replace": 1, "num_key_value_heads": 4},
        },
        "SmolLM3ForCausalLM": {},
        "Glm4ForCausalLM": {},
    },
    _stateless: {
        "MambaForCausalLM": {"state_size": 8, "expand": 2},
        "FalconMambaForCausalLM": {"state_size": 8},
        "Mamba2ForCausalLM": {"state_size": 8, "num_heads": 8, "n_groups": 1, "chunk_size": 8},
        "RecurrentGemmaForCausalLM": {"lru_width": 32, "attention_window_size": 8},
        "RwkvForCausalLM": {"attention_hidden_size": 32},
    },
    _seq2seq: {
        "T5ForConditionalGeneration": {},
        "BartForConditionalGeneration": {},
        "MarianMTModel": {"decoder_start_token_id": 1},
        "PegasusForConditionalGeneration": {},
        "M2M100ForConditionalGeneration": {},
        "BlenderbotForConditionalGeneration": {},
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
    _pixels(32): {
        "ViTModel": {},
        "DeiTModel": {},
        "BeitModel": {},
        "Dinov2Model": {},
        "ResNetModel": {"embedding_size": 8, **_STAGES},
        "PoolFormerModel": {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 16, 32]},
        "SegformerForSemanticSegmentation": {**_STAGES, "num_attention_heads": [1, 2, 2, 4]},
    },
    _pixels(64): {
        "ConvNextModel": _STAGES,
        "SwinModel": _WINDOWS,
        "Swinv2Model": _WINDOWS,
        "YolosForObjectDetection": {"image_size": [64, 64], "num_detection_tokens": 5},
        "DPTForDepthEstimation": {
            **{"image_size": 64, "backbone_out_indices": [0, 1, 2, 3], "fusion_hidden_size": 16},
            **{"neck_hidden_sizes": [8, 16, 16, 32], "num_hidden_layers": 4},
        },
        "MobileViTForSemanticSegmentation": {"image_size": 64, "patch_size": 2},
        "EfficientNetModel": {},
        "MobileNetV2Model": {},
        "RegNetModel": {"embedding_size": 8, **_STAGES},
        "HieraModel": {
            **{"image_size": [64, 64], "embed_dim": 8, "depths": [1, 1, 1, 1]},
            **{"num_heads": [1, 1, 2, 2], "patch_size": [7, 7]},
        },
        "FocalNetModel": {"image_size": 64, "embed_dim": 8, "depths": [1, 1, 1, 1]},
        "GLPNForDepthEstimation": {
            **{**_STAGES, "decoder_hidden_size": 16, "num_attention_heads": [1, 2, 2, 4]},
        },
    },
    _detector: {
        "DetrForObjectDetection": {"num_queries": 5},
        "ConditionalDetrForObjectDetection": {"num_queries": 5},
        "DeformableDetrForObjectDetection": {"num_queries": 5, "num_feature_levels": 1},
    },
    _pair: {
        "CLIPModel": {"text_config": {}, "vision_config": {}},
        "SiglipModel": {"text_config": {}, "vision_config": {}},
        "CLIPSegForImageSegmentation": {
            **{"text_config": {}, "vision_config": {"num_hidden_layers": 3}, "reduce_dim": 16},
            **{"extract_layers": [0, 1, 2]},
        },
        "GroupViTModel": {"text_config": {}, "vision_config": {"depths": [1, 1, 1]}},
        "BlipModel": {"text_config": {}, "vision_config": {}},
    },
    _waves: {
        "Wav2Vec2ForCTC": _CONVOLUTIONS,
        "HubertModel": _CONVOLUTIONS,
        "WavLMModel": _CONVOLUTIONS,
        "SEWModel": _CONVOLUTIONS,
    },
    _spectrum(16, 40): {
        "WhisperForConditionalGeneration": {"num_mel_bins": 16, "max_source_positions": 20},
        "Speech2TextForConditionalGeneration": {
            **{"input_feat_per_channel": 16, "conv_channels": 16, "max_source_positions": 40},
            "max_target_positions": 40,
        },
    },
}
"""Changes of configurations by the name of the class, for each kind of network."""

SUITE: Final = configured_suite(_MODELS)
