"""Language models: encoders, and decoders whose keys and values are inputs and outputs."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (transformers is not typed)

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.pytorch_onnx.network import Extents, Network, entry, randomise

VOCABULARY = 100
"""Tokens of small networks; also the bound of random tokens."""


def transformers() -> Any:
    """The package, which imports its models when they are first used."""
    return import_module("transformers")


def tokens(*shape: int) -> Tensor:
    """Random tokens, which every vocabulary here has."""
    return torch.randint(VOCABULARY, shape)


def mask(batch: int, length: int) -> Tensor:
    """A mask of padding [batch, length]: all rows but the first lack two tokens, on the left."""
    result = torch.ones(batch, length, dtype=torch.long)
    result[1:, :2] = 0
    return result


class Encoder(nn.Module):
    """A model that reads tokens and their mask."""

    def __init__(self, model: nn.Module, *results: str) -> None:
        super().__init__()
        self.model, self.results = model, results

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        output = self.model(input_ids=ids, attention_mask=mask)
        return tuple(getattr(output, name) for name in self.results)


class Decoder(nn.Module):
    """A causal language model; earlier keys and values are inputs, all of them outputs."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, mask: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        cache = transformers().DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        output = self.model(
            input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True
        )
        return output.logits, *flat(cache)


def flat(cache: Any) -> tuple[Tensor, ...]:
    """Keys and values of all layers in turn."""
    return tuple(x for layer in cache.layers for x in (layer.keys, layer.values))


def past_names(prefix: str, layers: int, kinds: Sequence[str] = ("key", "value")) -> list[str]:
    """The names of keys and values of all layers."""
    return [f"{prefix}.{layer}.{kind}" for layer in range(layers) for kind in kinds]


def encoder(model: nn.Module, length: int, *results: str) -> Network:
    """A network that reads tokens [batch, length] and their mask."""

    def inputs(extents: Extents) -> dict[str, Tensor]:
        shape = extents["batch"], extents["length"]
        return {"ids": tokens(*shape), "mask": mask(*shape)}

    axes = {name: {0: "batch", 1: "length"} for name in ("ids", "mask")}
    module = randomise(Encoder(model, *results))
    extents, others = {"batch": 2, "length": length}, {"batch": 3, "length": length + 5}
    return Network(module, inputs, results, axes, extents, others)


def decoder(model: nn.Module, layers: int, heads: int, width: int, past: int) -> Network:
    """A causal language model with keys and values [batch, heads, past, width]."""
    names = past_names("past", layers)

    def inputs(extents: Extents) -> dict[str, Tensor]:
        batch, length, past = extents["batch"], extents["length"], extents["past"]
        made = {"ids": tokens(batch, length), "mask": mask(batch, past + length)}
        return made | {name: torch.randn(batch, heads, past, width) for name in names}

    axes = {name: {0: "batch", 2: "past"} for name in names}
    axes |= {"ids": {0: "batch", 1: "length"}, "mask": {0: "batch", 1: "total"}}
    extents = {"batch": 2, "length": 3, "past": past}
    others = {"batch": 1, "length": 5, "past": past + 3}
    outputs = ("logits", *past_names("present", layers))
    return Network(randomise(Decoder(model)), inputs, outputs, axes, extents, others)


@entry("bert", "BERT", "transformers")
def bert(small: bool) -> Network:
    library = transformers()
    sizes = _encoder_sizes() if small else {}
    model = library.BertModel(library.BertConfig(**sizes))
    return encoder(model, 12 if small else 128, "last_hidden_state", "pooler_output")


def _encoder_sizes() -> dict[str, int]:
    return {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 64,
    }


