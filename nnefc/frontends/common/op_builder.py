"""Build operations of a graph, with constant folding: known operands give known results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nnefc.frontends.common.budget import Budget
from nnefc.frontends.common.counted_tensors import (
    count_results,
    of_valid_items,
    with_equal_rooms,
    without_invalid_items,
)
from nnefc.frontends.common.empty_operands import result_of_empty
from nnefc.frontends.common.operators import counted_numbers, symbolic_reals
from nnefc.frontends.common.operators.symbolic_reals import SymbolicReals
from nnefc.frontends.common.values import (
    SYMBOLIC_TYPES,
    Array,
    EmptyTensor,
    KnownTensor,
    Operand,
    OperatorError,
    check_rank,
    common_type,
    has_no_items,
    integer_array,
    operand,
)
from nnefc.ir import DType, Graph, Location, Op, TensorType, Value
from nnefc.ops.core.arrays import widen
from nnefc.ops.core.index_check import WrongIndex
from nnefc.ops.core.interface import interface, item_type_problems, sequence
from nnefc.ops.core.spec import Call, OpSpec, infer
from nnefc.ops.core.traits import Folding
from nnefc.ops.tools.build import build
from nnefc.ops.tools.table import declared
from nnefc.support.errors import NnefError
from nnefc.support.limits import how_to_raise
from nnefc.symbolic.integers import deciding, is_symbolic, statically_equal
from nnefc.symbolic.sym_int_base import Untraceable

if TYPE_CHECKING:
    from collections.abc import Generator

MAX_FOLDED_ITEMS: Final = 1 << 16
"""Results with more items are computed at run time instead of being folded."""


class OpBuilder:
    """Builds the operations of one graph.

    `location`: of the current statement, which new operations belong to.
    """

    def __init__(self, graph: Graph, budget: Budget) -> None:
        self.graph = graph
        self.budget = budget
        self.location: Location | None = None
        self.dtype: str | None = None
        """The type argument of the current invocation."""
        self.evaluator: Any = None
        """The evaluator that calls operators with this builder."""
        self.counted: dict[Value, tuple[int, Value]] = {}
        """Tensors with fewer valid items along an axis than its extent: axis and their number."""
        self.known: dict[Value, bool] = {}
        """Tensors of the graph computed from known ones only, not folded because they have many
        items or depend on symbols; whether they are extents."""
        self.reals: dict[Value, SymbolicReals] = {}
        """Items of real tensors that are computed exactly from symbolic integers."""
        self.captured: dict[Value, Value] = {}
        """Inputs of a body, and of those around it, that stand for values of the graph around."""
        self._constants: dict[int, tuple[KnownTensor, Value]] = {}

    def within(self, graph: Graph) -> OpBuilder:
        """A builder for another graph, at the same location in the document."""
        other = OpBuilder(graph, self.budget)
        other.location, other.evaluator = self.location, self.evaluator
        return other

    @contextmanager
    def at(self, location: Location) -> Generator[None]:
        """Set `location` in the block."""
        outer, self.location = self.location, location
        try:
            yield
        finally:
            self.location = outer

    # -- operations

    def __call__(
        self, name: str, /, *operands: Any, dtype: DType | None = None, **attributes: Any
    ) -> Any:
        """The result of an operation, or a tuple of them: each a `Value` or a `KnownTensor`.

        Operands are tensors or numbers.  A number gets the item type of the tensor before it, or
        of the first tensor.  `dtype`: of the results, where operands do not determine it.
        """
        spec = declared()[name]
        tensors = self._tensors(operands)
        if self.counted:
            tensors = with_equal_rooms(self, name, tensors, attributes)
        types = self._types(spec, tensors, attributes, dtype)
        if any(map(counted_numbers.has_counts, tensors)):
            if (decided := counted_numbers.decided_comparison(name, tensors)) is not None:
                return decided
            tensors = counted_numbers.computed_operands(self, name, tensors)
        if self.counted:
            composed = of_valid_items(self, name, tensors, attributes)
            if composed is not None:
                return composed
        is_empty = all(type_.volume == 0 for type_ in types)
        lacks_items = any(map(has_no_items, tensors))
        if is_empty or lacks_items or _foldable(spec, tensors, attributes, types):
            if problems := item_type_problems(spec, [x.type.dtype for x in tensors]):
                raise OperatorError("type/operand", "; ".join(problems))
            if is_empty:
                empty = tuple(map(EmptyTensor, types))
                return empty[0] if len(empty) == 1 else empty
            filled = {**interface(spec).defaults, **attributes}
            if lacks_items:
                return result_of_empty(self, name, tensors, filled, types)
            return self._folded(spec, tensors, filled, types)
        values = [self.value(x) for x in tensors]
        if self.counted:
            values = without_invalid_items(self, name, values, attributes)
        self.budget.take_operation(len(values) + len(types))
        try:
            op = build(self.graph, name, values, attributes, dtype=dtype, location=self.location)
        except NnefError as error:
            raise _operator_error(error) from None
        if self.counted:
            count_results(self, op)
        if spec.reference is not None and all(map(self.is_known, tensors)):
            are_extents = any(map(self.is_extent, tensors))
            for y in op.outputs:
                self.known[y] = are_extents and y.type.dtype is DType.INT64
        if self.reals:
            filled = {**interface(spec).defaults, **attributes}
            if (reals := symbolic_reals.follow(self.reals, spec, tensors, filled)) is not None:
                self.reals[op.outputs[0]] = reals
        return op.outputs[0] if len(op.outputs) == 1 else op.outputs

    def _tensors(self, operands: Iterable[Any]) -> list[Operand]:
        flat: list[Any] = []
        for each in operands:
            flat += each if isinstance(each, list) else [each]
        like = next((x.type.dtype for x in flat if isinstance(x, Value | KnownTensor)), None)
        tensors: list[Operand] = []
        for x in flat:
            if isinstance(x, Value | KnownTensor):
                like = x.type.dtype
                tensors.append(x)
            else:
                tensors.append(self.cast(operand(x), like) if like else operand(x))
        return tensors

    def _types(
        self,
        spec: OpSpec,
        tensors: Sequence[Operand],
        attributes: Mapping[str, Any],
        dtype: DType | None,
    ) -> list[TensorType]:
        """Types of the results; raises OperatorError."""
        filled = {**interface(spec).defaults, **attributes}
        every = list(tensors)
        for parameter in interface(spec).tensors[len(every) :]:
            if parameter.default is not None:
                every.append(operand(parameter.default))
        types, problems = infer(
            spec, Call(spec.name, spec.operands([x.type for x in every]), filled)
        )
        if problems:
            raise OperatorError(f"argument/{spec.name}", "; ".join(problems))
        if types is None:
            raise OperatorError(
                f"argument/{spec.name}", f"the result of {spec.name} has no known shape"
            )
        if dtype is not None:
            types = [t.with_dtype(dtype) for t in types]
        self.check_size(*types)
        return types

    def check_size(self, *types: TensorType) -> None:
        """Raise OperatorError for a tensor that exceeds the limit `tensor_bytes`."""
        most = self.budget.limits.tensor_bytes
        for type_ in types:
            # extents of 0 count as 1: other tensors have the other extents of empty ones
            nbytes = math.prod(extent or 1 for extent in type_.dims) * type_.dtype.itemsize
            if nbytes > most:
                message = f"a tensor of shape {list(type_.dims)} has {nbytes:,} bytes"
                raise OperatorError(
                    "limit/tensor", f"{message}, more than {most:,}", how_to_raise("tensor_bytes")
                )

    def _folded(
        self,
        spec: OpSpec,
        tensors: Sequence[Operand],
        attributes: Mapping[str, Any],
        types: Sequence[TensorType],
    ) -> Any:
        known = [x for x in tensors if isinstance(x, KnownTensor)]
        is_extent = any(x.is_extent for x in known)
        filled = {**attributes, "dtype": types[0].dtype} if spec.chooses_type else attributes

        def compute(widened: list[Array]) -> Any:
            reference = spec.reference
            if any(array.dtype == object for array in widened):
                reference = counted_numbers.SYMBOLIC.get(spec.name, reference)
                if spec.elementwise:
                    widened = list(map(counted_numbers.python_items, widened))
            assert reference is not None
            operands: list[Any] = [widened] if interface(spec).is_variadic else widened
            return reference(*operands, **filled)

        with np.errstate(all="ignore"):
            try:
                results = self._computed(compute, known)
            except WrongIndex as wrong:
                raise OperatorError(f"argument/{spec.name}", str(wrong)) from None
            several = sequence(results) or [results]
            known_results = [
                KnownTensor(
                    _narrowed(np.asarray(array), type_.dtype).reshape(type_.dims),
                    type_.dtype,
                    is_extent and type_.dtype is DType.INT64,
                )
                for array, type_ in zip(several, types, strict=True)
            ]
        return tuple(known_results) if isinstance(results, tuple | list) else known_results[0]

    def _computed(self, compute: Callable[[list[Array]], Any], known: Sequence[KnownTensor]) -> Any:
        """The results of a reference function, on symbolic items if it can compute with them."""
        plain = [None if x.is_symbolic else widen(x.array, x.dtype) for x in known]
        if any(array is None for array in plain):
            items = (item for x in known if x.is_symbolic for item in x.array.flat)
            with suppress(TypeError, AttributeError, Untraceable), deciding(items):
                return compute([x.array if y is None else y for x, y in zip(known, plain)])
        return compute([widen(x.array, x.dtype) for x in known])

    # -- operands

    def value(self, x: Operand, *, may_be_empty: bool = False) -> Value:
        """The tensor as a value of the graph; a known tensor becomes a constant."""
        if isinstance(x, Value):
            return x
        existing = self._constants.get(id(x))
        if existing is not None:
            return existing[1]
        if x.is_symbolic:
            value = self._symbolic_value(x)
            self._constants[id(x)], self.known[value] = (x, value), x.is_extent
            return value
        array = np.ascontiguousarray(x.array, x.dtype.numpy).reshape(x.array.shape)
        if array.size == 0 and not may_be_empty:
            raise OperatorError(
                "operator/empty", "a tensor without items cannot be computed with here"
            )
        attributes: dict[str, Any] = {"shape": array.shape, "value": array}
        if array.size == 1:
            attributes["value"] = (array.reshape(()).item(),)
        names = [self.evaluator.free_name(x.name)] if x.name else []
        op = Op("constant", (), attributes, [x.type], names, self.location)
        value = self.graph.insert(op).output
        self._constants[id(x)] = x, value
        return value

    def _symbolic_value(self, x: KnownTensor) -> Value:
        """A tensor with symbolic items, computed when the model runs."""
        items = counted_numbers.numbers_of(self, x.array.reshape(-1))
        joined = items[0] if len(items) == 1 else self("concat", items, axis=0)
        return self.value(self.cast(self.reshape(joined, x.array.shape), x.dtype))

    def iota(
        self, count: int, start: int = 0, step: int = 1, *, is_extent: bool = False
    ) -> Operand:
        """start, start + step, ...; known if `count` is a plain, small number."""
        if isinstance(count, int) and count <= MAX_FOLDED_ITEMS and isinstance(start, int):
            numbers = integer_array(start + step * np.arange(count, dtype=np.int64))
            return KnownTensor(numbers, DType.INT64, is_extent)
        items = self("iota", count=count, start=start, step=step, dtype=DType.INT64)
        self.known[items] = is_extent
        return items

    def is_known(self, x: Operand) -> bool:
        """Whether the items of a tensor do not depend on the inputs of the model."""
        return isinstance(x, KnownTensor) or x in self.known

    def is_extent(self, x: Operand) -> bool:
        """Whether items are extents, which take the type of the tensors they are combined with."""
        return x.is_extent if isinstance(x, KnownTensor) else self.known.get(x, False)

    def cast(self, x: Operand, dtype: DType) -> Operand:
        """A tensor with items of another type."""
        if x.type.dtype is dtype:
            return x
        if isinstance(x, KnownTensor) and x.is_symbolic:
            if dtype in SYMBOLIC_TYPES:
                return KnownTensor(x.array, dtype)
            reals = symbolic_reals.of_integers(x) if dtype is DType.FLOAT32 else None
            y: Value = self("cast", self.value(x), dtype=dtype)
            if reals is not None:
                self.reals[y] = reals
            return y
        if isinstance(x, Value) and dtype in SYMBOLIC_TYPES and x in self.reals:
            return KnownTensor(self.reals[x].whole(), dtype)
        if isinstance(x, EmptyTensor):
            return EmptyTensor(TensorType(dtype, x.type.dims))
        if isinstance(x, KnownTensor):
            return KnownTensor(converted(x.array, dtype), dtype, name=x.name)
        return self("cast", x, dtype=dtype)

    def unified(self, *operands: Any) -> list[Operand]:
        """Operands cast to their common item type."""
        tensors = [operand(x) for x in operands]
        dtype = common_type(tensors, self.is_known, self.is_extent)
        if all(isinstance(x, KnownTensor) and x.is_extent for x in tensors):
            return tensors
        return [self.cast(x, dtype) for x in tensors]

    # -- shapes

    def reshape(self, x: Operand, shape: Sequence[int]) -> Operand:
        if x.type.dims == tuple(shape):
            return x
        if isinstance(x, EmptyTensor) and 0 in shape:
            check_rank(len(shape))
            return EmptyTensor(TensorType(x.dtype, tuple(shape)))
        if isinstance(x, KnownTensor) and x.array.size == math.prod(shape):
            check_rank(len(shape))
            return KnownTensor(x.array.reshape(tuple(shape)), x.dtype, x.is_extent, x.name)
        return self("reshape", x, shape=tuple(shape))

    def transpose(self, x: Operand, axes: Sequence[int]) -> Operand:
        if tuple(axes) == tuple(range(len(axes))):
            return x
        return self("transpose", x, axes=tuple(axes))

    def aligned_right(self, x: Operand, rank: int) -> Operand:
        """`x` with leading extents of 1, as in NumPy's broadcasting."""
        return self.reshape(x, (1,) * (rank - x.type.rank) + x.type.dims)

    def repeated(self, x: Operand, shape: Sequence[int]) -> Operand:
        """`x` broadcast to `shape`, which has the same rank: extents of 1 are repeated."""
        repeats = tuple(n if own == 1 else 1 for own, n in zip(x.type.dims, shape, strict=True))
        return x if all(n == 1 for n in repeats) else self.tiled(x, repeats)

    def tiled(self, x: Operand, repeats: tuple[int, ...]) -> Operand:
        if any(statically_equal(n, 0) for n in repeats):
            dims = tuple(r * n for r, n in zip(repeats, x.type.dims, strict=True))
            return EmptyTensor(TensorType(x.type.dtype, dims))
        if isinstance(x, KnownTensor) and not is_symbolic(repeats):
            volume = math.prod(r * n for r, n in zip(repeats, x.array.shape))
            if volume <= MAX_FOLDED_ITEMS:
                return KnownTensor(np.tile(x.array, repeats), x.dtype, x.is_extent)
        return self("tile", x, repeats=repeats)


