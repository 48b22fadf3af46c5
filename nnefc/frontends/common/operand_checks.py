"""Checks of the arguments of operators; messages name the argument."""

from __future__ import annotations

import math
from typing import Any

from nnefc.frontends.common.budget import Budget
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.ir import DType, TensorType
from nnefc.support.limits import Limits, how_to_raise


def of_rank(what: str, name: str, x: Operand, *ranks: int) -> tuple[int, ...]:
    """The shape of argument `name`, whose rank is one of `ranks`; raises OperatorError."""
    if x.type.rank not in ranks:
        listed = " or ".join(map(str, ranks))
        message = f"{name} has shape {list(x.type.dims)}; a tensor of rank {listed} is expected"
        raise OperatorError(f"argument/{what}", message)
    return x.type.dims


def of_rank_at_least(what: str, name: str, x: Operand, rank: int) -> tuple[int, ...]:
    """The shape of argument `name`; raises OperatorError."""
    if x.type.rank < rank:
        message = (
            f"{name} has shape {list(x.type.dims)}; a tensor of rank at least {rank} is expected"
        )
        raise OperatorError(f"argument/{what}", message)
    return x.type.dims


def of_shape(what: str, name: str, x: Operand, shape: tuple[int, ...]) -> None:
    """Raise OperatorError unless argument `name` has this shape."""
    if x.type.dims != shape:
        message = f"{name} has shape {list(x.type.dims)}, not {list(shape)}"
        raise OperatorError(f"argument/{what}", message)


def check_shape(make: OpBuilder, name: str, shape: tuple[int, ...], dtype: DType) -> None:
    """Raise OperatorError for a shape in a document that no tensor can have within the limits."""
    limits = make.budget.limits
    if any(n < 0 for n in shape):
        raise OperatorError("operator/attribute", f"{name} = {list(shape)} has a negative extent")
    if len(shape) > limits.rank:
        message = f"{name} = {list(shape)} has rank {len(shape)}; at most {limits.rank}"
        raise OperatorError("limit/rank", message)
    make.check_size(TensorType(dtype, shape))


def not_empty(what: str, name: str, items: Any) -> None:
    """Raise OperatorError for an array without items."""
    if not items:
        raise OperatorError(f"argument/{what}", f"{name} has no items")


def take_room(budget: Budget, *extents: int) -> None:
    """Charge the items of a tensor of these extents to the budget.

    Raises OperatorError for a negative extent, Exhausted beyond the limit.
    """
    count = 1
    for extent in extents:
        if extent < 0:
            raise OperatorError("operator/attribute", f"{extent} cannot be an extent")
        count *= extent
    budget.take_items(count)


def check_input(name: str, type_: TensorType, limits: Limits) -> None:
    """Raise OperatorError for an input of the graph of a type that is not allowed.

    Its extents, its rank or its size may be the reason.
    """
    if any(extent < 0 for extent in type_.dims):
        message = f"'{name}' has a negative extent: {list(type_.dims)}"
        raise OperatorError("input/shape", message)
    if type_.rank > limits.rank:
        message = f"'{name}' has rank {type_.rank}, more than {limits.rank}"
        raise OperatorError("limit/rank", message, how_to_raise("rank"))
    # an extent of 0 counts as 1: the other extents recur in tensors that do have items
    nbytes = math.prod(extent or 1 for extent in type_.dims) * type_.dtype.itemsize
    if nbytes > limits.tensor_bytes:
        message = f"'{name}' has {nbytes:,} bytes, more than {limits.tensor_bytes:,}"
        raise OperatorError("limit/tensor", message, how_to_raise("tensor_bytes"))
