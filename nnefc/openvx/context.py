"""The context: what graphs and tensors have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

from nnefc.frontends.openvx.enumerations import Type
from nnefc.frontends.openvx.tensors import TensorInfo
from nnefc.openvx.arguments import check_bytes, checked_dims, checked_format
from nnefc.openvx.graph import Graph
from nnefc.openvx.kernel import Kernel, import_kernel
from nnefc.openvx.reference import Reference
from nnefc.openvx.shared import ARITHMETIC_NAMES, Shared
from nnefc.openvx.tensor import Tensor
from nnefc.options.arguments import abbreviated, check_limits, check_threads
from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits

EXTENSIONS: Final = "KHR_NN_8 KHR_NN_16"
"""The extensions of the standard (section 1.6)."""


class Context(Reference):
    """Creates tensors and graphs."""

    extensions: Final = EXTENSIONS
    """What `VX_CONTEXT_EXTENSIONS` is."""

    def __init__(
        self,
        *,
        arithmetic: Literal["specification", "conformance"] = "specification",
        threads: int | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Args:
        arithmetic: "specification": exact sums with one rounding at the end; "conformance":
            what Khronos' conformance suite computes, where it leaves the text, too.
        threads: Threads that a graph may use; None: all usable CPUs.
        limits: Bounds of memory.
        """
        if not isinstance(arithmetic, str) or arithmetic not in ARITHMETIC_NAMES:
            names = ", ".join(map(repr, ARITHMETIC_NAMES))
            message = f"arithmetic = {abbreviated(arithmetic)}: expected one of {names}"
            raise NnefError.of("input/argument", message)
        checked = check_limits(limits) or Limits()
        self._shared = Shared(arithmetic, check_threads(threads), checked)

    def create_tensor(self, dims: Any, data_type: Type, fixed_point_position: int = 0) -> Tensor:
        """A tensor of zeros; `dims` with the fastest first, 8 fraction bits for Q7.8."""
        checked = checked_dims(dims)
        format = checked_format(data_type, fixed_point_position)
        check_bytes(checked, format, self._shared.limits)
        info = TensorInfo(self._shared.new_name(), checked, format)
        return Tensor(info, self._shared)

    def import_kernel_from_url(self, type: str, url: str | Path) -> Kernel:
        """`vxImportKernelFromURL`: the network of an NNEF document, for `create_generic_node`.

        Args:
            type: "nnef".
            url: The path of a folder or an archive, or a URL with the scheme `file`.

        Raises:
            NnefError: With the errors of the document; `openvx/kernel` for another type, and for
                networks with states, or with tensors that OpenVX lacks.
        """
        return import_kernel(type, url, self._shared)

    def create_graph(self) -> Graph:
        """A graph without nodes."""
        return Graph(self._shared)

    def __repr__(self) -> str:
        return f"<Context: arithmetic {self._shared.arithmetic!r}>"
