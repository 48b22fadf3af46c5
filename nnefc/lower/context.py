"""The interface of lowering functions: buffers for values, and a list of launches to append to.

A lowering is registered under the name of the operation that it turns into launches:

    @lowering("transpose")
    def transpose(lower: Lowering, op: Op) -> None:
        x, y = lower.read(op.inputs[0]), lower.write(op.output)
        lower.launch(strided.copy(itemsize), STRIDED.pack(x=x, y=y, ...), tiles=4)
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nnefc.ir import DType, Graph, Op, Value
from nnefc.kernels.executor.team_state import MAX_TILES
from nnefc.kernels.parameters import Words
from nnefc.kernels.template import Kernel
from nnefc.lower.buffer_aliasing import BufferAlias, occupied_bytes
from nnefc.lower.constants import ConstantPool, Key
from nnefc.ops.tools.cost import largest_live_bytes
from nnefc.program.program import Buffer, Launch, Program, Ref
from nnefc.support.registration import is_taken
from nnefc.symbolic.traced_array import TracedArray

if TYPE_CHECKING:
    import numpy as np

    from nnefc.packing import Parameters

    Array = np.ndarray[Any, Any]

Lower = Callable[["Lowering", Op], None]

_lowerings: dict[tuple[str, bool], Lower] = {}
"""By the name of the operation, and whether it is for blocked tensors."""


def lowering(*names: str, blocked: bool = False) -> Callable[[Lower], Lower]:
    """Register the lowering of the operations `names`; two of one are an error."""

    def register(function: Lower) -> Lower:
        for name in names:
            if is_taken(_lowerings.get((name, blocked)), function):
                raise ValueError(f"operation {name!r} has a lowering already")
            _lowerings[name, blocked] = function
        return function

    return register


def blocked_lowering(*names: str) -> Callable[[Lower], Lower]:
    """Register what lowers the operations `names` if an operand or a result is blocked."""
    return lowering(*names, blocked=True)


def find_lowering(op: Op) -> Lower | None:
    """The lowering of an operation, if it has one."""
    blocked = any(v.type.layout is not None for v in (*op.inputs, *op.outputs))
    return _lowerings.get((op.name, blocked))


def has_lowering(name: str) -> bool:
    """Whether operation `name` can be lowered over row-major tensors."""
    return (name, False) in _lowerings


def has_blocked_lowering(name: str) -> bool:
    """Whether operation `name` can be lowered if an operand or a result is blocked."""
    return (name, True) in _lowerings


@dataclass(frozen=True, slots=True)
class QuantizedBlocks:
    """Weights in blocks of a format of `nnefc.support.block_formats`, [rows, bytes of a row]."""

    data: Array
    format: str


@dataclass(frozen=True)
class ProgramState:
    """State shared by all graphs lowered into one program."""

    program: Program
    """Lowering appends launches and constants to it."""
    constants: ConstantPool
    zero_filled: Container[Value]
    """Blocked values whose padding channels must be zero."""
    threads: int
    """Threads that share scratch memory; more can run the program, but some then wait."""
    cache_bytes: int
    """Bytes of the largest cache: larger results bypass it."""
    live: int
    """Bytes that the arena needs anyway: at least those of values alive at one time."""
    growing: bool = False
    """Shapes change from call to call, so kernels must suit many shapes."""
    release: Callable[[], None] | None = None
    """Called after much data was read that need not stay in memory."""


class Lowering:
    """The state of lowering one graph.

    Tensors are dense and row-major, or blocked (`nnefc.lower.blocked.tensors`).  A value is either
    in a buffer (perhaps shared with the value it is a view of), or data known now, which gets a
    buffer when it is first read.
    """

    def __init__(self, graph: Graph, common: ProgramState) -> None:
        self.graph = graph
        self.program = common.program
        self.threads = common.threads
        self.cache_bytes = common.cache_bytes
        self.growing = common.growing
        self.release = common.release
        self._common = common
        self._constants = common.constants
        self._places: dict[Value, Ref] = {}
        self._data: dict[Value, Array] = {}
        self._blocks: dict[Value, QuantizedBlocks] = {}
        self._label = ""
        self._occupied: dict[Op, int] = {}
        self._largest = common.live
        self.room = 0
        """Bytes of scratch memory that this operation can take while others need the arena."""
        self._outputs: dict[Value, Ref] = {}
        """Values to be computed where a graph output is."""
        self._parts: dict[Value, BufferAlias] = {}
        """Values to be computed in the memory of others."""
        self._taken: dict[Value, Ref] = {}
        """Memory of values to be computed, which parts of them have already."""

    # -- for lowering functions

    def read(self, value: Value) -> Ref:
        """Where the items of `value` are."""
        place = self._places.get(value)
        if place is None:
            data = self.data(value)
            assert data is not None, f"%{value.name} is neither computed nor known"
            place = self._places[value] = self.constant(data)
        return place

    def write(self, value: Value) -> Ref:
        """Where to put the items of `value`, an output of the operation; allocates the buffer."""
        assert value not in self._places, f"%{value.name} has a buffer already"
        place = self._places[value] = self._memory(value)
        return replace(place, writes=True)

    def _memory(self, value: Value) -> Ref:
        """Memory for a value: its own, that of a graph output, or a part of another value's."""
        found = self._taken.get(value)
        if found is not None:
            return found
        part, output = self._parts.get(value), self._outputs.get(value)
        if part is not None:
            whole = self._memory(part.whole)
            found = replace(whole, offset=whole.offset + part.offset)
        else:
            found = output or Ref(Buffer("arena", value.type.nbytes, label=value.name))
        self._taken[value] = found
        return found

    def alias(self, value: Value, of: Value, offset: int = 0) -> None:
        """`value` is a view: the bytes of `of` from `offset` on."""
        known = self._data.get(of)
        if known is not None and known.size == value.type.volume:
            self._data[value] = known.reshape(value.type.dims)
            if of not in self._places:
                return
        place = self.read(of)
        self._places[value] = replace(place, offset=place.offset + offset)

    def scratch(self, nbytes: int, label: str = "") -> Ref:
        """Memory for the launches of this operation; not initialised."""
        return Ref(Buffer("arena", max(nbytes, 1), label=label), writes=True)

    def constant(self, array: Array) -> Ref:
        """Memory that holds `array`, kept by reference if it is C-contiguous and aligned."""
        return self._constants.place(array)

    def table(self, array: Array | TracedArray) -> Ref:
        """`constant` for tables that many operations have in common: equal ones are kept once."""
        return self._constants.table(array)

    def derived(self, sources: Sequence[Array], how: Key, make: Callable[[], Array]) -> Ref:
        """Memory that holds `make()`, which depends on `sources` and `how` only; made once.

        `how` names what is made of the items of the sources, and all that it is made by.
        """
        return self._constants.derived(sources, how, make)

    def packed(self, source: Array, packing: str, parameters: Parameters, dtype: DType) -> Ref:
        """Memory that holds `source` as `nnefc.packing` arranges it; the same is made once.

        `dtype`: the type that kernels read; items of the source may be narrower.
        """
        return self._constants.packed(source, packing, parameters, dtype.numpy, self.release)

    def must_fill_with_zeros(self, value: Value) -> bool:
        """Whether what fills up the last block of channels of a blocked value has to be zero."""
        return value in self._common.zero_filled

    def launch(
        self,
        kernel: Kernel,
        words: Words,
        tiles: int = 1,
        label: str = "",
        in_place: tuple[Ref, ...] = (),
    ) -> None:
        """Append a launch of `tiles` pieces of work that may run in any order, at the same time.

        `in_place`: inputs that an output of the same size may take the memory of, because the
        kernel reads an item before it writes the one at the same offset, and never after.
        """
        assert 1 <= tiles <= MAX_TILES, f"{tiles} tiles"
        self.program.launches.append(Launch(kernel, words, tiles, label or self._label, in_place))

    def data(self, value: Value) -> Array | None:
        """The items of `value` if they are known now: a constant, or a variable never updated."""
        data = self._data.get(value)
        if data is not None and data.dtype != value.type.dtype.numpy:
            data = self._data[value] = data.astype(value.type.dtype.numpy)
        return data

    def stored(self, value: Value) -> Array | None:
        """As `data`, but perhaps in a narrower type, which all of the items are in."""
        return self._data.get(value)

    def blocks(self, value: Value) -> QuantizedBlocks | None:
        """The items of `value` as blocks, for operations that can read them."""
        return self._blocks.get(value)

    def know_blocks(self, value: Value, blocks: QuantizedBlocks) -> None:
        """`value` is what `blocks` stand for."""
        self._blocks[value] = blocks

    def scalar(self, value: Value) -> bool | int | float | None:
        """What every item of `value` is, if it is known now: a single item, or one repeated."""
        data = self._data.get(value)
        if data is None or any(step for step, n in zip(data.strides, data.shape) if n > 1):
            return None
        return data[(0,) * data.ndim].item()

    # -- for the walk over the graph

    def within(self, body: Graph) -> Lowering:
        """For a graph that the current operation runs, while all that is alive now stays so."""
        return Lowering(body, replace(self._common, live=self.room + largest_live_bytes(body)))

    def place(self, value: Value, ref: Ref) -> None:
        """`value` lives in memory that exists already."""
        self._places[value] = ref

    def find(self, value: Value) -> Ref | None:
        """Where `value` lives, if it is in memory by now."""
        return self._places.get(value)

    def know(self, value: Value, data: Array) -> None:
        """`value` is `data`, of its shape and type; memory is taken when it is read.

        Items in a narrower type are converted where they are not packed.
        """
        self._data[value] = data

    def forget(self, value: Value) -> None:
        """Nothing reads the data of `value` any more, other than from memory."""
        self._data.pop(value, None)

    def assign_output(self, value: Value, at: Ref) -> None:
        """`value` will be computed where a graph output is."""
        self._outputs[value] = at

    def assign_parts(self, parts: dict[Value, BufferAlias]) -> None:
        """Values that will be computed in the memory of others."""
        self._parts = parts
        self._occupied = occupied_bytes(self.graph, parts)
        self._largest = max([self._common.live, *self._occupied.values()])

    def begin(self, op: Op) -> None:
        """The launches that follow belong to `op`."""
        name = op.outputs[0].name if op.outputs else ""
        self._label = f"{op.name} %{name}" if name else op.name
        self.room = self._largest - self._occupied.get(op, 0)
