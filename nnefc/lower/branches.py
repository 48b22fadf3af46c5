"""Lowering of `if`: the launches of both bodies, one behind the other, and jumps over one of them.

    jump to ELSE unless the condition holds
    the launches of `then`
    jump to END
    ELSE
    the launches of `else`
    END

Both bodies compute in the memory of the results.  For the lifetimes of buffers, both run.
"""

from __future__ import annotations

from dataclasses import replace

from nnefc.ir import Graph, Op
from nnefc.lower.context import Lowering, lowering
from nnefc.lower.lower_graph import lower_graph
from nnefc.lower.repeated_launches import jump, target
from nnefc.ops.internal.branches import NAME, IfSignature
from nnefc.program.program import Ref


@lowering(NAME)
def branches(lower: Lowering, op: Op) -> None:
    """Append both bodies; a body without launches needs no jump over it."""
    signature, program = IfSignature(op), lower.program
    first, second = signature.bodies
    outputs = [replace(lower.write(value), writes=False) for value in op.outputs]
    condition, launches = lower.read(signature.condition), program.launches
    otherwise, end = program.new_mark(), program.new_mark()
    launches.append(jump(condition, otherwise, when=False))
    start = len(launches)
    _lower_body(lower, op, first, outputs)
    if len(launches) == start:
        launches[-1] = jump(condition, end, when=True)
        _lower_body(lower, op, second, outputs)
        if len(launches) == start:
            launches.pop()
        else:
            launches.append(target(end, label="end of branches"))
        return
    launches += [jump(condition, end, when=True), target(otherwise, label="else")]
    middle = len(launches)
    _lower_body(lower, op, second, outputs)
    if len(launches) == middle:
        del launches[-2]
    else:
        launches.append(target(end, label="end of branches"))


def _lower_body(lower: Lowering, op: Op, body: Graph, outputs: list[Ref]) -> None:
    context = lower.for_body(body)
    inputs = lower.pass_operands(context, IfSignature(op).operands, body.inputs)
    lower_graph(context, inputs, outputs)
