"""The C header of an embedded model, and the C types and names of its tensors."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from nnefc.emit.earlier_folder import WRITTEN
from nnefc.emit.names import identifiers
from nnefc.kernels.embedded.model_layout import DIMS, STATUS
from nnefc.runtime.memory.caller_arrays import TensorSpec
from nnefc.support.errors import NnefError
from nnefc.support.package import VERSION

_NAME_BYTES: Final = 128
TENSOR: Final = struct.Struct(f"<{_NAME_BYTES}siiQQ{DIMS}q")


@dataclass(frozen=True, slots=True)
class ItemType:
    """An item type: enumerator of `NAME_type`, its number, and the C type."""

    name: str
    number: int
    c: str


_TYPES: Final = {
    name: ItemType(name.upper(), number, c)
    for number, (name, c) in enumerate(
        [
            ("float32", "float"),
            ("float64", "double"),
            ("int32", "int32_t"),
            ("int64", "int64_t"),
            ("bool", "uint8_t"),
            ("float16", "uint16_t"),
            ("bfloat16", "uint16_t"),
            *(
                (name, f"{name}_t")
                for name in ["int8", "int16", "uint8", "uint16", "uint32", "uint64"]
            ),
        ]
    )
}
"""Item types by NumPy name.  C has no 16 bit floats: their bits are unsigned integers."""
_HALVES: Final = ("FLOAT16", "BFLOAT16")


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input, output or state."""

    spec: TensorSpec
    identifier: str

    @property
    def type(self) -> ItemType:
        """The item type; raises NnefError `input/dtype` if C has none."""
        known = _TYPES.get(self.spec.dtype.name)
        if known is None:
            raise NnefError.of("input/dtype", f"{self.spec}: C has no type for these items")
        return known

    @property
    def varies(self) -> bool:
        """Whether its shape depends on symbols."""
        return -1 in self.spec.shape

    @property
    def items(self) -> int:
        """The number of items, 0 if it varies."""
        return 0 if self.varies else math.prod(self.spec.shape)

    @property
    def nbytes(self) -> int:
        return self.items * self.spec.dtype.itemsize

    @property
    def label(self) -> bytes:
        """The name in a `NAME_tensor`, truncated so that a zero byte follows it."""
        return self.spec.name.encode()[: _NAME_BYTES - 1].decode(errors="ignore").encode()


@dataclass(frozen=True)
class Interface:
    """The C interface of a model: its name and its tensors."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    states: tuple[Tensor, ...]
    symbols: tuple[tuple[str, str], ...] | None = None
    """Names and identifiers of the symbols; None for a model of known shapes."""
    growing: tuple[int | None, ...] | None = None
    """The axes along which states grow; None for variables that the graph updates."""

    @classmethod
    def of(
        cls,
        name: str,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        states: Sequence[TensorSpec],
        symbols: Sequence[str] | None = None,
        growing: Sequence[int | None] | None = None,
    ) -> Interface:
        """An interface with unique identifiers; raises NnefError `input/dtype`, `input/shape`.

        `symbols`: names of the symbols of varying shapes, which have the extent -1.  `growing`: the
        axis of each state that a session keeps along which it grows.
        """
        specs = [*inputs, *outputs, *states]
        tensors = [
            Tensor(spec, text)
            for spec, text in zip(specs, identifiers([s.name for s in specs]), strict=True)
        ]
        for tensor in tensors:
            _ = tensor.type  # raises
            if len(tensor.spec.shape) > DIMS:
                raise NnefError.of(
                    "input/shape", f"{tensor.spec} has more than {DIMS} dimensions, too many for C"
                )
        first, second = len(inputs), len(inputs) + len(outputs)
        groups = tensors[:first], tensors[first:second], tensors[second:]
        fields = (
            None
            if symbols is None
            else tuple(zip(symbols, identifiers(list(symbols)), strict=True))
        )
        axes = tuple(growing) if growing else None
        return cls(name, *map(tuple, groups), symbols=fields, growing=axes)

    @property
    def has_symbols(self) -> bool:
        """Whether shapes are set by `NAME_set_shape`."""
        return self.symbols is not None

    @cached_property
    def functions(self) -> frozenset[str]:
        """Names of the functions, without the model's name and `_` in front."""
        own = {"create", "run", "threads", "destroy", "status_text"}
        of_shape = {"set_shape", "input_dims", "output_dims"} if self.has_symbols else set[str]()
        of_states = {"reset", "state"} if self.states else set[str]()
        of_session = {"state_length"} if self.growing else set[str]()
        return frozenset(own | of_shape | of_states | of_session)

    @property
    def tables(self) -> dict[str, tuple[Tensor, ...]]:
        """Arrays of `NAME_tensor`, by name."""
        return {
            f"{self.name}_input_info": self.inputs,
            f"{self.name}_output_info": self.outputs,
            f"{self.name}_state_info": self.states,
        }

    @property
    def macro(self) -> str:
        """The prefix of macros and enumerators."""
        return self.name.upper()


