"""The PyTorch function for each NNEF operation, from tensors and attributes.

Attributes are complete: no paddings, strides or dilations are left to be deduced.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (torch is typed in part)

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

Pads = Sequence[tuple[int, int]]


def _aligned(*operands: Any) -> list[Any]:
    """Operands reshaped to one rank, because NNEF aligns the first dimension."""
    rank = max((x.dim() for x in operands if isinstance(x, torch.Tensor)), default=0)
    return [
        x.reshape(*x.shape, *(1,) * (rank - x.dim()))
        if isinstance(x, torch.Tensor) and 0 < x.dim() < rank
        else x
        for x in operands
    ]


def _binary(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda x, y: function(*_aligned(x, y))


def _limit(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda x, y: function(*(torch.as_tensor(v) for v in _aligned(x, y)))


def _padded(x: Any, padding: Pads, value: float) -> tuple[Any, list[int]]:
    """(input with the padding that functions cannot add, padding that they can)."""
    if all(p == q >= 0 for p, q in padding):
        return x, [p for p, _ in padding]
    flat = [n for p, q in reversed(padding) for n in (p, q)]
    return F.pad(x, flat, value=value), [0] * len(padding)


def _per_channel(x: Any) -> Any:
    """A bias or parameter as a vector; None for the number 0."""
    if not isinstance(x, torch.Tensor):
        assert x == 0, "a scalar bias must be 0"
        return None
    if x.dim() == 0:
        assert float(x) == 0, "a scalar bias must be 0"
        return None
    return x.reshape(-1)


def _conv(
    x: Any, w: Any, b: Any = 0.0, *, stride: Sequence[int], dilation: Sequence[int],
    padding: Pads, border: str, groups: int,
) -> Any:  # fmt: skip
    assert border == "constant"
    function = [F.conv1d, F.conv2d, F.conv3d][w.dim() - 3]
    x, pads = _padded(x, padding, 0.0)
    groups = groups or x.shape[1]
    return function(x, w, _per_channel(b), tuple(stride), pads, tuple(dilation), groups)


def _deconv(
    x: Any, w: Any, b: Any = 0.0, *, stride: Sequence[int], dilation: Sequence[int],
    padding: Pads, border: str, groups: int, output_shape: Sequence[int] = (),
) -> Any:  # fmt: skip
    assert border == "constant"
    function = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d][w.dim() - 3]
    assert all(p == q for p, q in padding), "padding must be symmetric"
    pads = [p for p, _ in padding]
    extra = [0] * len(pads)
    if output_shape:
        plain = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(x.shape[2:], stride, pads, dilation, w.shape[2:])
        ]
        extra = [n - m for n, m in zip(output_shape[2:], plain)]
    groups = groups or x.shape[1]
    bias = _per_channel(b)
    return function(x, w, bias, tuple(stride), pads, extra, groups, tuple(dilation))


def _spatial(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(values[2:])


def _is_ceiling(
    extents: Sequence[int], size: Sequence[int], stride: Sequence[int],
    dilation: Sequence[int], padding: Pads,
) -> bool:  # fmt: skip
    """Whether the padding is symmetric except for that of a last, partial window (ceil_mode)."""
    partial = False
    for n, k, s, d, (p, q) in zip(extents, size, stride, dilation, padding):
        room = n + 2 * p - k
        above = q - p
        partial |= above > 0
        starts_inside = (-(-room // s)) * s < n + p
        if d != 1 or 2 * p > k or above not in (0, -room % s) or not starts_inside:
            return False
    return partial


def _max_pool(
    x: Any, *, size: Sequence[int], stride: Sequence[int], dilation: Sequence[int],
    padding: Pads, border: str,
) -> Any:  # fmt: skip
    assert tuple(size[:2]) == (1, 1) and tuple(stride[:2]) == (1, 1), "pooling must be spatial"
    function = [F.max_pool1d, F.max_pool2d, F.max_pool3d][len(size) - 3]
    outside = -math.inf if border == "ignore" else 0.0
    spatial, kernel = padding[2:], _spatial(size)
    if border == "ignore" and _is_ceiling(x.shape[2:], size[2:], stride[2:], dilation[2:], spatial):
        pads = [p for p, _ in spatial]
        return function(x, kernel, _spatial(stride), pads, _spatial(dilation), ceil_mode=True)
    if border != "ignore" or any(2 * max(p) > k for p, k in zip(spatial, kernel)):
        flat = [n for p in reversed(spatial) for n in p]
        x, pads = F.pad(x, flat, value=outside), [0] * len(spatial)
    else:
        x, pads = _padded(x, spatial, outside)
    return function(x, kernel, _spatial(stride), pads, _spatial(dilation))


def _avg_pool(
    x: Any, *, size: Sequence[int], stride: Sequence[int], dilation: Sequence[int],
    padding: Pads, border: str,
) -> Any:  # fmt: skip
    assert tuple(size[:2]) == (1, 1) and tuple(stride[:2]) == (1, 1), "pooling must be spatial"
    assert all(d == 1 for d in dilation)
    function = [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d][len(size) - 3]
    spatial = padding[2:]
    assert border == "constant" or all(p == q for p, q in spatial), "padding must be symmetric"
    x, pads = _padded(x, spatial, 0.0)
    return function(x, _spatial(size), _spatial(stride), pads, False, border == "constant")


def _batch_norm(
    x: Any, mean: Any, variance: Any, offset: Any, scale: Any, *, epsilon: float
) -> Any:
    parameters = (torch.as_tensor(p, dtype=x.dtype) for p in (mean, variance, scale, offset))
    mean, variance, scale, offset = (p.reshape(-1).expand(x.shape[1]) for p in parameters)
    return F.batch_norm(x, mean, variance, scale, offset, False, 0.0, epsilon)


def _local_response_norm(
    x: Any, *, size: Sequence[int], alpha: float, beta: float, bias: float
) -> Any:
    assert all(n == 1 for i, n in enumerate(size) if i != 1), "normalisation over channels"
    return F.local_response_norm(x, size[1], alpha, beta, bias)


def _matmul(a: Any, b: Any, *, transposeA: bool, transposeB: bool) -> Any:
    return torch.matmul(a.mT if transposeA else a, b.mT if transposeB else b)


def _linear(x: Any, w: Any, b: Any = 0.0) -> Any:
    return F.linear(x, w, _per_channel(b))


def _softmax(x: Any, *, axes: Sequence[int]) -> Any:
    if len(axes) == 1:
        return torch.softmax(x, axes[0])
    e = torch.exp(x - x.amax(tuple(axes), keepdim=True))
    return e / e.sum(tuple(axes), keepdim=True)


def _sum_reduce(x: Any, *, axes: Sequence[int], normalize: bool = False) -> Any:
    return (torch.mean if normalize else torch.sum)(x, tuple(axes), keepdim=True)


def _reshape(x: Any, *, shape: Sequence[int], axis_start: int = 0, axis_count: int = -1) -> Any:
    end = x.dim() if axis_count < 0 else axis_start + axis_count
    inner = [x.shape[axis_start + i] if n == 0 else n for i, n in enumerate(shape)]
    return x.reshape(*x.shape[:axis_start], *inner, *x.shape[end:])


def _transpose(x: Any, *, axes: Sequence[int]) -> Any:
    return x.permute(*axes, *range(len(axes), x.dim()))


def _squeeze(x: Any, *, axes: Sequence[int]) -> Any:
    return x.reshape([n for i, n in enumerate(x.shape) if i not in axes])


def _unsqueeze(x: Any, *, axes: Sequence[int]) -> Any:
    for axis in sorted(axes):
        x = x.unsqueeze(axis)
    return x


def _split(x: Any, *, axis: int, ratios: Sequence[int]) -> Any:
    unit = x.shape[axis] // sum(ratios)
    return torch.split(x, [unit * r for r in ratios], axis)


def _slice(
    x: Any, *, axes: Sequence[int], begin: Sequence[int], end: Sequence[int],
    stride: Sequence[int] = (),
) -> Any:  # fmt: skip
    index: list[Any] = [slice(None)] * x.dim()
    for axis, first, last, step in zip(axes, begin, end, stride or (1,) * len(axes)):
        extent = x.shape[axis]
        last = extent if last == 0 else last
        index[axis] = slice(first, last, step)
    return x[tuple(index)]


def _pad(x: Any, *, padding: Pads, border: str, value: float) -> Any:
    assert border == "constant"
    return F.pad(x, [n for p in reversed(padding) for n in p], value=value)


def _upsample(x: Any, *, factor: Sequence[int]) -> Any:
    return F.interpolate(x, scale_factor=[float(f) for f in factor], mode="nearest")


def _clamp(x: Any, low: Any, high: Any) -> Any:
    if isinstance(low, torch.Tensor) and low.dim() == 0:
        low, high = float(low), float(high)
    x, low, high = _aligned(x, low, high)
    return torch.clamp(x, low, high)


def _layer_norm(x: Any, scale: Any, offset: Any, *, axis: int, epsilon: float) -> Any:
    return F.layer_norm(x, x.shape[axis:], scale, offset, epsilon)


def _attention(q: Any, k: Any, v: Any, *, scale: float) -> Any:
    return F.scaled_dot_product_attention(q, k, v, scale=scale)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": _binary(torch.add),
    "sub": _binary(torch.sub),
    "mul": _binary(torch.mul),
    "div": _binary(torch.div),
    "pow": _binary(torch.pow),
    "min": _limit(torch.minimum),
    "max": _limit(torch.maximum),
    "neg": torch.neg,
    "rcp": torch.reciprocal,
    "exp": torch.exp,
    "log": torch.log,
    "sin": torch.sin,
    "cos": torch.cos,
    "abs": torch.abs,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "sqr": torch.square,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "copy": lambda x: x,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "softplus": F.softplus,
    "silu": F.silu,
    "gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "elu": lambda x, alpha=1.0: F.elu(x, alpha),
    "leaky_relu": lambda x, alpha: F.leaky_relu(x, alpha),
    "clamp": _clamp,
    "conv": _conv,
    "deconv": _deconv,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "batch_normalization": _batch_norm,
    "local_response_normalization": _local_response_norm,
    "matmul": _matmul,
    "linear": _linear,
    "softmax": _softmax,
    "sum_reduce": _sum_reduce,
    "mean_reduce": lambda x, axes: x.mean(tuple(axes), keepdim=True),
    "max_reduce": lambda x, axes: x.amax(tuple(axes), keepdim=True),
    "min_reduce": lambda x, axes: x.amin(tuple(axes), keepdim=True),
    "reshape": _reshape,
    "transpose": _transpose,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "concat": lambda *parts, axis: torch.cat(parts, axis),
    "split": _split,
    "slice": _slice,
    "pad": _pad,
    "tile": lambda x, repeats: x.repeat(*repeats),
    "nearest_upsample": _upsample,
    # operations of benchmarks.convert.patterns
    "layer_normalization": _layer_norm,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "attention": _attention,
}
