"""The tensors of a kernel as OpenVX describes them."""

from __future__ import annotations

from typing import Final

from nnefc.emit.header import Interface, Tensor
from nnefc.support.errors import NnefError

_TYPES: Final = {
    "bool": "VX_TYPE_UINT8",  # vx_bool has four bytes
    **{
        name: f"VX_TYPE_{name.upper()}"
        for name in (
            *("float16", "float32", "float64", "int8", "int16", "int32", "int64"),
            *("uint8", "uint16", "uint32", "uint64"),
        )
    },
}
_MAX_NAME: Final = 255
"""The most bytes of a kernel's name: VX_MAX_KERNEL_NAME less one."""


def kernel_name(interface: Interface) -> str:
    """The name of the kernel; raises NnefError `input/option` for a name that none can have."""
    name = f"nnefc.{interface.name}"
    if interface.name.lower() == "vx":
        raise NnefError.of(
            "input/option",
            f"a model {interface.name!r} would have types of the same names as OpenVX",
            hint="another name, such as vx_net",
        )
    if len(name) > _MAX_NAME:
        raise NnefError.of(
            "input/option", f"kernels of OpenVX have names of at most {_MAX_NAME} bytes: {name}"
        )
    return name


def descriptions(interface: Interface, position: int) -> list[str]:
    """Initializers of the kernel's parameters; `position`: that of 16-bit integers.

    Raises NnefError `input/dtype`, `input/shape` for tensors that OpenVX does not have.
    """
    described = [_description(t, "VX_INPUT", position) for t in interface.inputs]
    return described + [_description(t, "VX_OUTPUT", position) for t in interface.outputs]


def _description(tensor: Tensor, direction: str, position: int) -> str:
    spec = tensor.spec
    type_ = _TYPES.get(spec.dtype.name)
    if type_ is None:
        raise NnefError.of("input/dtype", f"{spec}: OpenVX has no type for these items")
    if not tensor.items:
        raise NnefError.of("input/shape", f"{spec}: tensors of OpenVX have items")
    dims = spec.shape[::-1] or (1,)
    fraction = position if spec.dtype.name == "int16" else 0
    listed = ", ".join(map(str, dims))
    name, item = tensor.identifier, spec.dtype.itemsize
    return f'{{"{name}", {direction}, {type_}, {fraction}, {item}, {len(dims)}, {{{listed}}}}}'
