"""Arguments of stored nodes that are neither tensors nor numbers."""

from __future__ import annotations

from typing import Any

from nnefc.formats.archives.torch_tensor import SCALAR_TYPES
from nnefc.formats.files import printable
from nnefc.frontends.common.values import OperatorError
from nnefc.frontends.torch.json_values import integer, json_list, real, scalar, text
from nnefc.frontends.torch.program import Argument, ItemType


def attribute(kind: str, value: Any) -> Argument:
    """An argument that is neither a tensor nor a number."""
    match kind:
        case "as_scalar_type":
            return ItemType(SCALAR_TYPES.get(value, f"code {value}"))
        case "as_memory_format" | "as_layout":
            return f"{kind.removeprefix('as_')} {integer(value)}"
        case "as_operator":
            return text(value)
        case "as_device":
            return text(value["type"])
        case "as_complex":
            return complex(real(value["real"]), real(value["imag"]))
        case "as_int_lists" | "as_float_lists":
            one = "as_int" if kind == "as_int_lists" else "as_float"
            return tuple(
                tuple(scalar(one, each) for each in json_list(row)) for row in json_list(value)
            )
        case _:
            message = f"an argument of kind '{printable(kind)}' is not supported"
            raise OperatorError("torch/unsupported", message)