def converted(array: Array, dtype: DType) -> Array:
    """Items of another type, as the operation `cast` converts them."""
    reference = declared()["cast"].reference
    assert reference is not None
    with np.errstate(all="ignore"):
        wide = widen(array, DType(array.dtype.name))
        return np.asarray(reference(wide, dtype=dtype)).astype(dtype.numpy)


def _narrowed(array: Array, dtype: DType) -> Array:
    """The array with the NumPy type of `dtype`; symbolic integers stay objects."""
    if array.dtype == object and dtype in SYMBOLIC_TYPES:
        array = integer_array(array)
    return array if array.dtype == object else array.astype(dtype.numpy)


def _foldable(
    spec: OpSpec,
    tensors: Sequence[Operand],
    attributes: Mapping[str, Any],
    types: Sequence[TensorType],
) -> bool:
    if spec.reference is None or not all(isinstance(x, KnownTensor) for x in tensors):
        return False
    is_kept = spec.traits.folding is Folding.NEVER and any(type_.rank for type_ in types)
    if is_kept or is_symbolic(attributes.values()):
        return False
    return all(not is_symbolic(type_.dims) and type_.volume <= MAX_FOLDED_ITEMS for type_ in types)


def _operator_error(error: NnefError) -> OperatorError:
    """An error of `build` as one without a position, which the evaluator adds."""
    first = error.errors[0]
    return OperatorError(first.rule, "; ".join(e.message for e in error.errors), first.hint)
