"""The engines by name, in the order of the report; nnefc is first."""

from __future__ import annotations

from benchmarks.engines.engine_interface import Engine
from benchmarks.engines.litert_cpu import LiteRt
from benchmarks.engines.mnn_cpu import Mnn
from benchmarks.engines.ncnn_cpu import Ncnn
from benchmarks.engines.nnefc_cpu import Nnefc, NnefcOfNnef
from benchmarks.engines.onnxruntime_cpu import OnnxRuntime
from benchmarks.engines.openvino_cpu import OpenVino
from benchmarks.engines.torch_cpu import PyTorch
from benchmarks.engines.tract_cpu import Tract
from benchmarks.engines.tvm_cpu import Tvm

ENGINES: dict[str, type[Engine]] = {
    engine.name: engine
    for engine in (
        Nnefc,
        OnnxRuntime,
        OpenVino,
        PyTorch,
        Mnn,
        Ncnn,
        LiteRt,
        Tract,
        Tvm,
        NnefcOfNnef,
    )
}

DEFAULT_ENGINES = tuple(name for name in ENGINES if name not in ("litert", "tvm", "nnefc_nnef"))
"""Engines that are measured by default: LiteRT runs quantized networks only, TVM is slow without
tuning, which takes hours, and networks of the zoo are NNEF documents already."""
