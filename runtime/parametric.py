"""Models as functions of symbols: one lowering, and a plan for every value that it holds for.

What is computed of symbols, by the front end, by passes and by lowering, are extents
(`nnefc.symbolic`), and so are some words of the plan, numbers of tiles, sizes of buffers.  For
other values of the symbols these are computed anew; code, weights and launches stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nnefc.runtime.compiled import Compiled, compile_draft
from nnefc.runtime.tensors import TensorSpec
from nnefc.symbolic import Extent, Function, Trace, is_symbolic, now

if TYPE_CHECKING:
    from nnefc.ir import Graph
    from nnefc.runtime.derived import Derived
    from nnefc.runtime.objects import Progress
    from nnefc.runtime.program import Program

Array = np.ndarray[Any, Any]
Words = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(slots=True)
class _Symbolic:
    """Numbers, some of which depend on symbols."""

    present: Words
    """What they are now."""
    places: list[int]
    """Which depend on symbols."""
    extents: list[Extent]

    @classmethod
    def of(cls, numbers: Sequence[int]) -> _Symbolic:
        places = [i for i, x in enumerate(numbers) if isinstance(x, Extent)]
        extents = [cast(Extent, numbers[i]) for i in places]
        return cls(np.array([now(x) for x in numbers], np.int64), places, extents)

    def at(self, values: list[int]) -> Words:
        """The numbers with `values` of those that depend on symbols, which are used up."""
        words = self.present.copy()
        words[self.places] = values[: len(self.places)]
        del values[: len(self.places)]
        return words


class ParametricModel:
    """What a program with extents computes, compiled."""

    def __init__(
        self,
        trace: Trace,
        program: Program,
        graph: Graph,
        progress: Progress | None,
        packed: Callable[[Derived], Array],
    ) -> None:
        self._compiled, self._draft = compile_draft(program, graph, progress, packed)
        self._specs = (*self._compiled.inputs, *self._compiled.outputs)
        self._varying = [i for i, spec in enumerate(self._specs) if is_symbolic(spec.shape)]
        """Which of them have shapes that depend on symbols."""
        dims = [extent for i in self._varying for extent in self._specs[i].shape]
        self._numbers = [
            _Symbolic.of(each)
            for each in (self._draft.params, self._draft.tiles, [self._draft.arena_bytes], dims)
        ]
        self._tiles_vary = is_symbolic(self._draft.tiles)
        results = [x for each in self._numbers for x in each.extents]
        self._function: Function = trace.function(cast(Sequence[int], results))

    def at(self, symbols: Sequence[int]) -> Compiled | None:
        """What is compiled, with the plan for these values; None if it does not hold for them."""
        try:
            values = self._function(*symbols)
            if values is None:
                return None
            params, tiles, (arena_bytes,), dims = (each.at(values) for each in self._numbers)
        except (ArithmeticError, ValueError):
            return None
        specs, extents = list(self._specs), iter(dims.tolist())
        for i in self._varying:
            spec = specs[i]
            specs[i] = TensorSpec(spec.name, tuple(islice(extents, len(spec.shape))), spec.dtype)
        inputs = tuple(specs[: len(self._compiled.inputs)])
        outputs = tuple(specs[len(inputs) :])
        if self._tiles_vary:
            plan = self._draft.plan_of(params, tiles, int(arena_bytes))
        else:  # launches are the same
            params.flags.writeable = False
            plan = replace(self._compiled.plan, params=params, arena_bytes=int(arena_bytes))
        return replace(self._compiled, inputs=inputs, outputs=outputs, plan=plan)
