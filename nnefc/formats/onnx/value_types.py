"""Types of a model's inputs and outputs, without a parser, as `external_files` reads names.

Source: onnx.proto3, messages ModelProto, GraphProto, ValueInfoProto and TypeProto.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from mmap import mmap
from typing import Final, NamedTuple

from nnefc.formats.onnx.schema import MAX_DEPTH
from nnefc.formats.onnx.wire_format import BYTES, VARINT, WireError, fields, varint

_GRAPH: Final = 7
_INITIALIZER: Final = 5
_INITIALIZER_NAME: Final = 8
_INPUT: Final = 11
_OUTPUT: Final = 12
_NAME: Final = 1
_TYPE: Final = 2
_ELEM_TYPE: Final = 1
_SHAPE: Final = 2
_FORMS: Final = {
    1: "tensor",
    4: "seq",
    5: "map",
    7: "opaque",
    8: "sparse_tensor",
    9: "optional",
}
"""Forms of types, by the field of TypeProto that holds them; the names are onnxruntime's."""

_NAMES: Final = (
    "undefined",
    *("float", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool"),
    *("float16", "double", "uint32", "uint64", "complex64", "complex128", "bfloat16"),
    *("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4", "int4"),
    *("float4e2m1", "float8e8m0", "uint2", "int2", "float6e2m3", "float6e3m2"),
)
"""onnxruntime's names of item types, by the numbers of TensorProto.DataType."""
STRING: Final = _NAMES.index("string")
_NUMPY_NAMES: Final = {"float": "float32", "double": "float64", "bool": "bool_"}
NARROW: Final = {
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    24: "float8_e8m0fnu",
    25: "uint2",
    26: "int2",
    27: "float6_e2m3fn",
    28: "float6_e3m2fn",
}
"""Names of types in `ml_dtypes` that NumPy and the IR lack; models take and give their bytes."""


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of an input or output."""

    form: str = ""
    """`tensor`, `seq`, `optional` or another form; "" if the model names none."""
    elem_type: int = 0
    """Of the items of a tensor, a number of TensorProto.DataType."""
    element: ValueType | None = None
    """Of the items of a sequence, or of the element of an optional."""
    ranked: bool = True
    """Whether a tensor has a shape, perhaps with unknown extents."""

    @property
    def narrow(self) -> str:
        """The name in `ml_dtypes` of the tensors' item type if it is narrow, otherwise ""."""
        return self.element.narrow if self.element else NARROW.get(self.elem_type, "")

    @property
    def items(self) -> str:
        """The name of a tensor's item type in NumPy or `ml_dtypes`; "" if neither has it."""
        name = _NAMES[self.elem_type] if self.elem_type < len(_NAMES) else ""
        return self.narrow or _NUMPY_NAMES.get(name, name if name[-1:].isdigit() else "")

    def __str__(self) -> str:
        """The name that onnxruntime has for it: `seq(tensor(float))`."""
        name = _NAMES[self.elem_type] if self.elem_type < len(_NAMES) else str(self.elem_type)
        return f"{self.form}({self.element or name})"


class ValueTypes(NamedTuple):
    """The types of inputs and outputs by name."""

    inputs: Mapping[str, ValueType]
    """Those that a call must give: without an initializer."""
    outputs: Mapping[str, ValueType]
    overridable: Mapping[str, ValueType]
    """Inputs with an initializer."""


def value_types(content: mmap | bytes) -> ValueTypes:
    """The types in a model; raises WireError or UnicodeDecodeError."""
    with memoryview(content) as view:
        inputs: dict[str, ValueType] = {}
        outputs: dict[str, ValueType] = {}
        given: set[str] = set()
        for begin, end in _messages(view, 0, len(view), _GRAPH):
            for field in fields(view, begin, end):
                if field.wire_type != BYTES:
                    continue
                if field.number == _INITIALIZER:
                    given.add(_text(view, field.begin, field.end, _INITIALIZER_NAME))
                elif field.number in (_INPUT, _OUTPUT):
                    values = inputs if field.number == _INPUT else outputs
                    name = _text(view, field.begin, field.end, _NAME)
                    values[name] = _type_in(view, field.begin, field.end)
    return ValueTypes(
        {name: type_ for name, type_ in inputs.items() if name not in given},
        outputs,
        {name: type_ for name, type_ in inputs.items() if name in given},
    )


def _messages(view: memoryview, begin: int, end: int, number: int) -> Iterator[tuple[int, int]]:
    """Begin and end of the fields of bytes with this number."""
    for field in fields(view, begin, end):
        if field.number == number and field.wire_type == BYTES:
            yield field.begin, field.end


def _text(view: memoryview, begin: int, end: int, number: int) -> str:
    """The text in a field; "" if there is none."""
    text = ""
    for at, behind in _messages(view, begin, end, number):
        text = bytes(view[at:behind]).decode()
    return text


def _type_in(view: memoryview, begin: int, end: int) -> ValueType:
    """The type in a value's message."""
    found = ValueType()
    for at, behind in _messages(view, begin, end, _TYPE):
        found = _value_type(view, at, behind, 0)
    return found


def _value_type(view: memoryview, begin: int, end: int, depth: int) -> ValueType:
    if depth > MAX_DEPTH:
        raise WireError(f"types are nested more than {MAX_DEPTH} deep at byte {begin}")
    found = ValueType()
    for field in fields(view, begin, end):
        form = _FORMS.get(field.number)
        if form is None or field.wire_type != BYTES:
            continue
        elem_type, element, ranked = 0, None, form != "tensor"
        for inner in fields(view, field.begin, field.end):
            ranked = ranked or inner.number == _SHAPE
            if inner.number != _ELEM_TYPE:
                continue
            if inner.wire_type == VARINT:
                elem_type, _ = varint(view, inner.begin, inner.end)
            elif inner.wire_type == BYTES and form in ("seq", "optional"):
                element = _value_type(view, inner.begin, inner.end, depth + 1)
        found = ValueType(form, elem_type, element, ranked)
    return found
