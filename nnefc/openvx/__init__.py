"""OpenVX's Neural Network Extension in Python.

>>> from nnefc import openvx as vx
>>> context = vx.Context()
>>> x = context.create_tensor((4, 2), vx.Type.UINT8)
>>> y = context.create_tensor((4, 2), vx.Type.UINT8)
>>> graph = context.create_graph()
>>> node = graph.activation_layer(x, vx.ActivationFunction.RELU, 0, 0, y)
>>> graph.verify()
>>> graph.process()

Names are the standard's in snake case, without `vx` and the prefixes of enumerators; parameters
have its order and names, sizes of structures are left out.  Dims are in OpenVX's order, where the
first runs fastest; arrays of NumPy have them reversed.
"""

from __future__ import annotations

from nnefc.frontends.openvx.enumerations import (
    ActivationFunction,
    ConvertPolicy,
    Direction,
    DownScaleSizeRounding,
    NormalizationType,
    PoolingType,
    RoundPolicy,
    Type,
)
from nnefc.frontends.openvx.parameters import (
    ConvolutionParams,
    DeconvolutionParams,
    RoiPoolParams,
)
from nnefc.openvx.context import Context
from nnefc.openvx.graph import Graph
from nnefc.openvx.kernel import Kernel
from nnefc.openvx.node import Node
from nnefc.openvx.tensor import Tensor

__all__ = [
    "ActivationFunction",
    "Context",
    "ConvertPolicy",
    "ConvolutionParams",
    "DeconvolutionParams",
    "Direction",
    "DownScaleSizeRounding",
    "Graph",
    "Kernel",
    "Node",
    "NormalizationType",
    "PoolingType",
    "RoiPoolParams",
    "RoundPolicy",
    "Tensor",
    "Type",
]


def __dir__() -> list[str]:
    """The names of the standard, without those of modules."""
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