def header(interface: Interface, about: str, has_weights: bool) -> str:
    """The text of `NAME.h`; `about`: the target of the code."""
    name, macro = interface.name, interface.macro
    lines = [
        f"/* {name}: {about}. {WRITTEN} {VERSION}; see its docs/c.md. */",
        f"#ifndef {macro}_H",
        f"#define {macro}_H",
        "",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        *_sizes(interface),
        "/* The model with memory of its own.  Instances are independent of each other; calls of",
        "   one from several threads wait for each other. */",
        f"typedef struct {name}_model {name}_model;",
        "",
        "typedef enum {",
        *_enumerators(
            macro, ((key, number, text) for number, (key, text) in enumerate(STATUS.items()))
        ),
        f"}} {name}_status;",
        "",
        "/* One pointer for each tensor, to all of its items: row-major, aligned as their type is;",
        "   outputs must not overlap anything else. */",
        *_structure(interface, "inputs", interface.inputs, "const "),
        *_structure(interface, "outputs", interface.outputs, ""),
        *_functions(interface, has_weights),
        *_descriptions(interface),
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        f"#endif /* {macro}_H */",
    ]
    return "\n".join(lines) + "\n"


def _functions(interface: Interface, has_weights: bool) -> list[str]:
    name = interface.name
    weights = f"file {name}.weights" if has_weights else "none, pass NULL"
    return [
        "/* A new instance, or NULL after an error, which *status tells unless status is NULL.",
        f"   weights: path of the weights: {weights}.",
        "   threads: number of threads of a call, the calling one included; 0: one for each",
        "   processor that the process may run on. */",
        f"{name}_model *{name}_create(",
        f"    const char *weights, int threads, {name}_status *status);",
        "",
        "/* One inference. */",
        f"{name}_status {name}_run(",
        f"    {name}_model *net, const {name}_inputs *inputs, const {name}_outputs *outputs);",
        "",
        *_shapes(interface),
        *_states(interface),
        "/* Threads that calls use, the calling one included: 1 if there is work for one only. */",
        f"int {name}_threads(const {name}_model *net);",
        "",
        "/* Stop its threads and free its memory; NULL is allowed. */",
        f"void {name}_destroy({name}_model *net);",
        "",
        "/* The text of a status. */",
        f"const char *{name}_status_text({name}_status status);",
        "",
    ]


def _sizes(interface: Interface) -> Iterator[str]:
    macro = interface.macro
    for what, tensors in (
        ("input", interface.inputs),
        ("output", interface.outputs),
        ("state", interface.states),
    ):
        yield f"#define {macro}_{what.upper()}_COUNT {len(tensors)}"
        for tensor in tensors:
            spec, prefix = tensor.spec, f"{macro}_{tensor.identifier.upper()}"
            shape = ", ".join(str(n) if n >= 0 else "?" for n in spec.shape)
            yield f"/* {what} {_comment(spec.name)}: {spec.dtype.name} [{shape}] */"
            yield f"#define {prefix}_RANK {len(spec.shape)}"
            if tensor.varies:
                continue
            if spec.shape:
                yield f"#define {prefix}_DIMS {{{shape}}}"
            yield f"#define {prefix}_ITEMS {tensor.items}"
            yield f"#define {prefix}_BYTES {tensor.nbytes}"
        yield ""


