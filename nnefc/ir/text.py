"""The text form of the IR, for people, dumps and golden tests: notation and printer.

    graph net(%x: float32[1,4,6,6]) -> (y = %1) {
      %filter: float32[8,4,1,1] = variable() {label = "f", shape = [8, 4, 1, 1]}
      %0: float32[1,8,6,6] = conv(%x, %filter, %bias) {border = "constant", ...}
      %1: float32[1,8,6,6] = fused(%0) {expression = (%0: float32) {
        %1: float32 = exp(%0); return %1 }}
    }

A type ends with the layout, `blocked(block fill item, [before, after], ...)`, if it is not
row-major; a fill of 0 is left out.  Values without a name are numbered; repeated names get a suffix
`#2`, which is not part of the name.  Names that are not identifiers are quoted.  Arrays and tuples
among the attributes are tuples in the IR and print as [..].  An array of more than `INLINE` items
prints as `@` and a digest of its content.  A body, `{body = graph ...}`, has its own names.  The
data of variables is not printed; `# ` begins a comment.  Declarations of unread variables, states
and counts precede the operations; they give inputs and outputs by position:

      variable "label": float32[8,4,1,1]
      state "k" {input = 1, output = 2, axis = 1}
      count {output = 3, of = 0, axis = 0}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from nnefc.ir.convolution_algorithm import ConvolutionAlgorithm
from nnefc.ir.expression import Expression
from nnefc.ir.graph import Attribute, Graph, Value, Variable
from nnefc.ir.types import DType
from nnefc.support.digests import blake2b
from nnefc.symbolic.integers import SymInt

if TYPE_CHECKING:
    import numpy as np

    Data = dict[str, np.ndarray[Any, Any]]

INLINE = 64
"""Largest arrays, in items, that are printed item by item."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def print_graph(graph: Graph, *, locations: bool = False, data: Data | None = None) -> str:
    """The text of a graph, from which `parse_graph` returns an equal one.

    `locations`: add the source location of each operation as a comment.  `data`: receives the
    arrays that the text refers to by digest, for `parse_graph`.
    """
    names = _value_names(graph)

    def declare(values: Iterable[Value]) -> str:
        return ", ".join(f"{names[v]}: {v.type}" for v in values)

    outputs = ", ".join(
        f"{_word(name)} = {names.get(value, '%?')}"
        for name, value in zip(graph.output_names, graph.outputs)
    )
    lines = [f"graph {_word(graph.name)}({declare(graph.inputs)}) -> ({outputs}) {{"]
    for variable in _unread_variables(graph):
        lines.append(f"  variable {_quote(variable.label)}: {variable.type}")
    for state in graph.states:
        ends = {"input": state.input, "output": state.output, "axis": state.axis}
        lines.append(f"  state {_quote(state.name)} {_positions(ends)}")
    lines += [f"  count {_positions(each._asdict())}" for each in graph.counts]
    for op in graph.ops:
        operands = ", ".join(names.get(v, "%?") for v in op.inputs)
        left = f"{declare(op.outputs)} = " if op.outputs else ""
        line = f"  {left}{_word(op.name)}({operands})"
        if op.attributes:
            items = (f"{_word(k)} = {print_attribute(v, data)}" for k, v in op.attributes.items())
            line += f" {{{', '.join(items)}}}"
        if locations and op.location is not None:
            line += f"  # {op.location.place}"
        lines.append(line)
    return "\n".join([*lines, "}", ""])


def print_attribute(value: Attribute, data: Data | None = None) -> str:
    """An attribute as `print_graph` writes it."""
    if isinstance(value, tuple):
        items: tuple[Attribute, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return f"[{', '.join(print_attribute(item, data) for item in items)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, int | float | SymInt):
        return repr(value)
    if isinstance(value, DType):
        return value.value
    if isinstance(value, ConvolutionAlgorithm):
        return str(value)
    if isinstance(value, Expression):
        return _print_expression(value)
    if isinstance(value, Graph):
        return print_graph(value, data=data).rstrip().replace("\n", "\n    ")
    return _print_array(value, data)


def digest(array: np.ndarray[Any, Any]) -> str:
    """A digest of type, shape and content, which follows `@` in the text."""
    import numpy as np

    h = blake2b(f"{array.dtype.name}{array.shape}".encode(), digest_size=16)
    # as bytes: Python's buffer protocol has no format for some item types, such as bfloat16
    h.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return h.hexdigest()


def _value_names(graph: Graph) -> dict[Value, str]:
    names: dict[Value, str] = {}
    seen: dict[str, int] = {}
    numbered = 0
    for value in _all_values(graph):
        if not value.name:
            names[value] = f"%{numbered}"
            numbered += 1
            continue
        count = seen[value.name] = seen.get(value.name, 0) + 1
        names[value] = f"%{_word(value.name)}" + (f"#{count}" if count > 1 else "")
    return names


def _all_values(graph: Graph) -> Iterable[Value]:
    yield from graph.inputs
    for op in graph.ops:
        yield from op.outputs


def _unread_variables(graph: Graph) -> list[Variable]:
    """Variables without a `variable` operation of the same label and type."""
    declared = {
        (op.attributes["label"], op.output.type)
        for op in graph.ops
        if op.name == "variable" and "label" in op.attributes
    }
    return [v for v in graph.variables.values() if (v.label, v.type) not in declared]


def _positions(of: Mapping[str, int | None]) -> str:
    items = (f"{name} = {position}" for name, position in of.items() if position is not None)
    return f"{{{', '.join(items)}}}"


def _word(name: str) -> str:
    return name if _IDENTIFIER.fullmatch(name) else _quote(name)


def _quote(text: str) -> str:
    return json.dumps(text)


def _print_expression(e: Expression) -> str:
    inputs = ", ".join(f"%{i}: {t}" for i, t in enumerate(e.inputs))
    steps: list[str] = []
    for i, step in enumerate(e.steps, len(e.inputs)):
        if step.op == "literal":
            right = print_attribute(step.value)
        else:
            right = f"{_word(step.op)}({', '.join(f'%{o}' for o in step.operands)})"
        steps.append(f"%{i}: {step.dtype} = {right}; ")
    results = ", ".join(f"%{r}" for r in e.results)
    return f"({inputs}) {{ {''.join(steps)}return {results} }}"


def _print_array(array: np.ndarray[Any, Any], data: Data | None) -> str:
    head = f"tensor {array.dtype.name}[{','.join(map(str, array.shape))}]"
    if array.size > INLINE:
        name = digest(array)
        if data is not None:
            data[name] = array
        return f"{head} @{name}"
    # str of a NumPy scalar has the shortest digits that identify the item
    items = (str(item).lower() for item in array.reshape(-1))
    return f"{head} [{', '.join(items)}]"
