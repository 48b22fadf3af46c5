"""Check that all operators of a model are known, before any of them is evaluated."""

from __future__ import annotations

from collections import Counter
from typing import Final

from nnefc.formats.tflite.enumerations import CUSTOM
from nnefc.formats.tflite.model import Model, Subgraph
from nnefc.frontends.tflite.registry import Node, find, operators, type_of
from nnefc.frontends.tflite.subgraph_calls import WrongCall, reachable
from nnefc.frontends.tflite.versions import newest_version
from nnefc.support.errors import Diagnostics, Place

_NO_DEFINITION: Final = "it has no definition that converters write today"
_RANDOM: Final = "compute random numbers outside of the model, and make them an input"
_STRINGS: Final = "its keys or values are strings"
REFUSED: Final[dict[str, str]] = {
    CUSTOM: "register it with @nnefc.operation(...)",
    "CALL": _NO_DEFINITION,
    "CONCAT_EMBEDDINGS": _NO_DEFINITION,
    "DELEGATE": "delegates are no part of files",
    "EMBEDDING_LOOKUP_SPARSE": _NO_DEFINITION,
    "HASHTABLE": _STRINGS,
    "HASHTABLE_FIND": _STRINGS,
    "HASHTABLE_IMPORT": _STRINGS,
    "HASHTABLE_LOOKUP": _NO_DEFINITION,
    "HASHTABLE_SIZE": _STRINGS,
    "LSH_PROJECTION": _NO_DEFINITION,
    "SKIP_GRAM": _NO_DEFINITION,
    "STABLEHLO_RNG_BIT_GENERATOR": _RANDOM,
    "STABLEHLO_CUSTOM_CALL": "calls of other programs have no definition in the file",
}
"""Why operators are refused that will not be supported."""


def check_operators(model: Model, diagnostics: Diagnostics) -> None:
    """Report each unknown operator once, with the number of its uses; and wrong calls.

    Operators differ by name, version and the item type that selects their function.
    """
    try:
        indices = reachable(model)
    except WrongCall as wrong:
        diagnostics.error("tflite/model", str(wrong), Place(model.file))
        return
    unknown: Counter[tuple[str, str, str]] = Counter()
    for index in indices:
        _count_unknown(model.subgraphs[index], unknown)
    for (what, where, hint), count in unknown.items():
        often = f"{count} times" if count > 1 else "once"
        message = f"{what}, used {often}, is not supported{where}"
        diagnostics.error("tflite/operator", message, Place(model.file), hint=hint)


def _count_unknown(subgraph: Subgraph, unknown: Counter[tuple[str, str, str]]) -> None:
    """Count the unknown operators of a subgraph: what they are, for which items, and a hint."""
    for operator in subgraph.operators:
        node = node_of(subgraph, operator.index)
        newest, name = newest_version(operator.name), operator.name
        if name == CUSTOM and find(node) is not None:
            continue
        if name not in operators():
            hint = REFUSED.get(name, "")
            unknown[f"operator {operator.full_name}", "", hint] += 1
        elif operator.version > newest:
            hint = f"it is known in versions 1 to {newest}"
            unknown[f"operator {name} of version {operator.version}", "", hint] += 1
        elif find(node) is None:
            every = operators()[name]
            type_ = type_of(node, every[0].typed_by)
            types = sorted({each for one in every for each in one.types})
            hint = f"it is known for {', '.join(types)}"
            unknown[f"operator {name}", f" for items of {type_}", hint] += 1


def node_of(subgraph: Subgraph, index: int) -> Node:
    """An operator of a subgraph with its tensors."""
    operator, tensors = subgraph.operators[index], subgraph.tensors
    inputs, outputs, between = (
        tuple(tensors[i] if i >= 0 else None for i in indices)
        for indices in (operator.inputs, operator.outputs, operator.intermediates)
    )
    return Node(operator, inputs, outputs, between)
