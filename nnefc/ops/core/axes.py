"""Checks of attributes that name axes: unique, non-negative, less than the rank."""

from __future__ import annotations

from collections.abc import Sequence

from nnefc.ops.core.spec import Call
from nnefc.ops.core.value_text import listing


def axes_attribute(call: Call, name: str = "axes") -> tuple[int, ...]:
    """An attribute with a list of axes, which must be unique and non-negative."""
    axes: tuple[int, ...] = call[name]
    call.require(
        all(a >= 0 for a in axes), f"items in {name} must be non-negative: {name} = {listing(axes)}"
    )
    call.require(
        len(set(axes)) == len(axes), f"items in {name} must be unique: {name} = {listing(axes)}"
    )
    return axes


def axes_within(
    call: Call, axes: Sequence[int], rank: int, of: str = "input", name: str = "axes"
) -> bool:
    """Require that axes are less than the rank of a tensor; returns whether they are."""
    return call.require(
        all(a < rank for a in axes),
        f"items in {name} must be less than the rank of {of}: {name} = {listing(axes)}, "
        f"rank {rank}",
    )


def axis_attribute(call: Call, name: str = "axis") -> int:
    """An attribute with one axis, which must be non-negative."""
    axis: int = call[name]
    call.require(axis >= 0, f"{name} must be non-negative: {name} = {axis}")
    return axis


def axis_within(call: Call, axis: int, rank: int, of: str = "input", name: str = "axis") -> bool:
    """Require that an axis is less than the rank of a tensor; returns whether it is."""
    return call.require(
        axis < rank, f"{name} must be less than the rank of {of}: {name} = {axis}, rank {rank}"
    )
