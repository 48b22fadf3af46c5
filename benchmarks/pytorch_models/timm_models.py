"""A small model of each family of timm, a module of `timm.models`."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (timm is not typed)

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from benchmarks.pytorch_models.model_case import Case, Suite, image_case
from benchmarks.pytorch_onnx.network import randomise

MODELS: Final = (
    *("test_byobnet", "test_convnext", "test_efficientnet", "test_mambaout", "test_maxvit"),
    *("test_nfnet", "test_resnet", "test_vit", "test_vit_relpos", "botnet26t_256"),
    *("convmixer_768_32", "cspnext_tiny", "cs3darknet_focus_s", "densenet121", "dla46_c"),
    *("dpn48b", "edgenext_xx_small", "efficientformer_l1", "efficientformerv2_s0"),
    *("efficientvim_m1", "efficientvit_b0", "efficientvit_m0", "fasternet_t0", "fastvit_t8"),
    *("ghostnet_050", "hardcorenas_a", "hgnetv2_b0", "hrnet_w18_small", "iformer_t"),
    *("inception_next_atto", "inception_v3", "inception_v4", "inception_resnet_v2"),
    *("lcnetv2_small", "levit_128s", "lowformer_b0", "cpubone_nano", "csatv2"),
    *("mobilenetv3_small_050", "mobilevit_xxs", "mobilenetv5_300m", "nextvit_small"),
    *("legacy_seresnet18", "skresnet18", "starnet_s050", "shvit_s1", "swiftformer_xs"),
    *("selecsls42b", "rexnet_100", "resnetv2_18", "resnest14d", "res2net50_14w_8s"),
    *("repvit_m0_9", "repghostnet_050", "regnetx_002", "rdnet_tiny", "pvt_v2_b0"),
    *("poolformer_s12", "caformer_s18", "tresnet_m", "vovnet39a", "ese_vovnet19b_slim_dw"),
    *("visformer_tiny", "vgg11_bn", "xception41", "legacy_xception", "twins_svt_small"),
    *("sequencer2d_s", "resmlp_12_224", "gmlp_ti16_224", "mixer_s32_224", "convit_tiny"),
    *("cait_xxs24_224", "coat_lite_tiny", "crossvit_9_240", "davit_tiny", "deit_tiny_patch16_224"),
    *("eva02_tiny_patch14_224", "focalnet_tiny_srf", "gcvit_xxtiny", "hiera_tiny_224"),
    *("sam2_hiera_tiny", "mvitv2_tiny", "nest_tiny", "pit_ti_224", "tiny_vit_5m_224"),
    *("tnt_s_patch16_224", "volo_d1_224", "xcit_nano_12_p16_224", "vitamin_small_224"),
    *("swin_tiny_patch4_window7_224", "swinv2_tiny_window8_256", "swinv2_cr_tiny_ns_224"),
    *("vit_small_r26_s32_224", "samvit_base_patch16_224", "beit_base_patch16_224"),
    *("naflexvit_base_patch16_gap", "qwen3_vit_88m", "gemma4_vit_167m", "nasnetalarge"),
    *("pnasnet5large", "deepseek_vit_412m"),
)
_SIZES: Final = (64, 96, 128, 160)


def _timm() -> Any:
    return import_module("timm")


def _make(name: str) -> Case:
    module = _timm().create_model(name, pretrained=False)
    _, default, _ = module.default_cfg.get("input_size", (3, 224, 224))
    sizes = [size for size in _SIZES if size < default]
    return image_case(randomise(module), (*sizes, default), 3)


SUITE: Final = Suite(lambda: list(MODELS), _make)
