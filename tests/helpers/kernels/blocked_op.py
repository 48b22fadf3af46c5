"""Runs one operation on channel-blocked tensors, converted from and to row-major arrays."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from nnefc.ir import Blocked, DType, Graph, Op, TensorType, Value
from nnefc.kernels.target.isa import host
from nnefc.lower import Lowering, lower
from nnefc.lower.context import blocked_lowering
from nnefc.lower.convolution import panels
from nnefc.runtime.run.compiled_model import CompiledModel
from tests.helpers.kernels.one_op import Array, guarded

Halo = tuple[tuple[int, int], ...]


@contextmanager
def halves() -> Generator[None]:
    """Use half vectors wherever possible, even where the cost model would not."""
    able = host()._replace(halves=True)
    with (
        mock.patch.object(panels, "LEAST_SAVED", 0),
        mock.patch.object(panels, "host", lambda: able),
    ):
        yield


def halo(rank: int, before: int = 0, after: int | None = None) -> Halo:
    """The same halo around each spatial dimension of a tensor of `rank` dimensions."""
    return ((before, before if after is None else after),) * (rank - 2)


def layout(graph: Graph, x: Value, to: Blocked | None) -> Value:
    """The operation that changes the layout."""
    return graph.insert(Op("layout", [x], {}, [x.type.with_layout(to)])).output


def constant(graph: Graph, items: Array) -> Value:
    """Known data."""
    attributes = {"shape": items.shape, "value": items}
    type_ = TensorType(DType(items.dtype.name), items.shape)
    return graph.insert(Op("constant", [], attributes, [type_])).output


class BlockedGraph:
    """Builds and runs a graph on blocked tensors; `input` converts arrays to them."""

    def __init__(self, block: int) -> None:
        self.graph = Graph("test")
        self.block = block
        self._arrays: list[Array] = []

    def blocked(
        self, rank: int, halo_: Halo | None = None, itemsize: int = 4, fill: int = 0
    ) -> Blocked:
        return Blocked(self.block, halo_ or halo(rank), itemsize, fill)

    def input(self, x: Array, halo_: Halo | None = None, fill: int = 0) -> Value:
        """Add an input with the items of x; returns the blocked value."""
        type_ = TensorType(DType(x.dtype.name), x.shape)
        value = self.graph.add_input(type_, f"x{len(self._arrays)}")
        self._arrays.append(x)
        return layout(self.graph, value, self.blocked(x.ndim, halo_, x.itemsize, fill))

    def op(
        self,
        name: str,
        inputs: Sequence[Value],
        *shapes: tuple[int, ...],
        halo_: Halo | None = None,
        **attributes: Any,
    ) -> list[Value]:
        """An operation with blocked results."""
        types = [
            TensorType(DType.FLOAT32, shape, self.blocked(len(shape), halo_)) for shape in shapes
        ]
        return list(self.graph.insert(Op(name, inputs, attributes, types)).outputs)

    def run(self, *values: Value, threads: int = 1, at_end: bool = True) -> list[Array]:
        """The items of blocked values; inputs and outputs end (or start) at a guard page.

        Halos and padding are checked too.
        """
        for i, value in enumerate(values):
            self.graph.add_output(layout(self.graph, value, None), f"y{i}")
        for i, value in enumerate(values):
            self.graph.add_output(memory(self.graph, value), f"memory{i}")
        model = CompiledModel.of(lower(self.graph), self.graph, threads=threads)
        inputs: list[Array] = []
        for x in self._arrays:
            inputs.append(guarded(x.shape, x.dtype, at_end=at_end))
            inputs[-1][...] = x
        outputs = [guarded(spec.shape, spec.dtype, at_end=at_end) for spec in model.outputs]
        model(*inputs, out=outputs)
        # results must not depend on earlier arena contents: every item of it becomes NaN
        for context in model._runner._idle:  # pyright: ignore[reportPrivateUsage]
            arena = context._arena  # pyright: ignore[reportPrivateUsage]
            assert arena is not None
            arena.view(np.uint8)[...] = 0xFF
        for y in outputs:
            y.reshape(-1).view(np.uint8)[...] = 0xAA
        model(*inputs, out=outputs)
        for y, value in zip(outputs[len(values) :], values, strict=True):
            _check_surroundings(y, value.type)
        return [y.copy() for y in outputs[: len(values)]]


@blocked_lowering("test.memory")
def _memory(lower: Lowering, op: Op) -> None:
    lower.alias(op.output, op.inputs[0])


def memory(graph: Graph, x: Value) -> Value:
    """All items of a blocked tensor in memory, halo and padding included."""
    assert x.type.layout is not None
    flat = TensorType(x.type.dtype, (x.type.layout.volume(x.type.dims),))
    return graph.insert(Op("test.memory", [x], {}, [flat])).output


def _check_surroundings(stored: Array, type_: TensorType) -> None:
    """Assert that the padding of the last channel block is zero, and the halo as it should be."""
    to, shape = type_.layout, type_.dims
    assert to is not None
    extents = to.extents(shape)
    planes = stored.reshape(shape[0], to.blocks(shape), to.plane(shape), to.block)
    pixels = planes[:, :, : math.prod(extents)].reshape(*planes.shape[:2], *extents, to.block)
    edges = zip(to.halo, shape[2:], strict=True)
    inside = (slice(None), slice(None), *(slice(a, a + n) for (a, _), n in edges))
    filled = -(-shape[1] // to.entry) * to.entry - (to.blocks(shape) - 1) * to.block
    whole = shape[1] - (to.blocks(shape) - 1) * to.block
    if to.itemsize > 1:  # codes have zero weights instead
        assert not pixels[inside][:, -1, ..., whole:filled].any(), "filling channels are not zero"
    around = pixels.copy()
    around[inside] = to.fill
    assert (around == to.fill).all(), f"the halo is not {to.fill}"
