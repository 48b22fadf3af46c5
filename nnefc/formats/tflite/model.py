"""A TensorFlow Lite model as Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nnefc.formats.files import printable
from nnefc.formats.tflite.sparse import Sparsity


@dataclass(frozen=True, slots=True)
class Blocks:
    """Scales and zero points of blocks, which are tensors of the subgraph."""

    scales: int
    zero_points: int
    """-1 for none."""
    size: int


@dataclass(frozen=True, slots=True)
class Quantization:
    """Codes stand for (code - zero_point) scale; both vary along `axis` if there are several."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    """As many as scales."""
    axis: int
    details: str = ""
    """The table that replaces scales and zero points, such as `BlockwiseQuantization`, or ""."""
    blocks: Blocks | None = None


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a subgraph."""

    index: int
    name: str
    type: str
    """The name of the item type: `FLOAT32`, `INT8`."""
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    """The shape with -1 for extents that may change; empty if all are fixed."""
    data: memoryview | None
    """The items of a constant; None for computed tensors."""
    quantization: Quantization | None
    is_variable: bool = False
    """Whether it keeps its items from call to call."""
    sparsity: Sparsity | None = None
    """Which items `data` has; None for all."""
    external_buffer: int = 0
    """The number of a buffer in another file; 0 if there is none."""

    def __str__(self) -> str:
        return f"tensor {self.index} '{printable(self.name)}'"


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of a subgraph."""

    index: int
    name: str
    """The name of a built-in operator, or `CUSTOM`."""
    custom_code: str
    version: int
    inputs: tuple[int, ...]
    """Tensors by index; -1 for absent ones."""
    outputs: tuple[int, ...]
    options_table: str
    """The table of `options`, or "" if there are none."""
    options: Mapping[str, Any]
    """Options by the names of the schema."""
    custom_options: memoryview | None = None
    intermediates: tuple[int, ...] = ()
    """Tensors inside the operator, of which files give scales."""

    @property
    def full_name(self) -> str:
        """`CONV_2D`, or `CUSTOM 'name'`."""
        return f"{self.name} '{printable(self.custom_code)}'" if self.custom_code else self.name

    def __str__(self) -> str:
        return f"operator {self.index} ({self.full_name})"


@dataclass(frozen=True, slots=True)
class Subgraph:
    """Tensors, and operators in order of execution."""

    index: int
    name: str
    tensors: Sequence[Tensor]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: Sequence[Operator]

    def __str__(self) -> str:
        name = f" '{printable(self.name)}'" if self.name else ""
        return f"subgraph {self.index}{name}"


@dataclass(frozen=True, slots=True)
class Signature:
    """Names of inputs and outputs of a subgraph."""

    key: str
    subgraph: int
    inputs: Mapping[int, str]
    """Names by index of the tensor."""
    outputs: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Model:
    """A model; subgraph 0 is the main one."""

    file: str
    description: str
    subgraphs: Sequence[Subgraph]
    signatures: Sequence[Signature]
    metadata: Mapping[str, memoryview]
    """Buffers by name."""

    def names(self, subgraph: int) -> Signature | None:
        """The first signature of a subgraph."""
        return next((each for each in self.signatures if each.subgraph == subgraph), None)
