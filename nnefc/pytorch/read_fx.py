"""Read programs of PyTorch as plain data (`nnefc.frontends.torch.program`)."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nnefc.frontends.torch.complex_pair import has_complex
from nnefc.frontends.torch.input_symbols import numbers_as_values, with_own_symbols
from nnefc.frontends.torch.item_types import DTYPES
from nnefc.frontends.torch.program import (
    Argument,
    Body,
    Graph,
    Input,
    InputKind,
    ItemType,
    Node,
    Output,
    OutputKind,
    Program,
    Range,
    Ref,
)
from nnefc.frontends.torch.shape_guards import conditions_of
from nnefc.frontends.torch.used_nodes import used_nodes, without_outputs
from nnefc.ir import DType
from nnefc.pytorch.memory.appended_rows import Growing, with_memories
from nnefc.pytorch.memory.memory_orders import is_view_of_strides
from nnefc.support.errors import NnefError, Place

if TYPE_CHECKING:
    import torch
    from torch import fx
    from torch.export import ExportedProgram

Array = np.ndarray[Any, Any]

TOKEN: Final = "TOKEN"
"""The kind of inputs and outputs that order operators with effects; they have no value."""
STATES: Final = frozenset(("BUFFER_MUTATION", "PARAMETER_MUTATION"))
"""The kinds of outputs that are new values of tensors of the module."""

_FRAME: Final = re.compile(r'File "([^"]+)", line (\d+)')
_FILE: Final = "the module"
"""The name of programs in messages without a line."""


def read_exported(program: ExportedProgram) -> tuple[Program, dict[str, Array]]:
    """A functional program, and its arrays by label; these share memory with the module.

    Raises NnefError `torch/unsupported` for inputs that are objects.
    """
    reader = _Reader(program.graph_module)
    inputs = _inputs(reader, program)
    signature = program.graph_signature
    graph = reader.graph(program.graph)
    kinds = [each.kind.name for each in signature.output_specs]
    graph = without_outputs(graph, [i for i, kind in enumerate(kinds) if kind == TOKEN])
    specs = [each for each in signature.output_specs if each.kind.name != TOKEN]
    outputs = [
        _output(i, spec, value, reader.kind_of(value))
        for i, (spec, value) in enumerate(zip(specs, graph.outputs, strict=True))
    ]
    exported: Any = program
    constraints = exported.range_constraints.items()
    ranges = {str(symbol): _range(each) for symbol, each in constraints}
    every = (*numbers_as_values(inputs), *reader.attributes)
    conditions = conditions_of(getattr(program, "_guards_code", ()), every, ranges)
    facts = (graph, every, tuple(outputs), reader.bodies, ranges)
    return Program("graph", _FILE, *facts, conditions=conditions), reader.arrays


def _inputs(reader: _Reader, program: ExportedProgram) -> list[Input]:
    """The inputs of a program; arrays and constants are noted."""
    signature = program.graph_signature
    tensors: dict[str, Any] = {**program.constants, **program.state_dict}
    changed = {*signature.buffers_to_mutate.values(), *signature.parameters_to_mutate.values()}
    placeholders = {each.name: each for each in program.graph.nodes if each.op == "placeholder"}
    inputs: list[Input] = []
    for spec in signature.input_specs:
        node = placeholders[spec.arg.name]
        if spec.kind.name == "USER_INPUT":
            inputs += reader.user_input(node)
            continue
        if spec.kind.name == TOKEN:
            reader.constants[node.name] = None
            continue
        if spec.kind.name not in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            message = f"the input '{node.name}' of kind {spec.kind.name} is no tensor"
            raise NnefError.of("torch/unsupported", message, Place(_FILE))
        label = str(spec.target)
        kind = InputKind.STATE if label in changed else InputKind.ARRAY
        reader.arrays[label] = array_of(tensors[label], label)
        inputs.append(reader.input(node, kind, label))
    return inputs


def read_graph(
    module: fx.GraphModule,
    tensors: Mapping[str, torch.Tensor],
    growing: Sequence[Growing] = (),
) -> tuple[Program, dict[str, Array]]:
    """A functional graph module of ATen operators, and its arrays.

    `tensors`: those inputs, by the names of placeholders, that are arrays of the program.
    `growing`: those that results extend, which are then no results of the program.
    """
    reader = _Reader(module)
    inputs: list[Input] = []
    for node in module.graph.nodes:
        if node.op == "placeholder" and node.name in tensors:
            reader.arrays[node.name] = array_of(tensors[node.name])
            inputs.append(reader.input(node, InputKind.ARRAY, node.name))
        elif node.op == "placeholder":
            inputs += reader.user_input(node)
    graph = reader.graph(module.graph)
    outputs = tuple(
        Output(each, f"output_{i}", reader.kind_of(each)) for i, each in enumerate(graph.outputs)
    )
    inputs, outputs, appended = with_memories(graph, inputs, outputs, growing)
    every = (*with_own_symbols(inputs), *reader.attributes)
    program = Program("graph", _FILE, graph, every, outputs, reader.bodies, appended=appended)
    return program, reader.arrays


def _output(index: int, spec: Any, value: Argument, kind: OutputKind) -> Output:
    """A result of a program."""
    if spec.kind.name == "USER_OUTPUT":
        label = value.name if isinstance(value, Ref) else f"output_{index}"
        return Output(value, label, kind)
    if spec.kind.name in STATES:
        return Output(value, str(spec.target), OutputKind.STATE)
    if spec.kind.name == "USER_INPUT_MUTATION":
        return Output(value, f"{spec.target}_changed", kind)
    message = f"the output '{index}' of kind {spec.kind.name} is no tensor"
    raise NnefError.of("torch/unsupported", message, Place(_FILE))


def _range(allowed: Any) -> Range:
    """The range of a symbol; bounds beyond int64 are none."""
    least, most = (int(x) if abs(x) < 1 << 62 else None for x in (allowed.lower, allowed.upper))
    return Range(least or 0, most)


def array_of(x: torch.Tensor, label: str = "") -> Array:
    """The items of a tensor, a view of its memory where it is contiguous.

    Parts of complex items are a last dimension.  `label`: for messages.
    """
    import torch

    x = x.detach()
    if x.is_sparse or x.is_quantized or x.device.type != "cpu":
        what = f"on {x.device}" if x.device.type != "cpu" else "sparse or quantized"
        message = f"a tensor of the module is {what}"
        raise NnefError.of("torch/unsupported", message, Place(_FILE))
    reason = odd_items(x)
    if hasattr(x, "__tensor_flatten__"):
        reason = f"a {type(x).__name__}, whose parts are tensors of decomposed programs"
    if reason:
        what = f"the tensor '{label}'" if label else "a tensor of the module"
        raise NnefError.of("torch/unsupported", f"{what} is {reason}", Place(_FILE))
    if x.is_complex():
        x = torch.view_as_real(x.resolve_conj())
    if x.dtype is torch.bfloat16:
        return x.contiguous().view(torch.uint16).numpy().view(DType.BFLOAT16.numpy)
    return x.contiguous().numpy()


def odd_items(x: torch.Tensor) -> str:
    """Why nnefc has no item type for a tensor; "" if it has one."""
    name = type_name(x.dtype)
    has_type = name in DTYPES or has_complex(name)
    return "" if has_type else f"of {name}, an item type that nnefc does not have"


def type_name(dtype: Any) -> str:
    """The name of an item type, `float32`."""
    return str(dtype).removeprefix("torch.")


class _Reader:
    """Reads the nodes of a graph module and of the bodies in it."""

    def __init__(self, module: fx.GraphModule) -> None:
        self._module = module
        self._results = {node.name: node.meta.get("val") for node in module.graph.nodes}
        """The fake tensors and symbolic numbers of nodes."""
        self.bodies: dict[str, Graph] = {}
        self.arrays: dict[str, Array] = {}
        self.attributes: list[Input] = []
        """The tensors that are attributes of graph modules."""
        self._count = 0
        """The number of bodies."""
        self.constants: dict[str, Argument] = {}
        """The values of inputs that are constants, and of attributes, in the present graph."""

    def user_input(self, node: fx.Node) -> list[Input]:
        """A tensor or a symbol of a call; nothing for a constant, whose value is noted."""
        import torch

        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            return [self.input(node, InputKind.USER, node.name)]
        if isinstance(value, torch.SymInt):
            extents = (_expression(value),)
            return [Input(node.name, InputKind.NUMBER, node.name, "int64", extents)]
        if isinstance(value, torch.SymFloat | torch.SymBool):
            message = f"the input '{node.name}' is a number that is no integer"
            raise NnefError.of("torch/unsupported", message, place_of(node) or Place(_FILE))
        self.constants[node.name] = value
        return []

    def kind_of(self, value: Argument) -> OutputKind:
        """What an output of the main graph is."""
        import torch

        if not isinstance(value, Ref):
            return OutputKind.CONSTANT
        is_tensor = isinstance(self._results.get(value.name), torch.Tensor)
        return OutputKind.TENSOR if is_tensor else OutputKind.NUMBER

    def input(self, node: fx.Node, kind: InputKind, label: str) -> Input:
        """An input that is a tensor."""
        value: torch.Tensor = node.meta["val"]
        extents = tuple(map(_expression, value.shape))
        return Input(node.name, kind, label, type_name(value.dtype), extents)

    def graph(self, graph: fx.Graph, module: fx.GraphModule | None = None) -> Graph:
        """The nodes of a graph; bodies and constants are noted."""
        module = module or self._module
        inputs: list[str] = []
        nodes: list[Node] = []
        outputs: tuple[Argument, ...] = ()
        for each in graph.nodes:
            match each.op:
                case "placeholder":
                    inputs.append(each.name)
                case "get_attr":
                    self._attribute(each, module)
                case "call_function":
                    nodes.append(self._node(each))
                case "output":
                    found = self._argument(each.args[0])
                    outputs = found if isinstance(found, tuple) else (found,)
                case _:
                    message = f"a node '{each.op}' is no part of exported programs"
                    raise NnefError.of("torch/unsupported", message, Place(_FILE))
        return Graph(tuple(inputs), used_nodes(nodes, outputs), outputs)

    def _attribute(self, node: fx.Node, module: fx.GraphModule) -> None:
        """Note a body or a constant tensor of a graph module."""
        value: Any = operator.attrgetter(str(node.target))(module)
        if hasattr(value, "graph"):
            self.constants[node.name] = self._body(node.name, value)
            return
        if module is not self._module:
            message = f"the tensor '{node.target}' of a branch or a loop is not its operand"
            raise NnefError.of("torch/unsupported", message, place_of(node) or Place(_FILE))
        label = str(node.target)
        self.arrays[label] = array_of(value)
        extents = tuple(map(str, value.shape))
        dtype = type_name(value.dtype)
        self.attributes.append(Input(node.name, InputKind.ARRAY, label, dtype, extents))

    def _body(self, name: str, module: fx.GraphModule) -> Body:
        """Note the graph of a branch or a loop, in which names stand for other values."""
        body = f"{name}_{self._count}"
        self._count += 1
        outer, self.constants = self.constants, {}
        self.bodies[body] = self.graph(module.graph, module)
        self.constants = outer
        return Body(body)

    def _node(self, node: fx.Node) -> Node:
        if is_view_of_strides(node):
            message = f"{node.target}: items at distances in a tensor that is not contiguous"
            raise NnefError.of("torch/unsupported", message, place_of(node) or Place(_FILE))
        from torch._ops import OpOverload

        target: Any = node.target
        schema = getattr(target, "_schema", None)
        names = [each.name for each in schema.arguments] if schema else []
        arguments = {
            names[i] if i < len(names) else str(i): self._argument(each)
            for i, each in enumerate(node.args)
        }
        arguments.update((name, self._argument(each)) for name, each in node.kwargs.items())
        dtypes = _dtypes(node.meta.get("val"))
        name = target_name(target)
        called = next((each for each in node.args if isinstance(each, OpOverload)), None)
        name = f"{name}({called})" if called else name
        return Node(node.name, name, arguments, dtypes, place_of(node), _path(node))

    def _argument(self, value: Any) -> Argument:
        import torch
        from torch import fx
        from torch._ops import OpOverload

        if isinstance(value, fx.Node):
            known = self.constants.get(value.name, self)
            return Ref(value.name) if known is self else known  # pyright: ignore[reportReturnType]
        if isinstance(value, list | tuple):
            return tuple(map(self._argument, value))  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(value, torch.dtype):
            return ItemType(type_name(value))
        if isinstance(value, torch.layout | torch.device | torch.memory_format):
            return str(value)
        if isinstance(value, OpOverload):
            return target_name(value)
        if value is None or isinstance(value, bool | int | float | complex | str):
            return value
        message = f"an argument of type {type(value).__name__} is not supported"
        raise NnefError.of("torch/unsupported", message, Place(_FILE))


def _path(node: fx.Node) -> str:
    """The path of the module that called a node; "" for the root."""
    stack: dict[str, tuple[str, Any]] = node.meta.get("nn_module_stack") or {}
    path = next(reversed(stack.values()))[0] if stack else ""
    path = path.removeprefix("L['self'].")
    return "" if path.startswith(("_empty_nn_module", "L[")) else path


def target_name(target: Any) -> str:
    """The name of an operator: `aten.add.Tensor`, `operator.mul`, `higher_order.cond`."""
    from torch._ops import HigherOrderOperator, OpOverload

    if isinstance(target, OpOverload):
        return str(target)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(target, HigherOrderOperator):
        return f"higher_order.{target.name()}"
    module = str(getattr(target, "__module__", "")).removeprefix("_")
    return f"{module}.{target.__name__}"


def _dtypes(value: Any) -> tuple[str | None, ...]:
    """The item types of the results of a node."""
    import torch

    several: list[Any] = [*value] if isinstance(value, list | tuple) else [value]
    return tuple(type_name(x.dtype) if isinstance(x, torch.Tensor) else None for x in several)


def _expression(extent: Any) -> str:
    """An extent as text: a number, or an expression of symbols."""
    text = str(extent)
    return text if text.isdecimal() else text.replace("//", "/")


def place_of(node: fx.Node) -> Place | None:
    """The innermost line of the stack outside of PyTorch that called a node."""
    import torch

    frames = _FRAME.findall(node.meta.get("stack_trace") or node.stack_trace or "")
    own = f"{Path(torch.__file__).parent}{os.sep}"
    outside = [each for each in frames if not each[0].startswith((own, "<"))]
    if not outside:
        return None
    file, line = outside[-1]
    return Place(file, int(line), 1)
