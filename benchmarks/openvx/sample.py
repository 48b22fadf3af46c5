"""Khronos' sample implementation through ctypes, with the methods of `nnefc.openvx` used here.

It must find its target library at run time: `LD_LIBRARY_PATH` names the folders of its libraries
before the process starts (`environment`).
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from nnefc import openvx as vx

_READ: Final = (0x11 << 12) + 1
_WRITE: Final = (0x11 << 12) + 2
_HOST: Final = (0x0E << 12) + 1
_LIBRARY: Final = "framework/libopenvx.so"
_FOLDERS: Final = ("framework", "vxu", "targets/c_model")


def folder_of(build: Path) -> Path:
    """The folder with the libraries: `build`, or its folder `sample` or `build/sample`.

    Raises SampleError if none of them has the library of the framework.
    """
    places = [build, build / "sample", build / "build" / "sample"]
    for place in places:
        if (place / _LIBRARY).exists():
            return place.resolve()
    listed = ", ".join(map(str, places))
    raise SampleError(f"there is no {_LIBRARY} in {listed}: build the sample implementation first")


def environment(folder: Path) -> dict[str, str]:
    """The environment of a process that loads the libraries below a folder."""
    folders = ":".join(str(folder / each) for each in _FOLDERS)
    return {**os.environ, "LD_LIBRARY_PATH": folders}


class SampleError(RuntimeError):
    """A function of the sample implementation failed."""


class Tensor:
    """A tensor; the sample implementation owns its memory."""

    def __init__(self, sample: Sample, handle: Any, dims: tuple[int, ...], itemsize: int) -> None:
        self.handle = handle
        self._sample = sample
        self._dims = dims
        self._itemsize = itemsize

    def copy(self, array: Any, usage: int) -> None:
        """Copy to (`_WRITE`) or from (`_READ`) an array with reversed dims."""
        n = len(self._dims)
        sizes = ctypes.c_size_t * n
        strides = [self._itemsize * int(np.prod(self._dims[:i])) for i in range(n)]
        status = self._sample.library.vxCopyTensorPatch(
            self.handle,
            ctypes.c_size_t(n),
            sizes(),
            sizes(*self._dims),
            sizes(*strides),
            ctypes.c_void_p(array.ctypes.data),
            usage,
            _HOST,
        )
        if status:
            raise SampleError(f"vxCopyTensorPatch: {status}")


class Sample:
    """A context with one graph."""

    def __init__(self, folder: Path) -> None:
        """`folder` has the libraries."""
        self.library: Any = ctypes.CDLL(str(folder / _LIBRARY))
        for name in ("CreateContext", "CreateGraph", "CreateTensor"):
            getattr(self.library, f"vx{name}").restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(self.library.vxCreateContext())
        self._graph = ctypes.c_void_p(self.library.vxCreateGraph(self._context))

    def tensor(self, dims: tuple[int, ...], type: vx.Type, position: int) -> Tensor:
        """A tensor with memory."""
        sizes = (ctypes.c_size_t * len(dims))(*dims)
        handle = self.library.vxCreateTensor(
            self._context, ctypes.c_size_t(len(dims)), sizes, int(type), ctypes.c_int8(position)
        )
        itemsize = np.dtype(type.name.lower()).itemsize
        return Tensor(self, ctypes.c_void_p(handle), dims, itemsize)

    def write(self, tensor: Tensor, array: Any) -> None:
        """Copy an array into a tensor."""
        tensor.copy(np.ascontiguousarray(array), _WRITE)

    def read(self, tensor: Tensor, array: Any) -> None:
        """Copy a tensor into an array."""
        tensor.copy(array, _READ)

    def layer(self, name: str, *arguments: Any) -> None:
        """`vxNameLayer(graph, ...)`: tensors, structures, integers and floats."""
        function = getattr(self.library, f"vx{name}Layer")
        function.restype = ctypes.c_void_p
        given: list[Any] = []
        for each in arguments:
            given += _given(each)
        if not function(self._graph, *given):
            raise SampleError(f"vx{name}Layer")

    def verify(self) -> None:
        """Verify the graph."""
        if status := self.library.vxVerifyGraph(self._graph):
            raise SampleError(f"vxVerifyGraph: {status}")

    def process(self) -> None:
        """Run the graph."""
        if status := self.library.vxProcessGraph(self._graph):
            raise SampleError(f"vxProcessGraph: {status}")


def _given(argument: Any) -> list[Any]:
    """An argument as C takes it; a structure is followed by its size."""
    if isinstance(argument, Tensor):
        return [argument.handle]
    if argument is None:
        return [ctypes.c_void_p(0)]
    if isinstance(argument, float):
        return [ctypes.c_float(argument)]
    if isinstance(argument, vx.ConvolutionParams):
        made = _structure(argument)
        return [ctypes.byref(made), ctypes.c_size_t(ctypes.sizeof(made))]
    if isinstance(argument, vx.ConvertPolicy | vx.RoundPolicy | vx.PoolingType):
        return [ctypes.c_int32(int(argument))]
    if isinstance(argument, vx.DownScaleSizeRounding | vx.ActivationFunction):
        return [ctypes.c_int32(int(argument))]
    return [ctypes.c_size_t(argument)]


def _structure(params: vx.ConvolutionParams) -> Any:
    """`vx_nn_convolution_params_t`: sizes, and enumerations of 32 bits."""
    kinds = [
        (
            each.name,
            ctypes.c_int32 if "polic" in each.name or "round" in each.name else ctypes.c_size_t,
        )
        for each in fields(params)
    ]
    made = type("Params", (ctypes.Structure,), {"_fields_": kinds})()
    for name, _ in kinds:
        setattr(made, name, int(getattr(params, name)))
    return made
