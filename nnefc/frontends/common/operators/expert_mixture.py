"""Mixtures of experts: the weighted sum of those that a router selects (Shazeer et al. 2017)."""

from __future__ import annotations

from typing import Protocol

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand


class Experts(Protocol):
    """A batch of e networks with equal shapes."""

    @property
    def count(self) -> int:
        """The number e of experts."""
        ...

    def __call__(self, x: Operand) -> Operand:
        """The results [e, n, d] of all experts for x [1 or e, n, d]."""
        ...

    def gathered(self, numbers: Operand) -> Experts:
        """The experts with the indices `numbers` [n]."""
        ...


def expert_mixture(
    make: OpBuilder, experts: Experts, tokens: Operand, weights: Operand, chosen: Operand
) -> Operand:
    """The sum [n, d] of the chosen experts' results for tokens [n, d], times their weights.

    weights and chosen [n, k].  For few tokens the matrices of the chosen experts are gathered;
    otherwise all experts compute all tokens.
    """
    rows, k = chosen.type.dims
    few = rows * k <= experts.count
    return (_gathered if few else _dense)(make, experts, tokens, weights, chosen)


def _gathered(
    make: OpBuilder, experts: Experts, tokens: Operand, weights: Operand, chosen: Operand
) -> Operand:
    """The mixture with gathered matrices of the chosen experts."""
    rows, width = tokens.type.dims
    k = chosen.type.dims[1]
    repeated = make.repeated(make.reshape(tokens, (rows, 1, width)), (rows, k, width))
    own = experts.gathered(make.reshape(chosen, (rows * k,)))
    y = make.reshape(own(make.reshape(repeated, (rows * k, 1, width))), (rows, k, width))
    weighted = make("mul", y, make.reshape(weights, (rows, k, 1)))
    return make("sum_reduce", weighted, axes=(1,))


def _dense(
    make: OpBuilder, experts: Experts, tokens: Operand, weights: Operand, chosen: Operand
) -> Operand:
    """The mixture of all experts, with weight 0 where one is not chosen."""
    rows, width = tokens.type.dims
    k = chosen.type.dims[1]
    numbers = make.cast(make.iota(experts.count), chosen.type.dtype)
    number = make.reshape(numbers, (experts.count, 1, 1))
    is_chosen = make("eq", make.reshape(chosen, (1, rows, k)), number)
    share = make("select", is_chosen, make.reshape(weights, (1, rows, k)), 0.0)
    share = make("sum_reduce", share, axes=(2,))
    y = experts(make.reshape(tokens, (1, rows, width)))
    return make("sum_reduce", make("mul", y, share), axes=(0,))
