"""Random weights with which each channel of a layer differs from place to place.

Layers are standardised for an example, one after the other, as in "All you need is a good init"
(Mishkin and Matas, 2016), but channel by channel.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn

_LEAST_PLACES: Final = 16
"""Places from which the mean and the deviation of a channel are told."""
_CENTERED: Final = 0.5
"""How much of the mean is taken away before last layers; all of it would enlarge errors."""
_NOISE: Final = 0.2
"""How far the means of channels are from zero, relative to their deviations."""


@torch.no_grad()
def standardise(
    module: nn.Module, args: tuple[Any, ...], deviation: Callable[[str], float | None]
) -> None:
    """Set the weights of convolutions, products and normalisations for a call.

    `deviation`: of the results of a last layer, by its path; None for others.  Other weights stay
    as they are.
    """
    seen: set[nn.Module] = set()
    handles = [
        layer.register_forward_hook(_hook(seen, deviation(path)))
        for path, layer in module.named_modules()
        if _is_layer(layer) or _is_norm(layer)
    ]
    try:
        module(*args)
    finally:
        for handle in handles:
            handle.remove()


def _is_layer(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Conv2d | nn.ConvTranspose2d | nn.Linear)


def _is_norm(layer: nn.Module) -> bool:
    """Whether a layer has statistics, as `FrozenBatchNorm2d` of torchvision has them too."""
    return hasattr(layer, "running_mean") and hasattr(layer, "running_var")


def _hook(seen: set[nn.Module], deviation: float | None) -> Any:
    """Standardises a layer in its first call, and computes its result again."""

    def standardised(layer: Any, args: tuple[Tensor], result: Tensor) -> Tensor:
        if layer in seen:
            return result
        seen.add(layer)
        if _is_norm(layer):
            _measure(layer, args[0])
        else:
            _scale(layer, result, deviation)
        return layer.forward(*args)

    return standardised


def _measure(layer: Any, x: Tensor) -> None:
    """Set the statistics of a normalisation; with few places, they are those of all channels."""
    mean, spread = _statistics(x)
    if _places(x) < _LEAST_PLACES:
        mean, spread = torch.zeros_like(mean), x.square().mean().sqrt().expand_as(mean)
    layer.running_mean.copy_(mean * _CENTERED)
    layer.running_var.copy_(spread.square() + (mean * (1 - _CENTERED)).square())


def _scale(layer: Any, result: Tensor, deviation: float | None) -> None:
    """Scale the weights of a layer; its bias, if any, centers each channel."""
    mean, spread = _statistics(result)
    target = deviation or 1.0
    every = result.square().mean().sqrt().clamp(min=1e-6)
    if layer.bias is None or _places(result) < _LEAST_PLACES:
        layer.weight.mul_(target / every)
        if layer.bias is not None:
            layer.bias.copy_(torch.randn_like(layer.bias) * target)
        return
    taken = mean if deviation else mean * _CENTERED
    spread = (spread.square() + (mean - taken).square()).sqrt()
    factor = target / spread.clamp(min=0.1 * float(every))
    axis = 1 if isinstance(layer, nn.ConvTranspose2d) else 0
    shape = [-1 if i == axis else 1 for i in range(layer.weight.dim())]
    layer.weight.mul_(factor.view(shape))
    layer.bias.copy_((layer.bias - taken) * factor + torch.randn_like(mean) * _NOISE * target)


def _places(x: Tensor) -> int:
    """The items of a channel."""
    return x.numel() // x.shape[1]


def _statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """Means and deviations of channels, which are the second dimension."""
    rows = x.transpose(0, 1).flatten(1)
    return rows.mean(1), rows.std(1, correction=0)
