"""Which subgraphs operators call, and resources: variables that several subgraphs share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from nnefc.formats.tflite.model import Model, Operator

_CALLED: Final = {
    "IF": ("then_subgraph_index", "else_subgraph_index"),
    "WHILE": ("cond_subgraph_index", "body_subgraph_index"),
    "CALL_ONCE": ("init_subgraph_index",),
    "STABLEHLO_CASE": ("branch_subgraph_indices",),
    "STABLEHLO_COMPOSITE": ("decomposition_subgraph_index",),
    "STABLEHLO_WHILE": ("cond_subgraph_index", "body_subgraph_index"),
}
"""The options that name subgraphs, by operator."""
MAX_DEPTH: Final = 32
"""How deep calls of subgraphs may be nested."""


def called(operator: Operator) -> tuple[int, ...]:
    """The subgraphs that an operator evaluates, by index; 0 by default, as in the schema."""
    options = [operator.options.get(name, 0) for name in _CALLED.get(operator.name, ())]
    return tuple(int(i) for each in options for i in np.atleast_1d(each))


class WrongCall(Exception):
    """Subgraphs that do not exist, that reach themselves, or calls nested too deeply."""


def reachable(model: Model, start: int = 0, *, with_initializers: bool = True) -> list[int]:
    """The subgraphs that `start` reaches, itself included; raises WrongCall.

    `with_initializers`: whether those that only `CALL_ONCE` calls are among them.
    """
    depths: dict[int, int] = {}

    def depth(index: int, chain: Sequence[int]) -> int:
        if index in chain:
            raise WrongCall(f"{model.subgraphs[index]} reaches itself")
        if not 0 <= index < len(model.subgraphs):
            by = model.subgraphs[chain[-1]] if chain else "the model"
            raise WrongCall(f"{by} calls subgraph {index} of {len(model.subgraphs)}")
        if len(chain) >= MAX_DEPTH:
            raise WrongCall(f"calls of subgraphs are nested more than {MAX_DEPTH} deep")
        if index not in depths:
            inner = [
                depth(each, (*chain, index))
                for operator in model.subgraphs[index].operators
                if with_initializers or operator.name != "CALL_ONCE"
                for each in called(operator)
            ]
            depths[index] = 1 + max(inner, default=0)
        if len(chain) + depths[index] > MAX_DEPTH:
            raise WrongCall(f"calls of subgraphs are nested more than {MAX_DEPTH} deep")
        return depths[index]

    depth(start, ())
    return sorted(depths)


@dataclass(frozen=True, slots=True)
class Resource:
    """The value of a tensor of type RESOURCE: the name of a variable."""

    name: str


@dataclass(frozen=True, slots=True)
class ResourceUses:
    """What the operators of a model tell about its resources."""

    types: dict[str, str]
    """Item types by name."""
    changed: frozenset[str]
    """Those that operators outside of `CALL_ONCE` assign; the others are constants."""


def resource_name(operator: Operator) -> str:
    """The name that a `VAR_HANDLE` gives to its resource."""
    container, name = (str(operator.options.get(key) or "") for key in ("container", "shared_name"))
    return f"{container}/{name}" if container else name or "variable"


def resource_uses(model: Model) -> ResourceUses:
    """Follow resources from `VAR_HANDLE` to the operators that read and assign them."""
    every = reachable(model)
    names = _names_of_tensors(model, every)
    types: dict[str, str] = {}
    changed: set[str] = set()
    in_calls = set(reachable(model, with_initializers=False))
    for index in every:
        tensors = model.subgraphs[index].tensors
        for operator in model.subgraphs[index].operators:
            name = names.get((index, operator.inputs[0])) if operator.inputs else None
            if name is None:
                continue
            if operator.name == "READ_VARIABLE" and operator.outputs:
                types.setdefault(name, tensors[operator.outputs[0]].type)
            elif operator.name == "ASSIGN_VARIABLE" and len(operator.inputs) > 1:
                types[name] = tensors[operator.inputs[1]].type
                if index in in_calls:
                    changed.add(name)
    return ResourceUses(types, frozenset(changed))


def _names_of_tensors(model: Model, every: Sequence[int]) -> dict[tuple[int, int], str]:
    """The names of resources by subgraph and tensor."""
    names: dict[tuple[int, int], str] = {}
    size = -1
    while len(names) > size:
        size = len(names)
        for index in every:
            for operator in model.subgraphs[index].operators:
                if operator.name == "VAR_HANDLE" and operator.outputs:
                    names[index, operator.outputs[0]] = resource_name(operator)
                for source, target in _passed(model, index, operator):
                    if source in names:
                        names.setdefault(target, names[source])
    return names


def _passed(
    model: Model, index: int, operator: Operator
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Tensors that an operator passes to subgraphs, and takes from them."""
    chooses = operator.name in ("IF", "STABLEHLO_CASE")
    inputs = operator.inputs[1:] if chooses else operator.inputs
    for callee in called(operator):
        subgraph = model.subgraphs[callee]
        for outer, inner in zip(inputs, subgraph.inputs, strict=False):
            yield (index, outer), (callee, inner)
        for inner, outer in zip(subgraph.outputs, operator.outputs, strict=False):
            yield (callee, inner), (index, outer)
