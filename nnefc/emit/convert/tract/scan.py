"""Loops: the body of a `scan` becomes a fragment of the document."""

from __future__ import annotations

from nnefc.emit.convert.tract.writer import Scope, TractWriter, Unsupported
from nnefc.ir import Graph, Op
from nnefc.ops.internal.scan import ScanSignature, build_scan
from nnefc.passes.op_queries import replace


def hoist_constants(graph: Graph) -> None:
    """Pass the constants of loops to their bodies, since fragments have no variables."""
    for op in list(graph.ops):
        if op.name != "scan":
            continue
        body = op.attributes["body"]
        hoist_constants(body)
        signature = ScanSignature(op)
        if signature.is_unbounded:  # refused by `scan`
            continue
        inner = [each for each in body.ops if each.name == "constant"]
        if not inner:
            continue
        shared = list(op.inputs[signature.first_shared :])
        for each in inner:
            outer = Op("constant", (), each.attributes, [each.output.type], [each.output.name])
            shared.append(graph.insert(outer, op).output)
            name = each.output.name or "constant"
            body.replace_value(each.output, body.add_input(each.output.type, name))
            body.erase(each)
        new = build_scan(
            graph,
            body,
            op.inputs[: signature.states],
            op.inputs[signature.states : signature.first_shared],
            shared,
            turns=signature.turns,
            backwards=op.attributes["backwards"],
            names=[value.name for value in op.outputs],
            before=op,
            location=op.location,
        )
        replace(graph, op, new.outputs)


def scan(w: TractWriter, op: Op) -> str:
    """The loop over a fragment; raises Unsupported."""
    signature = ScanSignature(op)
    if signature.is_unbounded:
        raise Unsupported("a loop whose number of turns is only known when the model runs")
    name = f"turn_{len(w.fragments) + 1}"
    w.fragments.append("")  # the fragments of inner loops follow
    at = len(w.fragments) - 1
    parameters, results = _fragment(w, signature, name, at)
    operands = [w.operand(value) for value in op.inputs]
    states, first = signature.states, signature.first_shared
    scanned: list[str] = []
    for i in range(states, first):
        inner = signature.body.inputs[i].type.dims
        chunk = w.extent(inner[0]) if inner else "1"
        sign = "-" if signature.takes_backwards(i) else ""
        scanned.append(f"('{parameters[i]}', {operands[i]}, 0, {sign}{chunk})")
    if not scanned:
        counter = w.assign(f"tract_core_range(0, {w.extent(signature.turns)}, 1)", "turns")
        scanned.append(f"('{parameters[-1]}', {counter}, 0, 1)")
    full = [f"('{parameters[i]}', {operands[i]})" for i in range(first, len(operands))]
    state = [f"('{parameters[i]}', {operands[i]}, '{results[i]}')" for i in range(states)]
    output = [f"('{results[i]}', 'last', 0, 1)" for i in range(states)]
    for i in range(states, len(results)):
        chunk = w.extent(signature.body.outputs[i].type.dims[0])
        sign = "-" if signature.gives_backwards(i) else ""
        output.append(f"('{results[i]}', 'full', 0, {sign}{chunk})")
    lists = {"scan": scanned, "full": full, "state": state, "output": output}
    texts = ", ".join(f"{key} = [{', '.join(items)}]" for key, items in lists.items())
    # each call begins with the initial states, which tract does on request
    return f"tract_core_scan('{name}', {texts}, skip = 0, reset_every_turn = false)"


def _fragment(
    w: TractWriter, signature: ScanSignature, name: str, at: int
) -> tuple[list[str], list[str]]:
    """Write the body as fragment `name`; returns its parameters and results."""
    outside = w.scope
    w.scope = Scope(quotes=False, taken={*w.extents.symbols})
    body = signature.body
    for i, value in enumerate(body.inputs):
        w.scope.names[value] = w.scope.fresh(value.name or f"input{i}")
    parameters = [w.scope.names[value] for value in body.inputs]
    if signature.scanned == 0:
        parameters.append(w.scope.fresh("turn"))
    w.body(body)
    results: list[str] = []
    for value in body.outputs:
        text = w.operand(value)
        if text in results or text in parameters:
            text = w.assign(f"copy({text})")
        results.append(text)
    lines = "\n".join(f"    {line}" for line in w.scope.lines)
    declared = ", ".join(f"{p}: tensor<scalar>" for p in parameters)
    returned = ", ".join(f"{r}: tensor<scalar>" for r in results)
    w.fragments[at] = f"fragment {name}( {declared} ) -> ( {returned} )\n{{\n{lines}\n}}\n"
    w.scope = outside
    return parameters, results
