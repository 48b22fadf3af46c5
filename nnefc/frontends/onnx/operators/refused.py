"""Operators that nnefc does not support."""

from __future__ import annotations

from nnefc.frontends.onnx.registry import refuse

refuse("images must be decoded before they are inputs of a model", "ImageDecoder")
refuse(
    "ONNX has removed this experimental operator",
    *("ATen", "Affine", "Crop", "DynamicSlice", "GRUUnit", "GivenTensorFill", "ImageScaler"),
    *("ParametricSoftplus", "Scale", "ScaledTanh"),
)
