"""`PlanConditions`: for which shapes a plan template may hold, beside its guards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]


class ShapeKey(NamedTuple):
    """The shapes of the inputs of a graph, then of its states, flattened."""

    names: tuple[str, ...]
    ranks: tuple[int, ...]
    extents: tuple[int, ...]

    @classmethod
    def of(cls, shapes: Shapes, states: Shapes) -> ShapeKey:
        """The key of these shapes of inputs and of states."""
        every = (*shapes.values(), *states.values())
        ranks, extents = tuple(map(len, every)), tuple(chain.from_iterable(every))
        return cls((*shapes, *states), ranks, extents)

    def at(self, indices: Sequence[int]) -> tuple[int, ...]:
        """The extents at these indices."""
        return tuple(map(self.extents.__getitem__, indices))


class PlanConditions(NamedTuple):
    """The symbols of a template, and conditions that its guards do not contain.

    These compare the few hundred extents of a decoder's states as one tuple.
    """

    symbols: tuple[str, ...]
    """Symbols in the shapes of inputs, in the order of the function's parameters."""
    traced: ShapeKey
    """The shapes of the trace."""
    groups: Sequence[Sequence[int]]
    """Indices of extents of states that share a symbol and must be equal."""
    fixed: Sequence[int]
    """Indices of extents that are constant."""
    values: tuple[int, ...]
    """The hints of `symbols`."""
    is_degraded: bool
    """Whether an optimization was left out because it needs plain integers."""

    def distance(self, values: Sequence[int]) -> int:
        """The largest difference in bit length between parameters and hints of symbols."""
        pairs = zip(values, self.values, strict=False)  # extents of states follow, without a limit
        return max((abs(x.bit_length() - hint.bit_length()) for x, hint in pairs), default=0)

    @property
    def hints(self) -> list[int]:
        """The hints of the function's parameters."""
        return [*self.values, *(self.traced.extents[group[0]] for group in self.groups)]

    def parameters(self, symbols: Mapping[str, int], key: ShapeKey) -> list[int] | None:
        """The values of the function's parameters; None if constant extents or ranks differ."""
        traced = self.traced
        if key.names != traced.names or key.ranks != traced.ranks:
            return None
        if key.at(self.fixed) != traced.at(self.fixed):
            return None
        values = [symbols[name] for name in self.symbols if name in symbols]
        if not len(symbols) == len(values) == len(self.symbols):
            return None
        for indices in self.groups:
            extents = key.at(indices)
            if extents.count(extents[0]) != len(extents):
                return None
            values.append(extents[0])
        return values
