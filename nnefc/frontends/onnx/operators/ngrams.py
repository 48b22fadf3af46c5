"""Counts of n-grams of integers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank, take_room
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError
from nnefc.frontends.onnx.registry import Floats, Integers, Strings, operator
from nnefc.ir import DType

MODES: Final = ("TF", "IDF", "TFIDF")


@operator("TfIdfVectorizer", since=9)
def tf_idf_vectorizer(
    make: OpBuilder,
    X: Operand,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Integers,
    ngram_indexes: Integers,
    pool_int64s: Integers = (),
    pool_strings: Strings = (),
    weights: Floats = (),
) -> Any:
    """Counts (TF) of the n-grams of a pool in X [c] or [rows, c], as float32 [k] or [rows, k].

    The items of an n-gram have up to `max_skip_count` items between them, always the same number;
    n-grams of one item are counted once.  IDF: the weights of columns with a count; TFIDF: counts
    times weights.  Raises OperatorError for strings and for attributes that do not fit.
    """
    if pool_strings:
        raise OperatorError("onnx/unsupported", "pool_strings: nnefc does not compute with strings")
    *outer, length = of_rank("tfidf", "X", X, 1, 2)
    if mode not in MODES:
        raise OperatorError("argument/tfidf", f"mode = {mode!r}; use one of {', '.join(MODES)}")
    lengths = (min_gram_length, max_gram_length)
    if not 1 <= min_gram_length <= max_gram_length or max_skip_count < 0:
        message = f"lengths from {lengths[0]} to {lengths[1]}, max_skip_count = {max_skip_count}"
        raise OperatorError("argument/tfidf", message)
    grams = _grams(pool_int64s, ngram_counts, ngram_indexes, lengths)
    width = max(ngram_indexes) + 1
    rows = outer[0] if outer else 1
    take_room(make.budget, rows, width)
    factors = _factors(weights, ngram_indexes, width)
    x = make.cast(make.reshape(X, (rows, length)), DType.INT64)
    counts = _zeros(make, rows, width)
    for items, numbers in grams:
        found = _counts(make, x, items, max_skip_count)
        columns = KnownTensor(np.asarray(ngram_indexes)[numbers].reshape(1, -1), DType.INT64)
        where = make.repeated(columns, found.type.dims)
        counts = make("scatter_elements", counts, where, found, axis=1, reduction="add")
    if mode == "IDF":
        counts = make("min", counts, 1.0)
    if mode != "TF" and weights:
        counts = make("mul", counts, KnownTensor(factors.reshape(1, width), DType.FLOAT32))
    return make.reshape(counts, (*outer, width))


def _zeros(make: OpBuilder, rows: int, columns: int) -> Operand:
    zero = KnownTensor(np.zeros((1, 1), np.float32), DType.FLOAT32)
    return make.repeated(zero, (rows, columns))


def _grams(
    pool: Integers, starts: Integers, indexes: Integers, lengths: tuple[int, int]
) -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """The n-grams [m, n] of each chosen length n, and their numbers [m]; raises OperatorError."""
    bounds = (*starts, len(pool))
    sizes = [end - start for start, end in pairwise(bounds)]
    counts = [size // n for n, size in enumerate(sizes, 1)]
    fits = bool(starts) and starts[0] == 0 and all(size >= 0 for size in sizes)
    fits = fits and all(size % n == 0 for n, size in enumerate(sizes, 1))
    if not fits or sum(counts) != len(indexes) or not indexes or min(indexes) < 0:
        message = f"ngram_counts = {_brief(starts)} and {len(indexes)} ngram_indexes do not fit"
        raise OperatorError("argument/tfidf", f"{message} a pool of {len(pool)} items")
    items = np.asarray(pool, np.int64)
    result: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
    first = 0
    for n, (start, count) in enumerate(zip(starts, counts, strict=True), 1):
        grams = items[start : start + count * n].reshape(count, n)
        if len(set(map(tuple, grams.tolist()))) < count:
            raise OperatorError("argument/tfidf", f"the pool has equal n-grams of {n} items")
        if count and lengths[0] <= n <= lengths[1]:
            result.append((grams, np.arange(first, first + count)))
        first += count
    return result


def _brief(items: Sequence[int]) -> str:
    return str(list(items)) if len(items) <= 8 else f"{list(items[:8])[:-1]}, .. ({len(items)})"


def _factors(weights: Floats, columns: Integers, width: int) -> np.ndarray[Any, Any]:
    """The weights of the columns of the result, from those of n-grams; raises OperatorError."""
    factors = np.zeros(width, np.float32)
    if not weights:
        return factors
    if len(weights) != len(columns):
        message = f"{len(weights)} weights for {len(columns)} n-grams"
        raise OperatorError("argument/tfidf", message)
    given = np.asarray(weights, np.float32)
    factors[list(columns)] = given
    if not np.array_equal(factors[list(columns)], given):
        message = "n-grams with one ngram_index have different weights"
        raise OperatorError("argument/tfidf", message)
    return factors


def _counts(make: OpBuilder, x: Operand, grams: np.ndarray[Any, Any], most_skipped: int) -> Operand:
    """How often rows of x contain n-grams [m, n], as float32 [rows, m]."""
    (rows, length), (count, n) = x.type.dims, grams.shape
    total = _zeros(make, rows, count)
    for step in range(1, (most_skipped if n > 1 else 0) + 2):
        windows = length - (n - 1) * step
        if windows < 1:
            break
        take_room(make.budget, rows, windows, count)
        is_gram: Operand | None = None
        for i in range(n):
            piece = slice_in_dim(make, x, 1, i * step, i * step + windows)
            wanted = KnownTensor(grams[:, i].reshape(1, 1, count), DType.INT64)
            equal = make("eq", make.reshape(piece, (rows, windows, 1)), wanted)
            is_gram = equal if is_gram is None else make("and", is_gram, equal)
        assert is_gram is not None
        hits = make("sum_reduce", make.cast(is_gram, DType.FLOAT32), axes=(1,))
        total = make("add", total, make.reshape(hits, (rows, count)))
    return total
