"""What a document invokes, and where operations of the standard mean something else here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Final

from nnefc.frontends.common.tensor_operators import BINARY_OPERATIONS, UNARY_OPERATIONS
from nnefc.support.errors import Place
from nnefc.syntax import ast

READINGS: Final[Mapping[str, str]] = {
    "argmax_reduce": "the result is of 64-bit integers",
    "argmin_reduce": "the result is of 64-bit integers",
    "batch_normalization": "parameters of any rank: extents of 1 do not count",
    "clamp": "bounds take the item type of the input",
    "concat": "tensors without items, and numbers, are joined too",
    "constant": "`integer` has 64 bits; without a type the items have that of the values",
    "conv": "groups = 0 is one per channel, a bias has any rank, and border is 'constant' only; "
    "of codes the result is the sums of their products",
    "copy": "a result with an entry in graph.quant is quantized again",
    "deconv": "groups = 0 is one per channel, a bias has any rank, output_shape is without batch "
    "and channels, and border is 'constant' only",
    "div": "integers are divided towards zero",
    "external": "`integer` has 64 bits; extents may be symbols",
    "linear": "a bias has any rank; one that is 0 is left out",
    "matmul": "operands have the same rank",
    "max_pool": "border = 'constant' ignores the border, as 'ignore' does",
    "max_pool_with_index": "border = 'constant' ignores the border, as 'ignore' does",
    "multilinear_upsample": "border = 'replicate' unless another is given",
    "pad": "borders are 'constant', 'reflect', 'replicated'; a value may be given",
    "pow": "integers stay integers",
    "reshape": "the shape may be a tensor that is known, or be put together of several",
    "select": "item types need not be equal; missing dimensions are appended",
    "slice": "bounds are moved into the dimension; there is a stride; an end that is computed as 0 "
    "is not the end of the dimension",
    "softmax": "axes behind the last dimension are of extent 1",
    "tile": "repeats may be a tensor that is known",
    "unsqueeze": "axes may be negative, and are inserted from the lowest on",
    "variable": "the item type is that of the tensor file",
}  # fmt: skip
"""By operation, in half a sentence."""


def invoked(document: ast.Document) -> Counter[str]:
    """How often each operation, operator or fragment is invoked in a document, as it is written."""
    return Counter(_names(document))


def unknown(document: ast.Document, known: Container[str]) -> dict[str, list[Place]]:
    """What the graph invokes, by way of fragments or not, that is neither one of them nor `known`:
    where each is, in the order of the document.
    """
    fragments = {f.name: f for f in document.fragments if f.body is not None}
    found: dict[str, list[int]] = {}
    reached: set[str] = set()
    left: list[tuple[ast.Assignment, ...]] = [document.graph.body]
    while left:
        for node in _nodes(left.pop()):
            # a loop names its body in a string
            name = node.value if isinstance(node, ast.Literal_) else getattr(node, "name", None)
            fragment = fragments.get(name) if isinstance(name, str) else None
            if fragment is not None and fragment.name not in reached:
                reached.add(fragment.name)
                left.append(fragment.body or ())
            if isinstance(node, ast.Invocation) and fragment is None and node.name not in known:
                found.setdefault(node.name, []).append(node.at)
    place = document.source.place
    return {name: [place(at) for at in sorted(where)] for name, where in found.items()}


def labels(document: ast.Document) -> list[str]:
    """The labels of weights, each once, as far as they are written out."""
    found = [
        argument.value.value
        for node in _nodes(_bodies(document))
        if isinstance(node, ast.Invocation) and node.name == "variable"
        for argument in node.arguments
        if isinstance(argument.value, ast.Literal_) and isinstance(argument.value.value, str)
    ]
    return list(dict.fromkeys(found))


def readings(document: ast.Document) -> list[tuple[str, str]]:
    """(operation, reading) of the operations that a document uses, and does not define itself."""
    own = {f.name for f in document.fragments if f.body is not None}
    used = invoked(document)
    return [(name, text) for name, text in READINGS.items() if name in used and name not in own]


def _names(document: ast.Document) -> Iterator[str]:
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
    """The statements of the graph and of the fragments, without those of properties."""
    fragments = [f.body or () for f in document.fragments if f.name != "tract_core_properties"]
    return document.graph.body, *fragments


def _nodes(parts: tuple[object, ...]) -> Iterator[object]:
    """Everything in some statements, in no particular order."""
    left: list[object] = [parts]
    while left:
        node = left.pop()
        if isinstance(node, tuple):
            left.extend(node)  # pyright: ignore[reportUnknownArgumentType]
        elif is_dataclass(node):
            yield node
            left.extend(getattr(node, field.name) for field in fields(node))
