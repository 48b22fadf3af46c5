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
from nnefc.kernels.family import Kernel
from nnefc.kernels.parameters import Words
from nnefc.lower.buffer_aliasing import BufferAlias, occupied_bytes
from nnefc.lower.constants import ConstantPool, Key
from nnefc.ops.tools.cost import largest_live_bytes
from nnefc.program.program import Buffer, IndexOperand, Launch, Program, Ref
from nnefc.support.registration import is_taken
from nnefc.symbolic.traced_array import TracedArray

if TYPE_CHECKING:
    import numpy as np

    from nnefc.kernels.packing import Parameters
    from nnefc.support.errors import Place

    Array = np.ndarray[Any, Any]

Lower = Callable[["Lowering", Op], None]

_lowerings: dict[tuple[str, bool], Lower] = {}
"""Lowering functions by (operation name, whether an operand or result is blocked)."""


def lowering(*names: str, blocked: bool = False) -> Callable[[Lower], Lower]:
    """Register the lowering of the operations `names`; ValueError if one has a lowering."""

    def register(function: Lower) -> Lower:
        for name in names:
            if is_taken(_lowerings.get((name, blocked)), function):
                raise ValueError(f"operation {name!r} has a lowering already")
            _lowerings[name, blocked] = function
        return function

    return register


def blocked_lowering(*names: str) -> Callable[[Lower], Lower]:
    """Register the lowering of `names` for operations with a blocked operand or result."""
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
    is_across: bool = False
    """Whether a product reads them with its depth along the rows, instead of along the blocks."""


@dataclass(frozen=True)
class ProgramContext:
    """State shared by all graphs lowered into one program."""

    program: Program
    """Lowering appends launches and constants to it."""
    constants: ConstantPool
    zero_padded_values: Container[Value]
    """Blocked values whose padding channels must be zero."""
    threads: int
    """Threads that share scratch memory; more can run the program, but some then wait."""
    cache_bytes: int
    """Bytes of the largest cache: larger results bypass it."""
    live_bytes: int
    """Lower bound on the size of the arena: the most bytes of values alive at one time."""
    dynamic_shapes: bool = False
    """Shapes change from call to call, so kernels must suit many shapes."""
    check_indices: bool = True
    """Launches record indices out of range, so that the call fails."""
    strict: bool = False
    """Sums are as accurate as those of float32."""
    halves: DType | None = None
    """The type that the graph is rounded to; subnormal numbers may count as zero."""
    release: Callable[[], None] | None = None
    """Called after reading much data whose pages need not stay in memory."""


