"""Invocations in a document, and how operations of NNEF 1.0.2 deviate in this dialect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Final

from nnefc.frontends.common.tensor_operators import BINARY_OPERATIONS, UNARY_OPERATIONS
from nnefc.support.errors import Place
from nnefc.syntax import ast

DEVIATIONS: Final[Mapping[str, str]] = {
    "argmax_reduce": "the result is of 64-bit integers",
    "argmin_reduce": "the result is of 64-bit integers",
    "batch_normalization": "parameters may have any rank; extents of 1 are ignored",
    "clamp": "bounds take the item type of the input",
    "concat": "numbers are accepted, and tensors of shape [0] are skipped",
    "constant": "`integer` has 64 bits; without a type argument the items keep the type of the "
    "values",
    "conv": "groups = 0 is one group per channel, a bias may have any rank, and border is "
    "'constant' only; a convolution of quantized tensors returns their sums of products",
    "copy": "a result with an entry in graph.quant is requantized",
    "deconv": "groups = 0 is one group per channel, a bias may have any rank, output_shape has no "
    "batch and channels, and border is 'constant' only",
    "div": "integer division truncates towards zero",
    "external": "`integer` has 64 bits; extents may be symbols",
    "linear": "a bias may have any rank; a bias of 0 is omitted",
    "matmul": "operands must have the same rank",
    "max_pool": "border = 'constant' ignores the border, as 'ignore' does",
    "max_pool_with_index": "border = 'constant' ignores the border, as 'ignore' does",
    "multilinear_upsample": "border is 'replicate' by default",
    "pad": "borders are 'constant', 'reflect' and 'replicated'; the padding value is an argument",
    "pow": "a power of integers is an integer",
    "reshape": "the shape may be a known tensor, or an array of known tensors",
    "select": "item types may differ; missing dimensions are appended",
    "slice": "bounds are clamped to the dimension; a stride is possible; only a literal end of 0 "
    "is the end of the dimension",
    "softmax": "axes beyond the last dimension have extent 1",
    "tile": "repeats may be a known tensor",
    "unsqueeze": "axes may be negative and are inserted in ascending order",
    "variable": "the item type is that of the tensor file",
}  # fmt: skip
"""Deviations from the semantics of NNEF 1.0.2, by operation."""


def invocation_counts(document: ast.Document) -> Counter[str]:
    """Numbers of invocations in the text of a document, by name; `+` counts as `add`."""
    return Counter(_names(document))


def unknown_invocations(document: ast.Document, known: Container[str]) -> dict[str, list[Place]]:
    """Places of invocations reachable from the graph that are neither fragments nor `known`.

    By name, each in the order of the document.
    """
    fragments = {f.name: f for f in document.fragments if f.body is not None}
    uses: dict[str, list[int]] = {}
    reached: set[str] = set()
    left: list[tuple[ast.Assignment, ...]] = [document.graph.body]
    while left:
        for node in _nodes(left.pop()):
            # tract_core_scan names its body in a string
            name = node.value if isinstance(node, ast.Literal_) else getattr(node, "name", None)
            fragment = fragments.get(name) if isinstance(name, str) else None
            if fragment is not None and fragment.name not in reached:
                reached.add(fragment.name)
                left.append(fragment.body or ())
            if isinstance(node, ast.Invocation) and fragment is None and node.name not in known:
                uses.setdefault(node.name, []).append(node.at)
    place = document.source.place
    return {name: [place(at) for at in sorted(where)] for name, where in uses.items()}


def weight_labels(document: ast.Document) -> list[str]:
    """The distinct labels of variables that are string literals."""
    labels = [
        argument.value.value
        for node in _nodes(_bodies(document))
        if isinstance(node, ast.Invocation) and node.name == "variable"
        for argument in node.arguments
        if isinstance(argument.value, ast.Literal_) and isinstance(argument.value.value, str)
    ]
    return list(dict.fromkeys(labels))


def deviations(document: ast.Document) -> list[tuple[str, str]]:
    """(operation, deviation) of the operations that a document uses and does not define itself."""
    own = {f.name for f in document.fragments if f.body is not None}
    used = invocation_counts(document)
    return [(name, text) for name, text in DEVIATIONS.items() if name in used and name not in own]


def _names(document: ast.Document) -> Iterator[str]:
    """The names of all invocations; infix operators count as the operations they denote."""
    for node in _nodes(_bodies(document)):
        match node:
            case ast.Invocation(name=name):
                yield name
            case ast.Binary(operator=operator) if operator in BINARY_OPERATIONS:
                yield BINARY_OPERATIONS[operator]
            case ast.Unary(operator=operator) if operator in UNARY_OPERATIONS:
                yield UNARY_OPERATIONS[operator]
            case _:
                pass


def _bodies(document: ast.Document) -> tuple[object, ...]:
    """The bodies of the graph and of all fragments but `tract_core_properties`."""
    fragments = [f.body or () for f in document.fragments if f.name != "tract_core_properties"]
    return document.graph.body, *fragments


def _nodes(parts: tuple[object, ...]) -> Iterator[object]:
    """All nodes of the syntax trees `parts`, in no particular order."""
    left: list[object] = [parts]
    while left:
        node = left.pop()
        if isinstance(node, tuple):
            left.extend(node)  # pyright: ignore[reportUnknownArgumentType]
        elif is_dataclass(node):
            yield node
            left.extend(getattr(node, field.name) for field in fields(node))
