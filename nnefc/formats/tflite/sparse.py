"""Sparse constants: which items of a tensor are stored, and the dense tensor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
_DENSE, _COMPRESSED = 0, 1
_INDICES: Final = {
    "Int32Vector": np.dtype(np.int32),
    "Uint16Vector": np.dtype(np.uint16),
    "Uint8Vector": np.dtype(np.uint8),
}


class SparsityError(ValueError):
    """Sparsity parameters that do not fit together or to the tensor."""


@dataclass(frozen=True, slots=True)
class Level:
    """One dimension of the stored order.

    Without `segments`, all `size` items of each group of the level before are stored; otherwise
    those of group i have the positions `indices[segments[i]:segments[i + 1]]`.
    """

    size: int
    segments: Array | None
    indices: Array | None


@dataclass(frozen=True, slots=True)
class Sparsity:
    """How a tensor is stored: dimensions in `order`, and of some of them blocks.

    Numbers in `order` from the rank on are blocks; `blocks` are the dimensions they divide.
    """

    order: tuple[int, ...]
    blocks: tuple[int, ...]
    levels: tuple[Level, ...]

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Sparsity:
        """The parameters of a table; raises SparsityError."""
        levels: list[Level] = []
        for each in table["dim_metadata"]:
            if each["format"] == _DENSE:
                levels.append(Level(each["dense_size"], None, None))
            elif each["format"] == _COMPRESSED:
                levels.append(
                    Level(0, _items(each["array_segments"]), _items(each["array_indices"]))
                )
            else:
                raise SparsityError(f"there is no format {each['format']} of a dimension")
        return cls(tuple(table["traversal_order"]), tuple(table["block_map"]), tuple(levels))

    def check(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The sizes of blocks by dimension; raises SparsityError."""
        rank, count = len(shape), len(shape) + len(self.blocks)
        if sorted(self.order) != list(range(count)) or len(self.levels) != count:
            message = f"its order {list(self.order)} and {len(self.levels)} dimensions"
            raise SparsityError(f"{message} are not those of {count}")
        if len(set(self.blocks)) < len(self.blocks) or not all(0 <= b < rank for b in self.blocks):
            raise SparsityError(f"its blocks divide the dimensions {list(self.blocks)} of {rank}")
        if set(self.order[:rank]) != set(range(rank)):
            raise SparsityError("its blocks are not the last dimensions")
        sizes = [1] * rank
        for number, level in zip(self.order[rank:], self.levels[rank:], strict=True):
            size = level.size
            if level.segments is not None or size < 1 or shape[self.blocks[number - rank]] % size:
                raise SparsityError(f"a block has {size} of {shape[self.blocks[number - rank]]}")
            sizes[self.blocks[number - rank]] = size
        return tuple(sizes)


def _items(union: tuple[str, Mapping[str, Any]] | None) -> Array:
    """The numbers of a vector; raises SparsityError if it is missing."""
    if union is None:
        raise SparsityError("a compressed dimension has no positions")
    name, table = union
    values = table["values"] or b""
    dtype = _INDICES[name]
    items = np.frombuffer(values, dtype) if dtype.itemsize == 1 else np.array([*values], dtype)
    return items.astype(np.int64)


def densified(items: Array, sparsity: Sparsity, shape: Sequence[int]) -> Array:
    """The dense tensor, with zeros where no item is stored; raises SparsityError."""
    rank, volume = len(shape), math.prod(shape)
    sizes = sparsity.check(shape)
    groups = np.zeros(1, np.int64)
    positions: list[Array] = []
    for number, level in zip(sparsity.order, sparsity.levels, strict=True):
        if number < rank:
            extent = shape[number] // sizes[number]
        else:
            extent = sizes[sparsity.blocks[number - rank]]
        parents, groups, found = _entered(groups, level, extent, volume)
        positions = [each[parents] for each in positions]
        positions.append(found)
    if len(groups) != items.size:
        raise SparsityError(f"it has {items.size:,} items, but positions of {len(groups):,}")
    where = [np.zeros(0, np.int64)] * rank
    for number, found in zip(sparsity.order, positions, strict=True):
        if number < rank:
            where[number] = found
    for number, found in zip(sparsity.order, positions, strict=True):
        if number >= rank:
            axis = sparsity.blocks[number - rank]
            where[axis] = where[axis] * sizes[axis] + found
    dense = np.zeros(tuple(shape), items.dtype)
    dense[tuple(where)] = items
    return dense


def _entered(groups: Array, level: Level, extent: int, most: int) -> tuple[Array, Array, Array]:
    """Of the items of a level: the positions of their groups, their numbers, their positions."""
    if level.segments is None or level.indices is None:
        if level.size != extent:
            raise SparsityError(f"a dimension has {level.size} items, not {extent}")
        if len(groups) * extent > most:
            raise SparsityError(f"it stores more than {most:,} items")
        parents = np.repeat(np.arange(len(groups)), extent)
        found = np.tile(np.arange(extent), len(groups))
        return parents, groups[parents] * extent + found, found
    segments, indices = level.segments, level.indices
    if groups.max(initial=-1) + 1 >= len(segments):
        raise SparsityError(f"it has {len(segments)} segments for more groups")
    first, counts = segments[groups], segments[groups + 1] - segments[groups]
    if counts.min(initial=0) < 0 or first.min(initial=0) < 0 or counts.sum() > most:
        raise SparsityError("its segments do not ascend")
    if (first + counts).max(initial=0) > len(indices):
        raise SparsityError(f"its segments end behind {len(indices)} positions")
    parents = np.repeat(np.arange(len(groups)), counts)
    starts = np.cumsum(counts) - counts
    numbers = np.arange(len(parents)) - starts[parents] + first[parents]
    found = indices[numbers]
    if found.min(initial=0) < 0 or found.max(initial=-1) >= extent:
        raise SparsityError(f"a position is outside of {extent} items")
    return parents, numbers, found