class Lowering:
    """Lowers one graph: maps values to memory, and appends launches to the program.

    Tensors are dense and row-major, or blocked (`nnefc.lower.blocked.tensors`).  A value lives in a
    buffer (a view shares that of its operand), or is known data, which gets a constant buffer when
    it is first read.
    """

    def __init__(self, graph: Graph, program_context: ProgramContext) -> None:
        self.graph = graph
        self.program = program_context.program
        self.threads = program_context.threads
        self.cache_bytes = program_context.cache_bytes
        self.dynamic_shapes = program_context.dynamic_shapes
        self.check_indices = program_context.check_indices
        self.strict = program_context.strict
        self.halves = program_context.halves
        self.release = program_context.release
        self._program_context = program_context
        self._constants = program_context.constants
        self._refs: dict[Value, Ref] = {}
        self._data: dict[Value, Array] = {}
        self._blocks: dict[Value, QuantizedBlocks] = {}
        self._label = ""
        self._place: Place | None = None
        self._occupied: dict[Op, int] = {}
        self._arena_bytes = program_context.live_bytes
        self.scratch_budget = 0
        """Bytes of scratch memory that this operation can use without enlarging the arena."""
        self._outputs: dict[Value, Ref] = {}
        """Values to be computed in the memory of a graph output."""
        self._aliases: dict[Value, BufferAlias] = {}
        """Values to be computed within the memory of another value."""
        self._allocated: dict[Value, Ref] = {}
        """Memory of values that are not computed yet, but have aliases that are."""

    # -- interface of lowering functions

    def read(self, value: Value) -> Ref:
        """The memory that holds `value`."""
        ref = self._refs.get(value)
        if ref is None:
            data = self.data(value)
            assert data is not None, f"%{value.name} is neither computed nor known"
            ref = self._refs[value] = self.constant(data)
        return ref

    def write(self, value: Value) -> Ref:
        """The memory to write `value` to, an output of the operation; allocates the buffer."""
        assert value not in self._refs, f"%{value.name} has a buffer already"
        ref = self._refs[value] = self._memory(value)
        return replace(ref, writes=True)

    def _memory(self, value: Value) -> Ref:
        """Memory for a value: its own, that of a graph output, or a range of another value's."""
        ref = self._allocated.get(value)
        if ref is not None:
            return ref
        alias, output = self._aliases.get(value), self._outputs.get(value)
        if alias is not None:
            whole = self._memory(alias.whole)
            ref = replace(whole, offset=whole.offset + alias.offset)
        else:
            ref = output or Ref(Buffer("arena", value.type.nbytes, label=value.name))
        self._allocated[value] = ref
        return ref

    def alias(self, value: Value, of: Value, offset: int = 0) -> None:
        """Make `value` a view of `of`, from byte `offset` on."""
        known = self._data.get(of)
        if known is not None and known.size == value.type.volume:
            self._data[value] = known.reshape(value.type.dims)
            if of not in self._refs:
                return
        ref = self.read(of)
        self._refs[value] = replace(ref, offset=ref.offset + offset)

    def scratch(self, nbytes: int, label: str = "") -> Ref:
        """Uninitialised memory for the launches of this operation."""
        return Ref(Buffer("arena", max(nbytes, 1), label=label), writes=True)

    def constant(self, array: Array) -> Ref:
        """Memory that holds `array`, which is not copied if C-contiguous and aligned."""
        return self._constants.add(array)

    def table(self, array: Array | TracedArray) -> Ref:
        """`constant` for tables that many operations share: equal tables are stored once."""
        return self._constants.table(array)

    def derived(self, sources: Sequence[Array], how: Key, make: Callable[[], Array]) -> Ref:
        """Memory that holds `make()`, which is called once for the same `sources` and `how`.

        `how` identifies the function and all of its parameters.
        """
        return self._constants.derived(sources, how, make)

    def packed(self, source: Array, packing: str, parameters: Parameters, dtype: DType) -> Ref:
        """Memory that holds `source` packed by `kernels.packing`; equal packings are stored once.

        `dtype`: the type that kernels read; the source may have a narrower type.
        """
        return self._constants.packed(source, packing, parameters, dtype.numpy, self.release)

    def needs_zero_padding(self, value: Value) -> bool:
        """Whether the padding of the last channel block of a blocked value must be zero."""
        return value in self._program_context.zero_padded_values

    def launch(
        self,
        kernel: Kernel,
        words: Words,
        tiles: int = 1,
        label: str = "",
        in_place: tuple[Ref, ...] = (),
        indices: Value | None = None,
    ) -> None:
        """Append a launch of `tiles` tiles, which may run in any order and concurrently.

        `in_place`: inputs whose memory an output of the same size may reuse.  The kernel reads such
        an item before it writes the item at the same offset, and never after.
        `indices`: a tensor of indices that the launch may check.
        """
        assert 1 <= tiles <= MAX_TILES, f"{tiles} tiles"
        launch = Launch(kernel, words, tiles, label or self._label, in_place)
        if indices is not None:
            launch.indices = IndexOperand(indices.name, self._place)
        self.program.launches.append(launch)

    def data(self, value: Value) -> Array | None:
        """The items of `value` if known at compile time: constants, variables never updated."""
        data = self._data.get(value)
        if data is not None and data.dtype != value.type.dtype.numpy:
            data = self._data[value] = data.astype(value.type.dtype.numpy)
        return data

    def stored_data(self, value: Value) -> Array | None:
        """The items of `data`, perhaps in a narrower type that represents them exactly."""
        return self._data.get(value)

    def quantized_blocks(self, value: Value) -> QuantizedBlocks | None:
        """The quantized blocks of `value`, for operations that can read them."""
        return self._blocks.get(value)

    def set_quantized_blocks(self, value: Value, blocks: QuantizedBlocks) -> None:
        """Record that `value` is stored as quantized `blocks`."""
        self._blocks[value] = blocks

    def scalar(self, value: Value) -> bool | int | float | None:
        """The item of `value` if it is known and all items are equal by strides, else None."""
        data = self._data.get(value)
        if data is None or any(step for step, n in zip(data.strides, data.shape) if n > 1):
            return None
        return data[(0,) * data.ndim].item()

    # -- interface of `nnefc.lower.lower_graph` and of operations with bodies

    def for_body(self, body: Graph) -> Lowering:
        """A context for a body of the current operation; values alive here stay alive."""
        live_bytes = self.scratch_budget + largest_live_bytes(body)
        return Lowering(body, replace(self._program_context, live_bytes=live_bytes))

    def pass_operands(
        self, body: Lowering, outside: Sequence[Value], inside: Sequence[Value]
    ) -> list[Ref | None]:
        """The memory of operands of a body; None for data, which the body's context gets."""
        refs: list[Ref | None] = []
        for outer, inner in zip(outside, inside, strict=True):
            data = self.data(outer)
            if data is not None:
                body.set_data(inner, data)
            refs.append(self.read(outer) if data is None else None)
        return refs

    def bind(self, value: Value, ref: Ref) -> None:
        """Let `value` live in memory that exists already."""
        self._refs[value] = ref

    def find(self, value: Value) -> Ref | None:
        """The memory of `value`, or None if it has none yet."""
        return self._refs.get(value)

    def set_data(self, value: Value, data: Array) -> None:
        """Record that `value` is `data`, of its shape; the first `read` adds a constant.

        Items may have a narrower type than the value; `data` converts them.
        """
        self._data[value] = data

    def drop_data(self, value: Value) -> None:
        """Drop the data of `value`; from now on it is only read from memory."""
        self._data.pop(value, None)

    def assign_output(self, value: Value, at: Ref) -> None:
        """Let `value` be computed in the memory of a graph output."""
        self._outputs[value] = at

    def assign_aliases(self, aliases: dict[Value, BufferAlias]) -> None:
        """Let values be computed within the memory of others."""
        self._aliases = aliases
        self._occupied = occupied_bytes(self.graph, aliases)
        self._arena_bytes = max([self._program_context.live_bytes, *self._occupied.values()])

    def begin(self, op: Op) -> None:
        """Start `op`: label its launches and compute its scratch budget."""
        name = op.outputs[0].name if op.outputs else ""
        self._label = f"{op.name} %{name}" if name else op.name
        self._place = op.location.place if op.location else None
        self.scratch_budget = self._arena_bytes - self._occupied.get(op, 0)