def _enumerators(macro: str, rows: Iterator[tuple[str, int, str]]) -> Iterator[str]:
    listed = list(rows)
    for key, number, text in listed:
        comma = "," if number != listed[-1][1] else ""
        yield f"    {macro}_{key} = {number}{comma} /* {text} */"


def _structure(interface: Interface, what: str, tensors: Sequence[Tensor], const: str) -> list[str]:
    fields = [f"    {const}{tensor.type.c} *{tensor.identifier};" for tensor in tensors]
    return [
        "typedef struct {",
        *(fields or ["    const void *none;"]),
        f"}} {interface.name}_{what};",
        "",
    ]


def _shapes(interface: Interface) -> list[str]:
    name = interface.name
    if interface.symbols is None:
        return []
    fields = [f"    int64_t {field}; /* {_comment(text)} */" for text, field in interface.symbols]
    return [
        "/* Values of the symbols in shapes. */",
        "typedef struct {",
        *(fields or ["    int64_t none;"]),
        f"}} {name}_shape;",
        "",
        "/* Set the shapes of following calls, before the first one and whenever they change; it",
        "   may allocate memory.  If no plan holds for these values, the former ones stay. */"
        if fields
        else "   may allocate memory.  Without symbols there is no need to call it. */",
        f"{name}_status {name}_set_shape({name}_model *net, const {name}_shape *shape);",
        "",
        f"/* The present extents of {name}_input_info[index], as many as its rank; NULL before a",
        "   shape is set, or if there is no such input. */",
        f"const int64_t *{name}_input_dims(const {name}_model *net, int index);",
        f"const int64_t *{name}_output_dims(const {name}_model *net, int index);",
        "",
    ]


def _states(interface: Interface) -> list[str]:
    name = interface.name
    if not interface.states:
        return []
    if interface.growing:
        return _session_states(interface)
    return [
        "/* Reset the variables that the graph updates to their initial values. */",
        f"void {name}_reset({name}_model *net);",
        "",
        f"/* The current value of variable {name}_state_info[index], or NULL if there is none.  It",
        "   may be read and changed while no call runs. */",
        f"void *{name}_state({name}_model *net, int index);",
        "",
    ]


def _session_states(interface: Interface) -> list[str]:
    name = interface.name
    return [
        "/* Discard the states, as before the first call. */",
        f"void {name}_reset({name}_model *net);",
        "",
        f"/* The memory of state {name}_state_info[index], or NULL if there is none.  A state that",
        "   grows has its capacity as extent there; its first items along that axis are valid. */",
        f"void *{name}_state({name}_model *net, int index);",
        "",
        "/* The number of items of a state that grows; -1 for others. */",
        f"int64_t {name}_state_length(const {name}_model *net, int index);",
        "",
    ]


def _descriptions(interface: Interface) -> list[str]:
    name, macro = interface.name, interface.macro
    rows = ((kind.name, kind.number, _held_in(kind)) for kind in _TYPES.values())
    tables = [
        f"extern const {name}_tensor {table}[{len(tensors)}];"
        for table, tensors in interface.tables.items()
        if tensors
    ]
    return [
        "/* The same facts as data. */",
        "typedef enum {",
        *_enumerators(macro, rows),
        f"}} {name}_type;",
        "",
        "typedef struct {",
        f"    char name[{_NAME_BYTES}];",
        f"    int32_t type; /* a {name}_type */",
        "    int32_t rank;",
        "    uint64_t items;",
        "    uint64_t bytes;",
        f"    int64_t dims[{DIMS}]; /* the first `rank` of them; -1: it varies, and so do items */",
        f"}} {name}_tensor;",
        "",
        *tables,
        "",
    ]


def _held_in(kind: ItemType) -> str:
    """The C type of an item, in words."""
    return f"{kind.c}, its bits" if kind.name in _HALVES else kind.c


def _comment(text: str) -> str:
    """`text` as ASCII that cannot end a C comment."""
    return text.replace("*/", "* /").replace("/*", "/ *").encode("ascii", "replace").decode()