@entry("gpt2", "GPT-2", "transformers")
def gpt2(small: bool) -> Network:
    library = transformers()
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": VOCABULARY, "n_positions": 64}
    special = {"bos_token_id": 0, "eos_token_id": 0}
    config = library.GPT2Config(**special, **(sizes if small else {}))
    model = library.GPT2LMHeadModel(config)
    return decoder(model, config.n_layer, config.n_head, config.n_embd // config.n_head, 7)


@entry("llama", "Llama with cache", "transformers")
def llama(small: bool) -> Network:
    library = transformers()
    sizes = (
        _encoder_sizes() | {"num_attention_heads": 4, "num_key_value_heads": 2}
        if small
        else {
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "num_key_value_heads": 4,
            "intermediate_size": 2048,
            "max_position_embeddings": 2048,
        }
    )
    config = library.LlamaConfig(**sizes)
    model = library.LlamaForCausalLM(config)
    width = config.hidden_size // config.num_attention_heads
    return decoder(
        model, config.num_hidden_layers, config.num_key_value_heads, width, 7 if small else 127
    )


class CrossDecoder(nn.Module):
    """The decoder of a model with an encoder.

    Each layer takes four tensors: keys and values of earlier tokens, then those of the encoder.
    The former are outputs.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.width = model, int(model.config.d_model)

    def forward(self, ids: Tensor, mask: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        return self.decode(ids, mask, past)

    def decode(
        self, ids: Tensor, mask: Tensor | None, past: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        library = transformers()
        own, cross = library.DynamicCache(), library.DynamicCache()
        for layer in range(len(past) // 4):
            own.update(past[4 * layer], past[4 * layer + 1], layer)
            cross.update(past[4 * layer + 2], past[4 * layer + 3], layer)
        # the cache replaces the hidden states; only their shape is read
        hidden = torch.zeros(past[2].shape[0], past[2].shape[2], self.width)
        output = self.model(
            encoder_outputs=library.modeling_outputs.BaseModelOutput(last_hidden_state=hidden),
            attention_mask=mask,
            decoder_input_ids=ids,
            past_key_values=library.EncoderDecoderCache(own, cross),
            use_cache=True,
        )
        return output.logits, *flat(own)


class CrossDecoderWithoutMask(nn.Module):
    """The same, where the encoder has no padding."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.decoder = CrossDecoder(model)

    def forward(self, ids: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        return self.decoder.decode(ids, None, past)


def cross_decoder(
    model: nn.Module, layers: int, heads: int, width: int, source: int, *, masked: bool
) -> Network:
    """One token after others, for a source of variable length if it is `masked`."""
    names = past_names("past", layers, ("key", "value", "source_key", "source_value"))

    def inputs(extents: Extents) -> dict[str, Tensor]:
        batch, past = extents["batch"], extents["past"]
        length = extents["source"] if masked else source
        made = {"ids": tokens(batch, 1)} | ({"mask": mask(batch, length)} if masked else {})
        lengths = {name: length if "source" in name else past for name in names}
        shapes = {name: (batch, heads, count, width) for name, count in lengths.items()}
        return made | {name: torch.randn(shape) for name, shape in shapes.items()}

    axes: dict[str, dict[int, str]] = {"ids": {0: "batch"}}
    if masked:
        axes["mask"] = {0: "batch", 1: "source"}
    for name in names:
        axes[name] = {0: "batch"}
        if "source" not in name:
            axes[name][2] = "past"
        elif masked:
            axes[name][2] = "source"
    extents, others = {"batch": 2, "past": 7}, {"batch": 3, "past": 11}
    if masked:
        extents, others = extents | {"source": source}, others | {"source": source + 4}
    outputs = ("logits", *past_names("present", layers))
    module = CrossDecoder(model) if masked else CrossDecoderWithoutMask(model)
    return Network(randomise(module), inputs, outputs, axes, extents, others)


def _t5_config(small: bool) -> Any:
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_heads": 4, "vocab_size": VOCABULARY}
    return transformers().T5Config(**(sizes | {"num_layers": 2} if small else {}))


@entry("t5_encoder", "T5 encoder", "transformers")
def t5_encoder(small: bool) -> Network:
    model = transformers().T5EncoderModel(_t5_config(small))
    return encoder(model, 12 if small else 128, "last_hidden_state")


@entry("t5_decoder", "T5 decoder with cache", "transformers")
def t5_decoder(small: bool) -> Network:
    config = _t5_config(small)
    model = transformers().T5ForConditionalGeneration(config)
    sizes = config.num_layers, config.num_heads, config.d_kv
    return cross_decoder(model, *sizes, 12 if small else 128, masked=True)


class Clip(nn.Module):
    """Scores of all pairs of a picture and a text, and their embeddings."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor, ids: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        output = self.model(pixel_values=pixels, input_ids=ids, attention_mask=mask)
        return output.logits_per_image, output.text_embeds, output.image_embeds


@entry("clip", "CLIP", "transformers")
def clip(small: bool) -> Network:
    library = transformers()
    size, length = (32, 8) if small else (224, 77)
    common = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    special = {"bos_token_id": 1, "eos_token_id": VOCABULARY - 1, "pad_token_id": 0}
    text: dict[str, Any] = {**special}
    vision: dict[str, Any] = {}
    if small:
        text |= {**common, "vocab_size": VOCABULARY, "max_position_embeddings": 16}
        vision |= {**common, "image_size": size, "patch_size": 8}
    projection = 24 if small else 512
    config = library.CLIPConfig(text_config=text, vision_config=vision, projection_dim=projection)

    def inputs(extents: Extents) -> dict[str, Tensor]:
        ids = tokens(extents["texts"], extents["length"]).clamp(2, VOCABULARY - 2)
        ids[:, -2] = VOCABULARY - 1
        pixels = torch.randn(extents["pictures"], 3, size, size)
        return {"pixels": pixels, "ids": ids, "mask": torch.ones_like(ids)}

    axes = {name: {0: "texts", 1: "length"} for name in ("ids", "mask")}
    axes["pixels"] = {0: "pictures"}
    extents = {"texts": 3, "length": length, "pictures": 2}
    others = {"texts": 2, "length": length - 3, "pictures": 1}
    outputs = ("logits_per_image", "text_embeds", "image_embeds")
    return Network(
        randomise(Clip(library.CLIPModel(config))), inputs, outputs, axes, extents, others
    )
