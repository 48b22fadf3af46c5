"""Einstein sums as matrix products."""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.ir import DType

Multiply = Callable[[Operand, Operand], Operand]
"""The product of two batches of matrices."""


def einsum(
    make: OpBuilder,
    expression: str,
    tensors: Sequence[Operand],
    multiply: Multiply | None = None,
) -> Operand:
    """An Einstein sum as matrix products of two operands at a time, from left to right.

    `multiply`: the product of two batches of matrices, if it is not `matmul`.  Raises
    OperatorError.
    """
    multiply = multiply or (lambda a, b: make("matmul", a, b))
    names, result = _spelled(expression, [x.type.rank for x in tensors])
    left, *others = zip(names, tensors, strict=True)
    for name, x in (left, *others):
        if len(name) != x.type.rank:
            message = f"'{name}' does not fit a tensor of rank {x.type.rank}"
            raise OperatorError("argument/einsum", message)
    current, tensor = _summed(make, *left, _needed(result, others))
    for i, (name, x) in enumerate(others):
        later = _needed(result, others[i + 1 :])
        name, x = _summed(make, name, x, later | set(current))
        current, tensor = _pair(make, multiply, (current, tensor), (name, x), later)
    if sorted(current) != sorted(result):
        missing = [letter for letter in result if letter not in current]
        raise OperatorError("argument/einsum", f"'{expression}': {missing} is in no operand")
    return make.transpose(tensor, [current.index(letter) for letter in result])


def _spelled(expression: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Letters of the dimensions of each operand, and of the result; raises OperatorError.

    `...` is replaced by unused letters, aligned at the last one.  A missing result consists of the
    letters that occur once, in alphabetical order, as in NumPy.
    """
    terms, arrow, result = expression.replace(" ", "").partition("->")
    names = terms.split(",")
    if len(names) != len(ranks):
        raise OperatorError("argument/einsum", f"'{expression}' does not fit {len(ranks)} operands")
    if not arrow:
        result = "".join(c for c in sorted(set(terms)) if c.isalpha() and terms.count(c) == 1)
        result = ("..." if "..." in terms else "") + result
    free = [c for c in string.ascii_letters if c not in expression]
    counts = [max(0, rank + 3 - len(name)) for name, rank in zip(names, ranks, strict=True)]
    dots = [n for name, n in zip(names, counts, strict=True) if "..." in name]
    if max(dots, default=0) > len(free):
        raise OperatorError("argument/einsum", f"'{expression}' has too many dimensions")
    unnamed = "".join(free[: max(dots, default=0)])
    spelled = [
        name.replace("...", unnamed[len(unnamed) - n :])
        for name, n in zip(names, counts, strict=True)
    ]
    return spelled, result.replace("...", unnamed)


def is_product(expression: str, ranks: Sequence[int]) -> bool:
    """Whether an Einstein sum of two operands sums nothing but their products.

    Raises OperatorError.
    """
    (left, right), result = _spelled(expression, ranks)
    counts = Counter(left), Counter(right)
    summed = set(left + right) - set(result)
    return max([*counts[0].values(), *counts[1].values()], default=1) == 1 and all(
        each[letter] for each in counts for letter in summed
    )


def _needed(result: str, others: Sequence[tuple[str, Operand]]) -> set[str]:
    """The letters of the result and of the other operands."""
    return set(result).union(*(name for name, _ in others))


def _summed(make: OpBuilder, name: str, x: Operand, needed: set[str]) -> tuple[str, Operand]:
    """A tensor with diagonals of repeated letters taken, and letters not `needed` summed."""
    while repeated := next((c for c in name if name.count(c) > 1), None):
        name, x = _diagonal(make, name, x, repeated)
    axes = tuple(i for i, letter in enumerate(name) if letter not in needed)
    if not axes:
        return name, x
    y = make("sum_reduce", x, axes=axes)
    left = "".join(letter for letter in name if letter in needed)
    return left, make.reshape(y, [n for i, n in enumerate(y.type.dims) if i not in axes])


def _diagonal(make: OpBuilder, name: str, x: Operand, letter: str) -> tuple[str, Operand]:
    """The diagonal of the first two dimensions with this letter, as the first dimension."""
    first = name.index(letter)
    second = name.index(letter, first + 1)
    rest = [i for i in range(len(name)) if i not in (first, second)]
    y = make.transpose(x, [first, second, *rest])
    extent = x.type.dims[first]
    flat = make.reshape(y, (extent * extent, *(x.type.dims[i] for i in rest)))
    where = KnownTensor(np.arange(extent, dtype=np.int64) * (extent + 1), DType.INT64)
    diagonal = make("gather", flat, where, axis=0)
    return letter + "".join(name[i] for i in rest), diagonal


def _pair(
    make: OpBuilder,
    multiply: Multiply,
    left: tuple[str, Operand],
    right: tuple[str, Operand],
    needed: set[str],
) -> tuple[str, Operand]:
    """The product of two tensors, summed over common letters that are not `needed`."""
    (a_name, a), (b_name, b) = left, right
    both = [c for c in a_name if c in b_name]
    batch = [c for c in both if c in needed]
    summed = [c for c in both if c not in needed]
    rows = [c for c in a_name if c not in both]
    columns = [c for c in b_name if c not in both]
    extent = dict(zip(b_name, b.type.dims, strict=True))
    for letter, n in zip(a_name, a.type.dims, strict=True):
        if extent.get(letter, 1) in (1, n):
            extent[letter] = n
        elif n != 1:
            message = f"dimension '{letter}' has extents {n} and {extent[letter]}"
            raise OperatorError("argument/einsum", message)
    outer, inner = [batch] if batch else list[list[str]](), rows
    if not batch and summed:  # rows that stay apart need no reshape of the result
        outer, inner = [[letter] for letter in rows[:-1]], rows[-1:]
    a = _grouped(make, a_name, a, (*outer, inner, summed), extent)
    b = _grouped(make, b_name, b, (*[batch] * len(outer), summed, columns), extent)
    y = multiply(a, b)
    order = [*batch, *rows, *columns]
    return "".join(order), make.reshape(y, [extent[c] for c in order])


def _grouped(
    make: OpBuilder,
    name: str,
    x: Operand,
    groups: Sequence[Sequence[str]],
    extent: dict[str, int],
) -> Operand:
    """A tensor with each group of dimensions merged into one, in the order of `groups`."""
    x = make.repeated(x, [extent[letter] for letter in name])
    y = make.transpose(x, [name.index(letter) for group in groups for letter in group])
    return make.reshape(y, [math.prod(extent[letter] for letter in group) for group in groups])
