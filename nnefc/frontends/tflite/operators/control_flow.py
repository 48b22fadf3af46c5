"""`IF`, `WHILE`, `CALL_ONCE`, and variables by handle."""

from __future__ import annotations

from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.tflite.branches import branched
from nnefc.frontends.tflite.registry import ANY, Node, operator
from nnefc.frontends.tflite.subgraph_calls import Resource, resource_name
from nnefc.frontends.tflite.turns import While

_WITH_RESOURCES: Final = (*ANY, "RESOURCE")


@operator("IF", options="IfOptions", types=("BOOL",))
def if_(
    make: OpBuilder,
    condition: Operand,
    *inputs: Any,
    then_subgraph_index: int,
    else_subgraph_index: int,
) -> Any:
    """A known condition chooses a subgraph; otherwise both become bodies of an `if`."""
    make.evaluator.restart_generators((then_subgraph_index, else_subgraph_index))
    if isinstance(condition, KnownTensor):
        chosen = then_subgraph_index if condition.array.all() else else_subgraph_index
        return tuple(make.evaluator.call(chosen, inputs))
    return branched(make, condition, (then_subgraph_index, else_subgraph_index), inputs)


@operator("WHILE", options="WhileOptions", types=_WITH_RESOURCES)
def while_(
    make: OpBuilder, *inputs: Any, cond_subgraph_index: int, body_subgraph_index: int
) -> Any:
    make.evaluator.restart_generators((cond_subgraph_index, body_subgraph_index))
    loop = While(make.evaluator, cond_subgraph_index, body_subgraph_index)
    return tuple(loop.run(list(inputs)))


@operator("CALL_ONCE", options="CallOnceOptions", types=())
def call_once(make: OpBuilder, *, init_subgraph_index: int) -> Any:
    """The subgraph assigns resources; those that have a value of an earlier call keep it."""
    memory = make.evaluator.memory
    if memory.is_body:
        raise OperatorError("tflite/unsupported", "it is in a subgraph that may not run")
    memory.initializes, before = True, memory.initializes
    try:
        make.evaluator.call(init_subgraph_index, ())
    finally:
        memory.initializes = before
    return ()


@operator("VAR_HANDLE", types=("RESOURCE",))
def var_handle(make: OpBuilder, node: Node) -> Any:
    del make
    return Resource(resource_name(node.operator))


@operator("READ_VARIABLE", types=("RESOURCE",))
def read_variable(make: OpBuilder, resource: Any) -> Any:
    return make.evaluator.memory.read(_name_of(resource))


@operator("ASSIGN_VARIABLE", types=("RESOURCE",))
def assign_variable(make: OpBuilder, resource: Any, value: Operand) -> Any:
    """The state must be a tensor of the graph: a small known one is assigned as it is."""
    make.evaluator.memory.assign(_name_of(resource), value)
    return ()


def _name_of(resource: Any) -> str:
    if not isinstance(resource, Resource):
        raise OperatorError("tflite/arguments", "its first input is no resource")
    return resource.name
