"""Programs as JSON, for files of compiled models.

{"ref": "conv2d"}, {"type": "float32"}, {"body": "true_graph_0"}, {"real": "inf"}, [..], 3, "x"
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any, cast

from nnefc.frontends.torch.program import (
    Appended,
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
from nnefc.support.errors import NnefError, Place


def written(program: Program) -> bytes:
    """A program as JSON."""
    facts = {
        "name": program.name,
        "file": program.file,
        "graph": _graph(program.graph),
        "inputs": [{**asdict(each), "kind": each.kind.value} for each in program.inputs],
        "outputs": [
            {"value": _argument(each.value), "label": each.label, "kind": each.kind.value}
            for each in program.outputs
        ],
        "bodies": {name: _graph(each) for name, each in program.bodies.items()},
        "ranges": {name: [each.least, each.most] for name, each in program.ranges.items()},
        "conditions": program.conditions,
        "appended": [
            [each.input, each.axis, each.rows, _argument(each.items)] for each in program.appended
        ],
    }
    return json.dumps(facts, separators=(",", ":")).encode()


def read(text: bytes, file: str) -> Program:
    """The program of a JSON text that `written` returned; raises NnefError for another."""
    try:
        facts: Any = json.loads(text)
        return Program(
            facts["name"],
            facts["file"],
            _read_graph(facts["graph"]),
            tuple(_read_input(each) for each in facts["inputs"]),
            tuple(
                Output(_read(each["value"]), each["label"], OutputKind(each["kind"]))
                for each in facts["outputs"]
            ),
            {name: _read_graph(each) for name, each in facts["bodies"].items()},
            {name: Range(*each) for name, each in facts["ranges"].items()},
            conditions=tuple(map(str, facts.get("conditions", ()))),
            appended=tuple(
                Appended(str(name), int(axis), str(rows), _read(items))
                for name, axis, rows, items in facts.get("appended", ())
            ),
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        message = f"this is no program of PyTorch: {error!r}"
        raise NnefError.of("torch/program", message, Place(file)) from None


def _graph(graph: Graph) -> Any:
    nodes = [
        [
            each.name,
            each.target,
            {name: _argument(value) for name, value in each.arguments.items()},
            each.dtypes,
            each.place and [each.place.file, each.place.line, each.place.column],
            each.module,
        ]
        for each in graph.nodes
    ]
    return [graph.inputs, nodes, [_argument(each) for each in graph.outputs]]


def _argument(value: Argument) -> Any:
    if isinstance(value, Ref):
        return {"ref": value.name}
    if isinstance(value, ItemType):
        return {"type": value.name}
    if isinstance(value, Body):
        return {"body": value.name}
    if isinstance(value, tuple):
        return [_argument(each) for each in value]
    if isinstance(value, complex):
        return {"complex": [repr(value.real), repr(value.imag)]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"real": repr(value)}
    return value


def _read_graph(facts: Any) -> Graph:
    inputs, nodes, outputs = facts
    return Graph(
        tuple(map(str, inputs)),
        tuple(
            Node(
                str(name),
                str(target),
                {str(key): _read(value) for key, value in arguments.items()},
                tuple(None if each is None else str(each) for each in dtypes),
                place and Place(str(place[0]), int(place[1]), int(place[2])),
                str(module),
            )
            for name, target, arguments, dtypes, place, module in nodes
        ),
        tuple(map(_read, outputs)),
    )


def _read_input(facts: Any) -> Input:
    return Input(
        str(facts["name"]),
        InputKind(facts["kind"]),
        str(facts["label"]),
        str(facts["dtype"]),
        tuple(map(str, facts["extents"])),
    )


def _read(facts: Any) -> Argument:
    if isinstance(facts, list):
        return tuple(map(_read, cast("list[Any]", facts)))
    if not isinstance(facts, dict):
        return facts
    ((kind, value),) = cast("dict[str, Any]", facts).items()
    match kind:
        case "ref":
            return Ref(str(value))
        case "type":
            return ItemType(str(value))
        case "body":
            return Body(str(value))
        case "real":
            return float(value)
        case "complex":
            return complex(float(value[0]), float(value[1]))
        case _:
            raise ValueError(f"an argument of kind '{kind}'")
