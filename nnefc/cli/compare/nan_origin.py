"""The operation at which NaN begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from nnefc.ir import Graph, Op, Value

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class NanOrigin:
    """The first operation, in execution order, whose result has NaN."""

    tensor: str
    """The name of the result; "" if it has none."""
    operation: str
    place: str
    """Where the document has the operation; "" where unknown."""
    operands: tuple[str, ...]
    """Each operand with its range, or with its number of NaN."""
    from_operands: bool
    """Whether an operand has NaN: an input or a variable, since no earlier result has it."""
    call: int | None = None
    """The call of a session, from 1; None without a session."""

    def __str__(self) -> str:
        where = f" ({self.place})" if self.place else ""
        call = "" if self.call is None else f" of call {self.call}"
        name = f" %{self.tensor}" if self.tensor else ""
        verb = "reads" if self.from_operands else "makes"
        operands = f"; operands: {', '.join(self.operands)}" if self.operands else ""
        return f"{self.operation}{name}{call}{where} {verb} the first NaN{operands}"

    def facts(self) -> dict[str, Any]:
        """The origin as a JSON object."""
        return {
            **({} if self.call is None else {"call": self.call}),
            "tensor": self.tensor,
            "operation": self.operation,
            "place": self.place or None,
            "operands": list(self.operands),
            "from_operands": self.from_operands,
        }


def nan_origin(
    graph: Graph, values: Mapping[Value, Array], call: int | None = None
) -> NanOrigin | None:
    """The origin of NaN among the `values` of a graph; None if no operation's result has NaN."""
    from nnefc.ops.tools.cost import is_data

    for op in graph.ops:
        if not is_data(op):
            for result in op.outputs:
                if _count(values[result]):
                    return _origin(op, result, values, call)
    return None


def _origin(op: Op, result: Value, values: Mapping[Value, Array], call: int | None) -> NanOrigin:
    return NanOrigin(
        result.name,
        op.name,
        str(op.location.place) if op.location else "",
        tuple(
            _described(value.name or f"operand {i}", values[value])
            for i, value in enumerate(op.inputs, 1)
        ),
        any(_count(values[value]) for value in op.inputs),
        call,
    )


def _count(array: Array) -> int:
    """The number of NaN in an array of any type."""
    import numpy as np

    return int(np.count_nonzero(np.isnan(array))) if array.dtype.kind == "f" else 0


def _described(name: str, array: Array) -> str:
    """`x has 3 NaN`, or `x is -1 to 2`."""
    if nans := _count(array):
        return f"{name} has {nans:,} NaN"
    return f"{name} is {array.min():.6g} to {array.max():.6g}" if array.size else f"{name} is empty"
