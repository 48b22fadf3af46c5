"""The order in which PyTorch lays out the dimensions of results.

A model returns contiguous tensors.  PyTorch has traced what follows with the strides that its own
operators give, such as those of `channels_last`, and views of other strides may be impossible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import fx

Order = tuple[int, ...]
"""The dimensions of a tensor, those with the largest strides first."""


def with_orders(run: Callable[..., Sequence[Any]], module: fx.GraphModule) -> Callable[..., Any]:
    """A function that computes the results of a graph, with the strides that these have there."""
    orders = _orders(module)
    if not orders:
        return run

    def ordered(*args: Any) -> list[Any]:
        results = list(run(*args))
        for i, order in orders.items():
            results[i] = _laid_out(results[i], order)
        return results

    return ordered


def is_view_of_strides(node: fx.Node) -> bool:
    """Whether a node takes items at distances in the memory of a tensor that is not contiguous."""
    name = str(node.target)
    first: Any = node.args[0] if node.args else None
    x: Any = getattr(first, "meta", {}).get("val")
    if not name.startswith("aten.as_strided") or not hasattr(x, "stride"):
        return False
    distance = 1
    for extent, stride in reversed([*zip(map(_number, x.shape), map(_number, x.stride()))]):
        if extent != 1 and stride != distance:
            return True
        distance *= extent or 1
    return False


def _orders(module: fx.GraphModule) -> Mapping[int, Order]:
    """The orders of the results of a graph that are not contiguous, by position."""
    results: Any = next(iter(reversed(module.graph.nodes))).args[0]
    found = {i: _order(each.meta.get("val")) for i, each in enumerate(results)}
    return {i: order for i, order in found.items() if order is not None}


def _order(x: Any) -> Order | None:
    """The order of a dense tensor; None for contiguous ones, and for those with gaps."""
    import torch

    if not isinstance(x, torch.Tensor) or x.layout is not torch.strided:
        return None
    extents, strides = (list(map(_number, each)) for each in (x.shape, x.stride()))
    if None in (*extents, *strides):
        return None
    several = [i for i, n in enumerate(extents) if n > 1]
    order = sorted(several, key=lambda i: -strides[i])
    distance = 1
    for i in reversed(order):
        if strides[i] != distance:
            return None
        distance *= extents[i]
    single = [i for i, n in enumerate(extents) if n <= 1]
    return None if order == several else (*single, *order)


def _number(extent: Any) -> Any:
    """An extent; that of the example if it is symbolic."""
    return extent if isinstance(extent, int) else extent.node.hint


def _laid_out(x: Any, order: Order) -> Any:
    """A tensor with its dimensions in an order."""
    turned = x.permute(order)
    if turned.is_contiguous():
        return x
    return turned.contiguous().permute([order.index(i) for i in range(len(order))])
