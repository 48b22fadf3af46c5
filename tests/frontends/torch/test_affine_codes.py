"""Programs with the operators of torchao, whose codes have parameters for each block of a tensor.

torchao need not be installed: where it is not, its operators are defined here by the formulas of
its documentation.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
from torch import nn

import nnefc.pytorch
from nnefc import NnefError
from nnefc.pytorch.read_fx import array_of
from tests.helpers.pytorch.exported import compare

_QUANTIZE = "Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType "
_RANGE = "Scalar? quant_min=None, Scalar? quant_max=None"
_SCHEMAS = {
    "quantize_affine": f"({_QUANTIZE}output_dtype, {_RANGE}) -> Tensor",
    "dequantize_affine": f"({_QUANTIZE}input_dtype, {_RANGE}, ScalarType output_dtype=float) "
    "-> Tensor",
    "choose_qparams_affine": "(Tensor input, str mapping_type, SymInt[] block_size, "
    f"ScalarType target_dtype, {_RANGE}, float? eps=None, ScalarType? scale_dtype=None, "
    "ScalarType? zero_point_dtype=None, bool keepdim=False) -> (Tensor, Tensor)",
}


def repeated(p: torch.Tensor, blocks: list[int], shape: Any) -> torch.Tensor:
    """A parameter of each block, repeated for its items."""
    p = p.reshape([n // block for n, block in zip(shape, blocks)])
    for axis, block in enumerate(blocks):
        p = p.repeat_interleave(block, axis)
    return p


def quantize(
    x: Any, blocks: Any, scale: Any, zero: Any, dtype: Any, low: Any = None, high: Any = None
) -> Any:
    info = torch.iinfo(dtype)
    steps = torch.round(x * repeated(1.0 / scale, blocks, x.shape))
    codes = steps + (0 if zero is None else repeated(zero, blocks, x.shape))
    return codes.clamp(low or info.min, high or info.max).to(dtype)


def dequantize(
    codes: Any,
    blocks: Any,
    scale: Any,
    zero: Any,
    dtype: Any,
    low: Any = None,
    high: Any = None,
    output_dtype: Any = torch.float32,
) -> Any:
    steps = codes.to(output_dtype)
    if zero is not None:
        steps = steps - repeated(zero, blocks, codes.shape)
    return (steps * repeated(scale, blocks, codes.shape)).to(output_dtype)


def choose(
    x: Any,
    mapping: str,
    blocks: Any,
    dtype: Any,
    low: Any = None,
    high: Any = None,
    eps: Any = None,
    scale_dtype: Any = None,
    zero_point_dtype: Any = None,
    keepdim: bool = False,
) -> Any:
    split = [k for n, block in zip(x.shape, blocks) for k in (n // block, block)]
    wide, axes = x.reshape(split), tuple(range(1, 2 * x.ndim, 2))
    least = wide.amin(axes).clamp(max=0)
    most = wide.amax(axes).clamp(min=0)
    if mapping == "ASYMMETRIC":
        scale = ((most - least) / (high - low)).clamp(min=eps)
        zero = (low - torch.round(least / scale)).clamp(low, high)
    elif mapping == "SYMMETRIC":
        scale = (torch.maximum(-least, most) / ((high - low) / 2)).clamp(min=eps)
        zero = torch.full_like(scale, (high + low + 1) // 2)
    else:
        scale = torch.maximum(least / low, most / high).clamp(min=eps)
        zero = torch.full_like(scale, (high + low + 1) // 2)
    if not keepdim:
        kept = [n // b for n, b in zip(x.shape, blocks) if b == 1 or n != b]
        scale, zero = scale.reshape(kept), zero.reshape(kept)
    return scale, zero.to(zero_point_dtype or torch.int32)


if find_spec("torchao") is None:
    library = torch.library.Library("torchao", "FRAGMENT")
    functions = {
        "quantize_affine": quantize,
        "dequantize_affine": dequantize,
        "choose_qparams_affine": choose,
    }
    for name, schema in _SCHEMAS.items():
        library.define(name + schema)
        library.impl(name, functions[name], "CompositeImplicitAutograd")
else:
    pytest.importorskip("torchao.quantization")  # defines them

affine: Any = torch.ops.torchao
aten: Any = torch.ops.aten
INT8 = (torch.int8, -128, 127)


class Blocks(nn.Module):
    """Parameters of rows, of the tensor, of columns, and of blocks of a row."""

    def forward(self, x: Any, codes: Any, scales: Any) -> Any:
        results: list[Any] = []
        for mapping, blocks, keepdim in (
            ("ASYMMETRIC", [1, 8], False),
            ("SYMMETRIC", [4, 8], True),
            ("SYMMETRIC_NO_CLIPPING_ERR", [4, 1], True),
            ("ASYMMETRIC", [1, 2], True),
        ):
            scale, zero = affine.choose_qparams_affine(
                x, mapping, blocks, *INT8, 1e-6, torch.float32, torch.int8, keepdim
            )
            quantized = affine.quantize_affine(x, blocks, scale, zero, *INT8)
            real = affine.dequantize_affine(quantized, blocks, scale, zero, *INT8)
            results += [scale, zero, quantized, real]
        real = affine.dequantize_affine(codes, [1, 2], scales, None, torch.int8, -8, 7)
        zeros = torch.zeros_like(scales)
        few = affine.quantize_affine(x, [1, 2], scales, zeros, torch.int8, -8, 7)
        return (*results, real, few)


def test_parameters_of_blocks() -> None:
    torch.manual_seed(0)
    codes = torch.randint(-8, 8, (4, 8), dtype=torch.int8)
    compare(Blocks(), (torch.randn(4, 8), codes, torch.rand(4, 4) + 0.1))


class Linear(nn.Module):
    """A linear layer of dynamically quantized rows, with fake quantization or with integers."""

    def __init__(self, mapping: str, *, integers: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mapping, self.integers = mapping, integers
        self.weight: Any
        self.scales: Any
        self.register_buffer("weight", torch.randint(-127, 128, (16, 64), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(16, 1) * 0.01 + 0.001)
        self.bias = nn.Parameter(torch.randn(16))

    def forward(self, x: Any) -> Any:
        weights, scales, blocks = self.weight, self.scales, [1, 1, x.shape[-1]]
        scale, zero = affine.choose_qparams_affine(
            x, self.mapping, blocks, *INT8, 1e-6, torch.float32, torch.int8, True
        )
        codes = affine.quantize_affine(x, blocks, scale, zero, *INT8)
        if self.integers:
            sums = aten._int_mm(codes.reshape(-1, 64), weights.t())
            real = sums * scale.reshape(-1, 1) * scales.flatten()
            return real.reshape(*x.shape[:-1], 16) + self.bias
        real = affine.dequantize_affine(codes, blocks, scale, zero, *INT8)
        weight = affine.dequantize_affine(weights, [1, 64], scales, None, torch.int8)
        return nn.functional.linear(real, weight, self.bias)


@pytest.mark.parametrize(
    ("mapping", "integers"), [("ASYMMETRIC", False), ("SYMMETRIC", False), ("SYMMETRIC", True)]
)
def test_linear_layers_multiply_codes_of_rows(mapping: str, integers: bool) -> None:
    module = Linear(mapping, integers=integers).eval()
    x = torch.randn(3, 17, 64) * torch.rand(3, 17, 1)
    model: Any = nnefc.pytorch.compile(module, (x,))
    assert (model(x) - module(x)).abs().max() < 1e-5 * module(x).abs().max()
    assert any("code_matmul" in each.kernel for each in model.model.launches)


class Parts(torch.Tensor):
    """A tensor made of others, as those of torchao are."""

    def __tensor_flatten__(self) -> Any:
        raise NotImplementedError


def test_tensors_made_of_others_are_left_to_pytorch() -> None:
    """The error makes `export_program` decompose a program, which names their parts."""
    with pytest.raises(NnefError, match="tensor 'weight' is a Parts") as raised:
        array_of(torch.ones(3).as_subclass(Parts), "weight")
    assert raised.value.errors[0].rule == "torch/unsupported"


class Float8(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("codes", torch.ones(3).to(torch.float8_e4m3fn))

    def forward(self, x: Any) -> Any:
        return x * self.codes.to(torch.float32)


def test_item_types_that_are_not_there_are_named() -> None:
    with pytest.raises(NnefError, match="buffer 'codes' is of float8_e4m3fn") as raised:
        nnefc.pytorch.compile(Float8(), (torch.ones(3),))
    assert raised.value.errors[0].rule == "torch/unsupported"
