"""Build an ONNX model from a graph, node by node."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

import numpy as np

from nnefc.emit.convert.extents import Extents, NoText
from nnefc.emit.convert.onnx.symbols import SymbolicNumbers, Unsupported
from nnefc.frontends.nnef.refusals import Refusals
from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.passes.op_queries import splat
from nnefc.support.errors import NnefError
from nnefc.support.names import plain_label, unused_name
from nnefc.symbolic.integers import hint, is_symbolic, statically_equal

Array = np.ndarray[Any, Any]

_DTYPES = {
    DType.FLOAT32: "FLOAT",
    DType.FLOAT64: "DOUBLE",
    **{
        dtype: dtype.value.upper()
        for dtype in DType
        if dtype not in (DType.FLOAT32, DType.FLOAT64, DType.STRING)
    },
}
OPSET: Final = 17
"""The version of operators that is written where it suffices; it has LayerNormalization."""
_IR_VERSIONS: Final = ((23, 11), (21, 10), (19, 9), (0, 8))
"""(version of operators, the least version of the format that has it)"""
_REDUCTIONS_OPSET: Final = 18
"""The version from which on all reductions take their axes as an operand."""
UNNAMED: Final = -1
"""An extent of a result that only a run tells."""
OUTLINED_BYTES: Final = 1024
"""The data of smaller tensors are always in the message."""


def is_stored(value: Value) -> bool:
    """Whether a value is a constant or a variable, which must not be updated."""
    return value.op is not None and value.op.name in ("variable", "constant")


def stored_data(graph: Graph, value: Value) -> Array:
    """The items of a variable or constant, in its shape."""
    assert value.op is not None
    attributes = value.op.attributes
    if value.op.name == "variable":
        data = graph.variables[attributes["label"].lower()].data
        if data is None:
            raise NnefError.of("data/missing", f"variable {attributes['label']} has no data")
        return data
    items = np.asarray(attributes["value"], value.type.dtype.numpy)
    if items.size == 1:
        return np.full(value.type.dims, items.reshape(-1)[0], value.type.dtype.numpy)
    return items.reshape(value.type.dims)


class OnnxWriter:
    """The nodes and initializers of a model.

    `opset`: the version of the operators.  `fused` also writes the newer Gelu and Attention, which
    some engines do not support.  Extents of the graph may be symbolic.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        opset: int = OPSET,
        fused: bool = False,
        extents: Extents | None = None,
    ) -> None:
        self.graph = graph
        self.extents = extents or Extents()
        self.fused = fused
        self.opset = 23 if fused else opset
        self._helper: Any = import_module("onnx.helper")
        self._types: Any = import_module("onnx").TensorProto
        self._nodes: list[Any] = []
        """The nodes of the graph or body that is being written."""
        self._outermost = self._nodes
        self._initializers: list[Any] = []
        self.data_of: dict[str, Array] = {}
        """The data of large initializers by name, which the message does not have."""
        self.packed: dict[Op, tuple[str, Array]] = {}
        """Names of codes, and scales, of matrices in blocks, by their `dequantize_blocks`."""
        self._domains = {""}
        self._names: dict[Value, str] = {}
        self._renamed: dict[str, str] = {}
        """Names in the graph by the names that handlers gave to the results of nodes."""
        self._count = 0
        self._taken = {*(value.name for value in graph.inputs), *graph.output_names}
        self._reserved = self._taken | {v.name for op in graph.ops for v in op.outputs}
        self._reserved |= {variable.label for variable in graph.variables.values()}
        self.handlers: Mapping[str, Handler] = {}
        self._refused = Refusals()
        self._numbers = SymbolicNumbers(self)

    # -- for handlers

    def name(self, value: Value) -> str:
        """The name of an operand; variables and constants become initializers at first use."""
        if value not in self._names:
            assert is_stored(value), f"{value!r} is used before it is defined"
            self._names[value] = self.store_form(value, stored_data(self.graph, value))
        return self._names[value]

    def data(self, value: Value) -> Array:
        if not is_stored(value):
            raise Unsupported(f"{value!r} is computed, expected data")
        return stored_data(self.graph, value)

    def store(self, data: Any, dtype: Any = None, *, name: str = "") -> str:
        """An initializer; the data of a large one go to `data_of`."""
        given: Any = data
        if isinstance(data, list | tuple) and is_symbolic(given):
            raise Unsupported("numbers that depend on symbols are not converted to ONNX here")
        name = name or self.fresh("data")
        array: Array = np.asarray(given, dtype)
        kind = getattr(self._types, _DTYPES[DType(array.dtype.name)])
        made = self._types(name=name, dims=array.shape, data_type=kind)
        if array.nbytes >= OUTLINED_BYTES:
            self.data_of[name] = array
        else:
            made.raw_data = array.tobytes()
        self._initializers.append(made)
        return name

    def integers(self, numbers: Sequence[int]) -> str:
        """A list of integers, which may depend on symbols: computed where they do."""
        if not is_symbolic(numbers):
            return self.store(numbers, np.int64)
        with self.outside():
            return self._numbers.vector(numbers)

    def numbers(self, count: int) -> str:
        """0, 1, .. count - 1, int64 [count]"""
        if not is_symbolic([count]):
            return self.store(np.arange(count))
        end = self.one("Squeeze", self.integers((count,)))
        return self.one("Range", self.store(0, np.int64), end, self.store(1, np.int64))

    def store_form(self, value: Value, array: Array) -> str:
        """The items of a variable or constant in another form, under its name if that is free."""
        assert value.op is not None
        label = str(value.op.attributes.get("label") or value.name)
        is_made_of_name = plain_label(value.name) == label
        return self.store(array, name=self._unique(value.name if is_made_of_name else label))

    def number(self, value: float, like: Value) -> str:
        """A number with the item type of a value."""
        return self.store(value, like.type.dtype.numpy)

    def cast(self, name: str, dtype: DType) -> str:
        """A tensor converted to an item type."""
        return self.one("Cast", name, to=getattr(self._types, _DTYPES[dtype]))

    def node(self, kind: str, *inputs: str, results: int = 1, **attributes: Any) -> list[str]:
        """Append a node and return the names of its results."""
        attributes = {key: plain_attribute(value) for key, value in attributes.items()}
        outputs = [self.fresh(kind.lower()) for _ in range(results)]
        self._domains.add(attributes.get("domain", ""))
        name = self.fresh(kind)
        self._nodes.append(self._helper.make_node(kind, inputs, outputs, name=name, **attributes))
        return outputs

    def reduced(self, kind: str, name: str, axes: Sequence[int]) -> str:
        """A reduction that keeps the rank."""
        if kind == "ReduceSum" or self.opset >= _REDUCTIONS_OPSET:
            return self.one(kind, name, self.store(list(axes), np.int64), keepdims=1)
        return self.one(kind, name, axes=list(axes), keepdims=1)

    def fresh(self, kind: str) -> str:
        """A name that no tensor has."""
        while True:
            self._count += 1
            name = f"{kind}{self._count}"
            if name not in self._reserved:
                return name

    def _unique(self, name: str) -> str:
        """`name` if no tensor has it, otherwise with a number; a new name without one."""
        unused = unused_name(name or self.fresh("data"), self._taken)
        self._taken.add(unused)
        return unused

    @contextmanager
    def outside(self) -> Generator[None]:
        """Append nodes to the graph in the block, in front of the node whose body is written."""
        inner, self._nodes = self._nodes, self._outermost
        try:
            yield
        finally:
            self._nodes = inner

    def body(
        self,
        graph: Graph,
        operands: Sequence[str],
        parameters: Sequence[tuple[str, TensorType]] = (),
        first: int | None = None,
    ) -> Any:
        """A body as a GraphProto.

        Args:
            graph: The body.
            operands: The names that its inputs have: parameters, or names around it.
            parameters: The inputs of the GraphProto.
            first: The number of a result that is repeated as the first one, as a bool [].
        """
        outer, self._nodes = self._nodes, []
        self._names.update(zip(graph.inputs, operands, strict=True))
        self.write_operations(graph)
        results = [(self.one("Identity", self.name(v)), v.type) for v in graph.outputs]
        if first is not None:
            flag = self.one("Reshape", results[first][0], self.integers(()))
            results = [(flag, TensorType(DType.BOOL, ())), *results]
        nodes, self._nodes = self._nodes, outer
        ends = [[self._info(n, t.dtype, t.dims) for n, t in each] for each in (parameters, results)]
        return self._helper.make_graph(nodes, self.fresh("body"), *ends)

    def one(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.node(kind, *inputs, **attributes)[0]

    def aligned(self, value: Value, rank: int) -> str:
        """An operand of an element-wise operation; ONNX aligns extents at the last dimension."""
        dims = value.type.dims
        if not dims or len(dims) == rank:
            return self.name(value)
        shape = (*dims, *(1,) * (rank - len(dims)))
        if is_stored(value):
            return self.store_form(value, self.data(value).reshape(shape))
        return self.one("Reshape", self.name(value), self.integers(shape))

    # -- the model

    def model(self, handlers: Mapping[str, Handler]) -> Any:
        """The ModelProto of the graph without large data; `handlers` write its operations.

        Raises NnefError `onnx/unsupported` with everything that cannot be written, counted.
        """
        for value in self.graph.inputs:
            self._names[value] = value.name
        self.handlers = handlers
        self.write_operations(self.graph)
        self._refused.require_none()
        results = self._results()
        for name, source, _ in results:
            node = self._helper.make_node("Identity", [source], [name], name=f"to_{name}")
            self._nodes.append(node)
        self._drop_identities()
        inputs = [self._info(v.name, v.type.dtype, v.type.dims) for v in self.graph.inputs]
        outputs = [self._info(name, type_.dtype, type_.dims) for name, _, type_ in results]
        graph = self._helper.make_graph(
            self._nodes, self.graph.name, inputs, outputs, self._initializers
        )
        versions = dict.fromkeys(sorted(self._domains), 1) | {"": self.opset}
        opsets = [self._helper.make_opsetid(*each) for each in versions.items()]
        model = self._helper.make_model(graph, opset_imports=opsets)
        model.ir_version = next(ir for least, ir in _IR_VERSIONS if self.opset >= least)
        return model

    def _results(self) -> list[tuple[str, str, TensorType]]:
        """The name, the tensor and the type of each result, cut to the items that count.

        The type of a result that is cut has an extent without a name.
        """
        results: list[tuple[str, str, TensorType]] = []
        counts = {count.of: count for count in self.graph.counts}
        numbers = {count.output for count in self.graph.counts}
        for i, (name, value) in enumerate(zip(self.graph.output_names, self.graph.outputs)):
            source, type_ = self.name(value), value.type
            if i in numbers:
                continue
            if i in counts:
                axis, number = counts[i].axis, self.graph.outputs[counts[i].output]
                end = self.one("Reshape", self.name(number), self.integers((1,)))
                bounds = (self.integers((0,)), self.cast(end, DType.INT64), self.integers((axis,)))
                source = self.one("Slice", source, *bounds)
                type_ = TensorType(
                    type_.dtype, (*type_.dims[:axis], UNNAMED, *type_.dims[axis + 1 :])
                )
            results.append((name, source, type_))
        return results

    def write_operations(self, graph: Graph) -> None:
        """Append the nodes of a graph, this one or a body; counts what cannot be written."""
        for op in graph.ops:
            if op.name in ("variable", "constant"):
                continue
            made = len(self._nodes)
            try:
                handler = self.handlers.get(op.name)
                if handler is None:
                    raise Unsupported(f"operation {op.name} is not converted to ONNX")
                results = handler(self, op)
            except Unsupported as reason:
                self._refused.add("onnx/unsupported", str(reason), op)
                results = self.node("Refused", results=len(op.outputs))
            results = [results] if isinstance(results, str) else results
            if graph is self.graph:
                self._keep_names(op, results, made)
            self._names.update(zip(op.outputs, results, strict=True))

    def _keep_names(self, op: Op, results: Sequence[str], made: int) -> None:
        """Give the results of an operation its names, where its nodes, from `made` on, make them.

        Results of the graph get their names at the end.
        """
        outputs = {name for node in self._nodes[made:] for name in node.output}
        for value, result in zip(op.outputs, results, strict=True):
            free = result in outputs and result not in self._renamed
            if free and value.name and not self.graph.is_output(value):
                self._renamed[result] = self._unique(value.name)

    def _info(self, name: str, dtype: DType, extents: Sequence[int]) -> Any:
        kind = getattr(self._types, _DTYPES[dtype])
        dims = [self._dim(n) for n in extents]
        return self._helper.make_tensor_value_info(name, kind, dims)

    def _dim(self, extent: int) -> str | int | None:
        """A dimension: a number, a name, or None for one without either."""
        if not is_symbolic([extent]):
            return None if extent == UNNAMED else extent
        try:
            return self.extents.text(extent)
        except NoText:
            return None

    def _drop_identities(self) -> None:
        """Give the producers of graph results their names, and drop the Identity nodes."""
        inputs = {v.name for v in self.graph.inputs}
        makers = {result for node in self._nodes for result in node.output} - inputs
        renamed: dict[str, str] = {}
        nodes: list[Any] = []
        for node in self._nodes:
            source = node.input[0] if node.input else ""
            last = node.name.startswith("to_") and node.op_type == "Identity"
            if last and source in makers and source not in {**renamed, **self._renamed}:
                renamed[source] = node.output[0]
            else:
                nodes.append(node)
        renamed = {**self._renamed, **renamed}
        _rename(nodes, renamed)
        self._nodes = nodes


def _rename(nodes: Iterable[Any], renamed: Mapping[str, str]) -> None:
    """Replace names of tensors, also in the graphs among the attributes of nodes."""
    for node in nodes:
        for names in (node.input, node.output):
            names[:] = [renamed.get(name, name) for name in names]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g.node, renamed)


def plain_attribute(value: Any) -> Any:
    """The value of an attribute without symbolic integers; raises Unsupported if one varies."""
    if isinstance(value, list | tuple):
        items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        return [plain_attribute(each) for each in items]
    if not is_symbolic([value]):
        return value
    if not statically_equal(value, hint(value)):
        raise Unsupported("attributes that depend on symbols are not converted to ONNX")
    return hint(value)


def number(op: Op, index: int) -> float | None:
    """The value of an operand whose items are known and equal, else None."""
    value = splat(op.inputs[index])
    return None if value is None else float(value)


Handler = Callable[[OnnxWriter, Op], str | list[str]]
"""Writes an operation and returns the names of its results."""
