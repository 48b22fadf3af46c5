"""Networks of other formats as nodes: their parameters, and their operations in a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand
from nnefc.frontends.openvx.enumerations import DTYPES, Direction, Type
from nnefc.frontends.openvx.tensors import MAX_RANK, Dims, Format, Layout
from nnefc.ir import Graph, Op, TensorType, Value
from nnefc.ir.graph import Variable, walk
from nnefc.support.errors import NnefError

_TYPES: Final = {DTYPES[each]: each for each in (Type.FLOAT32, Type.INT32, Type.BOOL)}


class KernelParameter(NamedTuple):
    """A tensor that a kernel reads or writes; `dims` with the fastest first."""

    name: str
    direction: Direction
    dims: Dims
    data_type: Type
    fixed_point_position: int = 0

    @property
    def layout(self) -> Layout:
        """Dims and format."""
        return Layout(self.dims, Format(self.data_type, self.fixed_point_position))


def kernel_parameters(network: Graph) -> list[KernelParameter]:
    """The inputs of a network, then its results; raises NnefError for those OpenVX lacks."""
    if network.needs_session or network.updated_labels:
        raise NnefError.of("openvx/kernel", "a network with states is no kernel")
    inputs = [(value.name, Direction.INPUT, value.type) for value in network.inputs]
    results = zip(network.output_names, network.outputs, strict=True)
    outputs = [(name, Direction.OUTPUT, value.type) for name, value in results]
    return [_parameter(*each) for each in (*inputs, *outputs)]


def _parameter(name: str, direction: Direction, type_: TensorType) -> KernelParameter:
    """A parameter; a tensor of rank 0 has one dim of 1 item."""
    data_type = _TYPES.get(type_.dtype)
    if data_type is None:
        names = ", ".join(each.name for each in _TYPES.values())
        message = f"{name} has items of {type_.dtype.value}: tensors of kernels have {names}"
        raise NnefError.of("openvx/kernel", message)
    if len(type_.dims) > MAX_RANK:
        message = f"{name} has {len(type_.dims)} dims: tensors have {MAX_RANK} at most"
        raise NnefError.of("openvx/kernel", message)
    return KernelParameter(name, direction, type_.dims[::-1] or (1,), data_type)


class Networks:
    """Inserts networks into one graph; nodes of the same network share its variables."""

    def __init__(self, make: OpBuilder) -> None:
        self._make = make
        self._prefixes: dict[Graph, str] = {}

    def insert(self, network: Graph, operands: Sequence[Operand]) -> list[Operand]:
        """Insert the operations of a network; returns its results, of rank 1 at least."""
        make, twin = self._make, network.clone()
        prefix = self._prefixes.setdefault(network, f"network_{len(self._prefixes)}/")
        self._add_variables(twin, prefix)
        make.graph.declarations.update(twin.declarations)
        values: dict[Value, Value] = {}
        for value, operand in zip(twin.inputs, operands, strict=True):
            same_rank = make.reshape(operand, value.type.dims)
            values[value] = make.value(same_rank)
        for op in twin.ops:
            types, names = [v.type for v in op.outputs], [v.name for v in op.outputs]
            inputs = [values[v] for v in op.inputs]
            added = Op(op.name, inputs, op.attributes, types, names, op.location)
            make.graph.insert(added)
            values.update(zip(op.outputs, added.outputs, strict=True))
        results = [values[v] for v in twin.outputs]
        return [v if v.type.dims else make.reshape(v, (1,)) for v in results]

    def _add_variables(self, network: Graph, prefix: str) -> None:
        """Give variables labels of their own, in bodies, too."""
        ops = list(walk(network))
        for graph in (network, *(body for op in ops for body in op.bodies)):
            graph.variables = {
                (prefix + key).lower(): self._variable(each, prefix)
                for key, each in graph.variables.items()
            }
        for op in ops:
            if op.name == "variable":
                op.attributes["label"] = f"{prefix}{op.attributes['label']}"

    def _variable(self, variable: Variable, prefix: str) -> Variable:
        """The variable of the graph under a label with the prefix."""
        label = f"{prefix}{variable.label}"
        added = Variable(label, variable.type, variable.data, variable.reals_of_blocks)
        return self._make.graph.variables.setdefault(label.lower(), added)
