"""Attention before tiling: strided queries, keys and values over a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nnefc.ir import DType, Expression, Shape
from nnefc.lower.product.pack import Matrix

FEW_ROWS: Final = 8
"""Up to this many rows, k and v are read in place instead of packed."""


@dataclass(frozen=True, slots=True)
class AttentionProblem:
    """y = softmax(expression(q k^T, operands)) v over a batch.

    Batch dimensions of extent 1 are dropped.  Keys and values come in segments, e.g. a cache and
    new items.
    """

    dtype: DType
    rows: int
    keys: int
    depth: int
    width: int
    batch: Shape
    q: Matrix
    y: Matrix
    segments: tuple[tuple[int, Matrix, Matrix], ...]
    """(keys, k, v)"""
    expression: Expression
    operands: tuple[Matrix, ...]
    diagonal: int
    """Row r attends to keys up to r + diagonal."""

    @property
    def has_few_rows(self) -> bool:
        return self.rows <= FEW_ROWS

    @property
    def shares_keys(self) -> bool:
        """Whether the few items of the last batch dimension have the same keys and values."""
        matrices = [x for _, k, v in self.segments for x in (k, v)]
        few = bool(self.batch) and self.batch[-1] <= FEW_ROWS
        return few and not any(x.batch[-1] for x in matrices)
