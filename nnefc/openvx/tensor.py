"""Tensors and views, with their memory."""

from __future__ import annotations

import numpy as np

from nnefc.frontends.openvx.enumerations import Type
from nnefc.frontends.openvx.tensors import Dims, Layout, TensorInfo
from nnefc.openvx.arguments import checked_dims
from nnefc.openvx.memory import Array, memory_of
from nnefc.openvx.reference import Reference, refuse, require_made
from nnefc.openvx.shared import Shared
from nnefc.support import array_memory
from nnefc.support.errors import NnefError


class Tensor(Reference):
    """A tensor of a context or a view of one, or a virtual tensor of a graph.

    Create tensors by `Context.create_tensor`, `Graph.create_virtual_tensor` and
    `create_tensor_from_view`.
    """

    def __init__(
        self, info: TensorInfo | None = None, shared: Shared | None = None, graph: object = None
    ) -> None:
        """`shared`: of the context; `graph`: the graph of a virtual tensor."""
        self._info = require_made(info, TensorInfo, "tensor", "Context.create_tensor")
        self._shared = shared
        self._graph = graph

    @property
    def info(self) -> TensorInfo:
        """The tensor as rules of layers see it."""
        return self._info

    @property
    def name(self) -> str:
        """The name in messages and results."""
        return self._info.name

    @name.setter
    def name(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            refuse("name", name, "text")
        self._info.rename(name)

    @property
    def dims(self) -> Dims | None:
        """Extents, the fastest first; None for a virtual tensor whose layer decides them."""
        return self._info.dims

    @property
    def data_type(self) -> Type | None:
        """The item type; None for a virtual tensor whose layer decides it."""
        return None if self._info.format is None else self._info.format.type

    @property
    def fixed_point_position(self) -> int | None:
        """The number of fraction bits: 8 for Q7.8, else 0."""
        return None if self._info.format is None else self._info.format.position

    @property
    def is_virtual(self) -> bool:
        """Whether the tensor has no memory that can be read or written."""
        return self._info.root.is_virtual

    def check_scope(self, parameter: str, shared: Shared, graph: object) -> None:
        """Raise NnefError for a tensor of another context, or a virtual one of another graph."""
        is_other = self._shared is not shared
        if is_other or self._graph not in (None, graph):
            message = (
                f"{parameter} = {self!r} belongs to another {'context' if is_other else 'graph'}"
            )
            raise NnefError.of("openvx/scope", message)

    def create_tensor_from_view(self, view_start: Dims, view_end: Dims) -> Tensor:
        """A view of the items from `view_start` to `view_end`, exclusive; it shares the memory."""
        info = self._info
        if info.dims is None or info.format is None:
            lacks = {"dims": info.dims, "data_type": info.format}
            missing = " and ".join(name for name, value in lacks.items() if value is None)
            message = f"{info} is virtual and has no {missing} yet: a view needs them"
            hint = f"create_virtual_tensor with {missing}"
            raise NnefError.of("openvx/view", message, hint=hint)
        start, end = checked_dims(view_start, "view_start", 0), checked_dims(view_end, "view_end")
        fits = len(start) == len(end) == len(info.dims) and all(
            0 <= a < b <= n for a, b, n in zip(start, end, info.dims, strict=True)
        )
        if not fits:
            message = (
                f"a view from {list(start)} to {list(end)} is no region of {info} {list(info.dims)}"
            )
            raise NnefError.of("openvx/view", message)
        dims = tuple(b - a for a, b in zip(start, end, strict=True))
        offset = info.start or (0,) * len(dims)
        place = tuple(a + b for a, b in zip(offset, start, strict=True))
        region = f"[{', '.join(f'{a}:{b}' for a, b in zip(start, end, strict=True))}]"
        view = TensorInfo(region, dims, info.format, parent=info.root, start=place, viewed=info)
        return Tensor(view, self._shared, self._graph)

    def copy_from(self, array: object) -> None:
        """Copy an array with the tensor's item type and reversed dims into the tensor.

        Items of Q7.8 are int16: numbers times 256.  Raises NnefError `openvx/array` for another
        type or shape.
        """
        layout, target = self._layout(), self._memory()
        try:
            source: Array = np.asarray(array)
        except Exception as error:  # what `__array__` of the value raises
            message = f"{self._info}: the value is no array: {error}"
            raise NnefError.of("openvx/array", message) from None
        if source.dtype != target.dtype or source.shape != target.shape:
            hint = f"array.astype('{target.dtype}')" if source.dtype != target.dtype else ""
            message = (
                f"{self._info} is {layout}, so arrays are {target.dtype}{list(target.shape)}: "
                f"this one is {source.dtype}{list(source.shape)}"
            )
            raise NnefError.of("openvx/array", message, hint=hint)
        np.copyto(target, source)
        self._info.root.version += 1

    def copy_to(self) -> Array:
        """A copy of the items, with reversed dims."""
        return array_memory.copy(self._memory(), f"a copy of {self._info}")

    def _layout(self) -> Layout:
        info = self._info
        if info.root.is_virtual or info.dims is None or info.format is None:
            message = f"{info} is virtual: it has no memory to copy"
            raise NnefError.of("openvx/virtual", message)
        return Layout(info.dims, info.format)

    def _memory(self) -> Array:
        """The items in memory, which exists from now on."""
        self._layout()
        return memory_of(self._info)

    def __repr__(self) -> str:
        dims = "" if self.dims is None else str(list(self.dims))
        format = "" if self._info.format is None else str(self._info.format)
        virtual = "virtual " if self.is_virtual else ""
        return f"<Tensor {self._info}: {virtual}{format}{dims}>"
