"""Tensors whose channels are the last dimension, as some operators of com.microsoft have them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank_at_least
from nnefc.frontends.common.values import Operand


def channels_first(make: OpBuilder, x: Operand) -> Operand:
    """A tensor [n, .., c] as [n, c, ..]; raises OperatorError for rank 1 and 0."""
    rank = len(of_rank_at_least("transpose", "a tensor with channels", x, 2))
    return make.transpose(x, (0, rank - 1, *range(1, rank - 1)))


def with_channels_last(make: OpBuilder, x: Operand) -> Operand:
    """A tensor [n, c, ..] as [n, .., c]."""
    return make.transpose(x, (0, *range(2, x.type.rank), 1))


def of_channels_last(function: Callable[..., Any], *inputs: str) -> Callable[..., Any]:
    """An operator's function for tensors [n, .., c], from one for tensors [n, c, ..].

    `inputs`: the names of the inputs with channels; the result has them, too.
    """
    form = inspect.signature(function)

    @wraps(function)
    def wrapped(make: OpBuilder, *operands: Any, **attributes: Any) -> Any:
        given = form.bind(make, *operands, **attributes)
        for name in inputs:
            if given.arguments.get(name) is not None:
                given.arguments[name] = channels_first(make, given.arguments[name])
        return with_channels_last(make, function(*given.args, **given.kwargs))

    return wrapped


def with_channels_first(
    make: OpBuilder, compute: Callable[[Operand], Operand]
) -> Callable[[Operand], Operand]:
    """A function of tensors [n, c, ..] for tensors [n, .., c]."""
    return lambda x: with_channels_last(make, compute(channels_first(make, x)))
