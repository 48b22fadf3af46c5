"""Handlers that write loops and branches in ONNX, whose bodies see the names around them."""

from __future__ import annotations

from typing import Final

from nnefc.emit.convert.onnx.writer import Handler, OnnxWriter
from nnefc.ir import DType, Op, TensorType
from nnefc.ops.internal.branches import IfSignature
from nnefc.ops.internal.scan import ScanSignature


def _if(w: OnnxWriter, op: Op) -> list[str]:
    signature = IfSignature(op)
    operands = [w.name(value) for value in signature.operands]
    then, other = (w.body(body, operands) for body in signature.bodies)
    condition = w.name(signature.condition)
    return w.node("If", condition, results=len(op.outputs), then_branch=then, else_branch=other)


def _scan(w: OnnxWriter, op: Op) -> list[str]:
    signature = ScanSignature(op)
    return _while(w, signature) if signature.is_unbounded else _turns(w, signature)


def _while(w: OnnxWriter, signature: ScanSignature) -> list[str]:
    """A loop that runs as long as one of its states tells."""
    op, count = signature.op, signature.states
    assert signature.condition is not None
    initial = [w.name(value) for value in op.inputs[:count]]
    shared = [w.name(value) for value in op.inputs[count:]]
    states = [(w.fresh("state"), value.type) for value in signature.body.inputs[:count]]
    number = (w.fresh("turn"), TensorType(DType.INT64, ()))
    flag = (w.fresh("again"), TensorType(DType.BOOL, ()))
    body = w.body(
        signature.body,
        [*(name for name, _ in states), *shared],
        [number, flag, *states],
        first=signature.condition,
    )
    active = w.one("Reshape", initial[signature.condition], w.integers(()))
    return w.node("Loop", "", active, *initial, results=count, body=body)


def _turns(w: OnnxWriter, signature: ScanSignature) -> list[str]:
    """A loop over slices, or over items that nothing reads."""
    op, first, inner = signature.op, signature.first_shared, signature.body.inputs
    states = [w.name(value) for value in op.inputs[: signature.states]]
    scanned: list[str] = []
    for i in range(signature.states, first):
        shape = (signature.turns, *inner[i].type.dims)
        scanned.append(w.one("Reshape", w.name(op.inputs[i]), w.integers(shape)))
    parameters = [(w.fresh("slice"), value.type) for value in inner[:first]]
    names = [name for name, _ in parameters] + [w.name(value) for value in op.inputs[first:]]
    flags = [int(flag) for flag in op.attributes["backwards"]]
    taken, given = flags[: len(scanned)], flags[len(scanned) :]
    if not scanned:
        scanned = [w.one("ConstantOfShape", w.integers((signature.turns,)))]
        parameters.append((w.fresh("slice"), TensorType(DType.FLOAT32, ())))
        taken = [0]
    directions = {"scan_input_directions": taken}
    if given:
        directions["scan_output_directions"] = given
    results = w.node(
        "Scan",
        *states,
        *scanned,
        results=len(op.outputs),
        body=w.body(signature.body, names, parameters),
        num_scan_inputs=len(scanned),
        **directions,
    )
    for i in range(signature.states, len(results)):
        results[i] = w.one("Reshape", results[i], w.integers(op.outputs[i].type.dims))
    return results


CONTROL_FLOW: Final[dict[str, Handler]] = {"if": _if, "scan": _scan}
