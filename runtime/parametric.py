"""Models as functions of symbols: one lowering, and a plan for every value that it holds for.

What is computed of symbols, by the front end, by passes and by lowering, are extents
(`nnefc.symbolic`), and so are some words of the plan, numbers of tiles, sizes of buffers.  For
other values of the symbols these are computed anew; code, weights and launches stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nnefc.runtime import native
from nnefc.runtime.code import Code, compile_kernels
from nnefc.runtime.compiled import Compiled, LaunchInfo, launch_infos, tensors, total_work
from nnefc.runtime.planner import TILES, Draft, assemble, draft
from nnefc.runtime.tensors import TensorSpec
from nnefc.symbolic import Extent, Function, Trace, now

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
        self._inputs, self._outputs = tensors(graph)
        self._name, self._variables = graph.name, graph.variables
        self._states = tuple(program.states)
        kernels = program.kernels
        self._code: Code = compile_kernels(kernels, progress, beside=native.functions("executor"))
        self._arrays = [
            each if isinstance(each, np.ndarray) else packed(each) for each in program.constants
        ]
        self._draft: Draft = draft(
            program, len(self._inputs), len(self._outputs), self._code.offset
        )
        self._infos: tuple[LaunchInfo, ...] = launch_infos(program)
        self._work = total_work(self._infos)
        dims = [extent for spec in (*self._inputs, *self._outputs) for extent in spec.shape]
        self._numbers = [
            _Symbolic.of(each)
            for each in (self._draft.params, self._draft.tiles, [self._draft.arena_bytes], dims)
        ]
        results = [x for each in self._numbers for x in each.extents]
        self._function: Function = trace.function(cast(Sequence[int], results))
        self._launches = np.zeros((len(self._draft.kernels), 4), np.int64)
        self._launches[:] = self._present_launches()

    def _present_launches(self) -> Words:
        from nnefc.kernels.abi import LAUNCH

        return np.array(
            [
                LAUNCH.pack(kernel=kernel, params=8 * start, tiles=now(tiles), unused=0)
                for kernel, start, tiles in zip(
                    self._draft.kernels, self._draft.starts, self._draft.tiles, strict=True
                )
            ],
            np.int64,
        ).reshape(-1, len(LAUNCH.offsets))

    def at(self, symbols: Sequence[int]) -> Compiled | None:
        """What is compiled, with the plan for these values; None if it does not hold for them."""
        try:
            values = self._function(*symbols)
            if values is None:
                return None
            params, tiles, (arena_bytes,), dims = (each.at(values) for each in self._numbers)
        except (ArithmeticError, ValueError):
            return None
        launches = self._launches.copy()
        launches[:, TILES] = tiles
        shapes = dims.tolist()
        inputs, outputs = (
            tuple(self._spec(spec, shapes) for spec in specs)
            for specs in (self._inputs, self._outputs)
        )
        return Compiled(
            name=self._name,
            inputs=inputs,
            outputs=outputs,
            variables=self._variables,
            states=self._states,
            code=self._code,
            plan=assemble(self._draft, launches, params, int(arena_bytes)),
            work=self._work,
            launches=lambda: self._infos,
            constants=lambda: self._arrays,
            constant_bytes=sum(array.nbytes for array in self._arrays),
        )

    @staticmethod
    def _spec(spec: TensorSpec, dims: list[int]) -> TensorSpec:
        """A tensor with the first of `dims`, which are used up."""
        shape = tuple(dims[: len(spec.shape)])
        del dims[: len(spec.shape)]
        return TensorSpec(spec.name, shape, spec.dtype)
