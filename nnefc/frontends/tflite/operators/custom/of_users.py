"""Functions that users register for custom operators.

    @nnefc.operation("fragment Scaled( x: tensor<scalar>, factor: scalar = 1.0 )"
                     " -> ( y: tensor<scalar> )")
    def scaled(emit, op):
        return emit("mul", op.inputs[0], op.attributes["factor"])

The function is called when a graph is built, so the results have the types that it computes.
`op.attributes` has the parameters of the declaration that are no tensors, all options of a
FlexBuffer by name, and the bytes of the options as `custom_options`.
"""

from __future__ import annotations

from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.custom_options import options_of
from nnefc.frontends.tflite.registry import OF_USERS, Node, custom_operator, identifier
from nnefc.frontends.tflite.tensors import dtype_of
from nnefc.ir import Op, TensorType, Value
from nnefc.ops import custom
from nnefc.ops.core.interface import interface, item_type_problems, sequence
from nnefc.ops.core.spec import OpSpec
from nnefc.ops.tools.build import emitter
from nnefc.support.errors import NnefError

BYTES: Final = "custom_options"
"""The attribute with the bytes of the options."""


@custom_operator(OF_USERS)
def call_registered(make: OpBuilder, *inputs: Operand | None, node: Node) -> Any:
    """The results of the function that is registered for a custom operator."""
    name = identifier(node.operator.custom_code)
    spec = custom.spec(name)
    assert spec is not None
    assert spec.expand is not None
    values = [make.value(each) for each in inputs if each is not None]
    _check(spec, values, node)
    types = [TensorType(dtype_of(each), each.shape) for each in node.outputs if each is not None]
    op = Op(name, values, _attributes(spec, node), types, (), make.location)
    emit = emitter(make.graph, None, make.location)
    try:
        results = spec.expand(emit, op)
    except NnefError:
        raise
    except Exception as error:  # the function is the user's
        message = f"the function registered for it raises {type(error).__name__}: {error}"
        raise OperatorError("custom/function", message) from error
    listed = sequence(results)
    every: list[Any] = [results] if listed is None else list(listed)
    if len(every) != len(types) or not all(isinstance(each, Value) for each in every):
        kinds = ", ".join(type(each).__name__ for each in every) or "nothing"
        message = f"the function registered for it gives {kinds} for {len(types)} results"
        hint = "return the value that emit(...) gives, or a tuple of them for several results"
        raise OperatorError("custom/results", message, hint)
    make.graph.declarations[name] = spec.signature
    return tuple(every)


def _check(spec: OpSpec, values: list[Value], node: Node) -> None:
    """Raise OperatorError unless inputs and results are those of the declaration."""
    face = interface(spec)
    required = sum(each.default is None for each in face.tensors)
    results = [each for each in node.outputs if each is not None]
    problems: list[str] = []
    if not face.is_variadic and not required <= len(values) <= len(face.tensors):
        problems.append(f"it has {len(values)} inputs, {len(face.tensors)} are declared")
    if len(results) != len(face.results) and not any(each.is_array for each in face.results):
        problems.append(f"it has {len(results)} results, {len(face.results)} are declared")
    if not problems:
        problems += item_type_problems(spec, [each.type.dtype for each in values])
    if problems:
        message = f"{'; '.join(problems)} by @nnefc.operation"
        raise OperatorError("custom/signature", message)


def _attributes(spec: OpSpec, node: Node) -> dict[str, Any]:
    """The attributes for the function; raises OperatorError for one that is missing."""
    face = interface(spec)
    data = bytes(node.operator.custom_options or b"")
    try:
        options = options_of(node)
    except OperatorError:
        if face.attributes.keys() - face.defaults.keys():
            raise
        options = {}  # the function may read the bytes
    attributes = {**face.defaults, **options, BYTES: data}
    missing = [name for name in face.attributes if name not in attributes]
    if missing:
        message = f"its options lack {', '.join(missing)}"
        raise OperatorError("custom/signature", message)
    return attributes
