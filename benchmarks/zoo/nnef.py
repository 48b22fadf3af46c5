"""Networks as NNEF: the text of the graph, and archives with the weights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.zoo.builder import Builder, Network, Shape, Variable
from nnefc.formats.container_writer import write_container


@dataclass(frozen=True, slots=True)
class Document:
    """A graph, its variables by label and its inputs by name."""

    text: str
    variables: dict[str, Variable]
    inputs: dict[str, Shape]

    def write(self, path: Path) -> None:
        """Write an archive, or a folder if the name has no suffix."""
        tensors = {label: variable.data() for label, variable in self.variables.items()}
        write_container(path, graph_text=self.text, tensors=tensors, overwrite=True)


class NnefBuilder(Builder):
    """A builder that writes the assignments of a graph."""

    def __init__(self, batch: int = 1) -> None:
        super().__init__(batch)
        self._lines: list[str] = []
        self._count = 0

    def document(self, name: str, outputs: dict[str, str]) -> Document:
        """The document; `outputs`: values by names of results."""
        body = "\n".join(self._lines)
        for output, value in outputs.items():
            body = re.sub(rf"\b{value}\b", output, body)
        head = f"graph {name}( {', '.join(self.inputs)} ) -> ( {', '.join(outputs)} )"
        text = f"version 1.0;\n\n{head}\n{{\n{body}\n}}\n"
        return Document(text, self.variables, self.inputs)

    def _name(self, hint: str) -> str:
        self._count += 1
        return f"{hint}{self._count}"

    def _assign(self, name: str, right: str) -> str:
        self._lines.append(f"    {name} = {right};")
        return name

    def make_input(self, name: str, shape: Shape) -> str:
        return self._assign(name, f"external(shape = {list(shape)})")

    def make_variable(self, variable: Variable) -> str:
        name = self._name(variable.label.rpartition("/")[2])
        shape = list(variable.shape)
        return self._assign(name, f"variable(shape = {shape}, label = '{variable.label}')")

    def make(self, op: str, operands: Sequence[Any], attributes: dict[str, Any], count: int) -> Any:
        arguments = [_operand(x) for x in operands]
        arguments += [f"{name} = {_attribute(x)}" for name, x in attributes.items()]
        right = f"{op}({', '.join(arguments)})"
        if not count:
            return self._assign(self._name(op), right)
        names = [self._name(op) for _ in range(count)]
        self._lines.append(f"    [{', '.join(names)}] = {right};")
        return names


def _operand(x: Any) -> str:
    """A value, a number or a list of values."""
    return f"[{', '.join(x)}]" if isinstance(x, list) else str(x)  # pyright: ignore[reportUnknownArgumentType]


def _attribute(x: Any) -> str:
    match x:
        case bool():
            return str(x).lower()
        case list() | tuple():
            items = ", ".join(map(_attribute, x))  # pyright: ignore[reportUnknownArgumentType]
            return f"[{items}]" if isinstance(x, list) else f"({items})"
        case str():
            return f"'{x}'"
        case _:
            return str(x)


def nnef_document(network: Network, name: str, batch: int = 1) -> Document:
    """The document of a network, as converters write it."""
    builder = NnefBuilder(batch)
    outputs = network(builder)
    return builder.document(name, {key: node.value for key, node in outputs.items()})
