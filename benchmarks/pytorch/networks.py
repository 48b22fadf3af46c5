"""Modules of torchvision, timm and transformers, in the sizes of their builders."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (the packages are not typed)

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn


class Case(NamedTuple):
    """A module in evaluation mode, and the arguments that it is called with."""

    module: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}  # noqa: RUF012 - never changed


class Entry(NamedTuple):
    """A network of the list."""

    title: str
    package: str
    make: Callable[[Any], tuple[nn.Module, tuple[Any, ...], dict[str, Any]]]
    """Builds module, arguments and keyword arguments with the package."""


def case(name: str) -> Case:
    """The network with random weights, which are the same in every process."""
    entry = NETWORKS[name]
    package = import_module(entry.package)
    torch.manual_seed(0)
    module, args, kwargs = entry.make(package)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1 and not parameter.any():
                parameter.normal_(std=0.02)  # a head of zeros would hide differences
    return Case(module.eval(), args, kwargs)


Made = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


def _vision(name: str, *extents: int, **options: Any) -> Callable[[Any], Made]:
    """A builder of `torchvision.models`, for one picture [1, 3, *extents]."""

    def make(models: Any) -> Made:
        module = models.get_model(name, weights=None, **options)
        return module, (torch.randn(1, 3, *(extents or (224, 224))),), {}

    return make


def _timm(name: str) -> Callable[[Any], Made]:
    return lambda timm: (timm.create_model(name), (torch.randn(1, 3, 224, 224),), {})


def _text(kind: str, config: str, length: int, **sizes: Any) -> Callable[[Any], Made]:
    """A model of `transformers` that reads tokens [1, length]; a mask belongs to encoders."""

    def make(library: Any) -> Made:
        built = getattr(library, config)(**sizes)
        module = getattr(library, kind)(built)
        ids = torch.randint(100, (1, length))
        if kind.endswith("CausalLM") or kind.endswith("LMHeadModel"):
            return module, (), {"input_ids": ids, "use_cache": False}
        return module, (), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    return make


def _raft(models: Any) -> Made:
    pictures = tuple(torch.rand(1, 3, 240, 320) * 2 - 1 for _ in range(2))
    return models.optical_flow.raft_small(weights=None), pictures, {}


class _Encoder(nn.Module):
    """The encoder of a model with a decoder, as `get_encoder` returns it."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.encoder = model.get_encoder()

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(x).last_hidden_state


def _whisper(library: Any) -> Made:
    model = library.WhisperModel(library.WhisperConfig())
    return _Encoder(model), (torch.randn(1, 80, 3000),), {}


def _t5(library: Any) -> Made:
    model = library.T5EncoderModel(library.T5Config())
    return model, (), {"input_ids": torch.randint(100, (1, 128))}


def _wav2vec2(library: Any) -> Made:
    config = library.Wav2Vec2Config(num_hidden_layers=6, hidden_size=512, intermediate_size=2048)
    config.num_attention_heads = 8
    return library.Wav2Vec2Model(config), (torch.randn(1, 16000),), {}


def _clip(library: Any) -> Made:
    module = library.CLIPModel(library.CLIPConfig())
    ids = torch.randint(100, (1, 16))
    kwargs = {"input_ids": ids, "pixel_values": torch.randn(1, 3, 224, 224)}
    return module, (), {**kwargs, "attention_mask": torch.ones_like(ids)}


def _segformer(library: Any) -> Made:
    module = library.SegformerForSemanticSegmentation(library.SegformerConfig(num_labels=150))
    return module, (torch.randn(1, 3, 512, 512),), {}


_VISION: Final = "torchvision.models"
_TEXT: Final = "transformers"
_MINI: Final = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}
_LLAMA: Final = {
    "vocab_size": 32000,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 2048,
}

NETWORKS: Final[dict[str, Entry]] = {
    "resnet18": Entry("ResNet-18", _VISION, _vision("resnet18")),
    "resnet50": Entry("ResNet-50", _VISION, _vision("resnet50")),
    "mobilenet_v2": Entry("MobileNetV2", _VISION, _vision("mobilenet_v2")),
    "mobilenet_v3": Entry("MobileNetV3-Large", _VISION, _vision("mobilenet_v3_large")),
    "efficientnet": Entry("EfficientNet-B0", _VISION, _vision("efficientnet_b0")),
    "convnext": Entry("ConvNeXt-T", _VISION, _vision("convnext_tiny")),
    "swin": Entry("Swin-T", _VISION, _vision("swin_t")),
    "vit_b": Entry("ViT-B/16", _VISION, _vision("vit_b_16")),
    "vit_s": Entry("ViT-S/16", "timm", _timm("vit_small_patch16_224")),
    "deit_t": Entry("DeiT-T", "timm", _timm("deit_tiny_patch16_224")),
    "regnet": Entry("RegNetY-400MF", _VISION, _vision("regnet_y_400mf")),
    "densenet": Entry("DenseNet-121", _VISION, _vision("densenet121")),
    "shufflenet": Entry("ShuffleNetV2", _VISION, _vision("shufflenet_v2_x1_0")),
    "squeezenet": Entry("SqueezeNet 1.1", _VISION, _vision("squeezenet1_1")),
    "vgg": Entry("VGG-11", _VISION, _vision("vgg11")),
    "inception": Entry(
        "Inception-v3", _VISION, _vision("inception_v3", 299, 299, init_weights=True)
    ),
    "deeplab": Entry(
        "DeepLabv3, MobileNetV3",
        _VISION,
        _vision("deeplabv3_mobilenet_v3_large", 520, 520, weights_backbone=None),
    ),
    "lraspp": Entry(
        "LR-ASPP", _VISION, _vision("lraspp_mobilenet_v3_large", 520, 520, weights_backbone=None)
    ),
    "r3d": Entry("R3D-18", _VISION, _vision("r3d_18", 16, 112, 112)),
    "raft": Entry("RAFT-small", _VISION, _raft),
    "bert": Entry("BERT-base", _TEXT, _text("BertModel", "BertConfig", 128)),
    "distilbert": Entry("DistilBERT", _TEXT, _text("DistilBertModel", "DistilBertConfig", 128)),
    "minilm": Entry("MiniLM-L6", _TEXT, _text("BertModel", "BertConfig", 128, **_MINI)),
    "gpt2": Entry("GPT-2", _TEXT, _text("GPT2LMHeadModel", "GPT2Config", 32)),
    "llama": Entry("Llama, 134M", _TEXT, _text("LlamaForCausalLM", "LlamaConfig", 32, **_LLAMA)),
    "whisper": Entry("Whisper-tiny's encoder", _TEXT, _whisper),
    "wav2vec2": Entry("wav2vec2, small", _TEXT, _wav2vec2),
    "clip": Entry("CLIP ViT-B/32", _TEXT, _clip),
    "t5": Entry("T5-small's encoder", _TEXT, _t5),
    "segformer": Entry("SegFormer-B0", _TEXT, _segformer),
}
