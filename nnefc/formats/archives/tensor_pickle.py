"""Dictionaries of tensors as `torch.save` writes them, read without `pickle`.

    archive/data.pkl     a program of a stack machine that builds the dictionary
    archive/data/0 ...   the items of storages

The opcodes that such a program needs are interpreted here.  Nothing is imported or called: a
global is a name, and a call of one of `_CALLS` is data.  Everything else is an error.

Source: Lib/pickletools.py of CPython, torch/serialization.py and torch/_utils.py of PyTorch.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from nnefc.formats.archives.torch_tensor import TensorRecord

_MOST_VALUES: Final = 10_000_000
"""Values that a program may push."""


class PickleError(Exception):
    """The text is no dictionary of tensors."""


class _Global(NamedTuple):
    name: str


class _Storage(NamedTuple):
    dtype: str
    key: str


_STORAGES: Final = {
    f"torch {name}Storage": dtype
    for name, dtype in (
        *(("Byte", "uint8"), ("Char", "int8"), ("Short", "int16"), ("Int", "int32")),
        *(("Long", "int64"), ("Half", "float16"), ("Float", "float32"), ("Double", "float64")),
        *(("Bool", "bool"), ("BFloat16", "bfloat16"), ("ComplexFloat", "complex64")),
        *(("ComplexDouble", "complex128"), ("ComplexHalf", "complex32")),
    )
}


def tensors_in(program: bytes, folder: str) -> dict[str, TensorRecord]:
    """The tensors of a dictionary by key; `folder` is the path of the storages.

    Raises PickleError.
    """
    try:
        found = _Machine(folder).run(program)
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, UnicodeError) as error:
        raise PickleError(str(error)) from None
    if not isinstance(found, dict):
        raise PickleError("it is no dictionary")
    tensors: dict[str, TensorRecord] = {}
    for key, value in found.items():  # pyright: ignore[reportUnknownVariableType]
        if isinstance(key, str) and isinstance(value, TensorRecord):
            tensors[key] = value
    return tensors


class _Machine:
    """The stack machine of the format."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._calls: dict[str, Callable[[tuple[Any, ...]], Any]] = {
            "collections OrderedDict": lambda _: {},
            "torch._utils _rebuild_tensor_v2": self._tensor,
            "torch._utils _rebuild_parameter": lambda arguments: arguments[0],
        }

    def run(self, program: bytes) -> Any:
        """The value that a program builds."""
        for count, (opcode, argument, _) in enumerate(pickletools.genops(program)):
            if count > _MOST_VALUES:
                raise PickleError("it has too many values")
            if opcode.name == "STOP":
                return self._stack[-1]
            self._step(opcode.name, argument)
        raise PickleError("it has no end")

    def _step(self, name: str, argument: Any) -> None:
        stack = self._stack
        match name:
            case "PROTO" | "FRAME":
                pass
            case "MARK":
                self._marks.append(len(stack))
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[name])
            case "BININT" | "BININT1" | "BININT2" | "LONG1" | "BINFLOAT":
                stack.append(argument)
            case "BINUNICODE" | "SHORT_BINUNICODE" | "BINUNICODE8":
                stack.append(argument)
            case "GLOBAL":
                stack.append(_Global(str(argument)))
            case "STACK_GLOBAL":
                last, first = stack.pop(), stack.pop()
                stack.append(_Global(f"{_text(first)} {_text(last)}"))
            case "BINPUT" | "LONG_BINPUT":
                self._memo[argument] = stack[-1]
            case "MEMOIZE":
                self._memo[len(self._memo)] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(self._memo[argument])
            case _:
                self._compose(name)

    def _compose(self, name: str) -> None:
        """A step that takes values from the stack."""
        stack = self._stack
        match name:
            case "EMPTY_DICT":
                stack.append({})
            case "EMPTY_TUPLE":
                stack.append(())
            case "TUPLE":
                stack.append(tuple(self._above_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                count = int(name[-1])
                items = tuple(stack[-count:])
                del stack[-count:]
                stack.append(items)
            case "SETITEM":
                value, key = stack.pop(), stack.pop()
                stack[-1][_text(key)] = value
            case "SETITEMS":
                items = self._above_mark()
                stack[-1].update(zip(map(_text, items[::2]), items[1::2], strict=True))
            case "BINPERSID":
                stack.append(_storage(stack.pop()))
            case "REDUCE":
                arguments, function = stack.pop(), stack.pop()
                stack.append(self._calls[function.name](arguments))
            case "BUILD":
                stack.pop()  # attributes of a dictionary, such as `_metadata`
            case "POP":
                stack.pop()
            case _:
                raise PickleError(f"it has the opcode {name}")

    def _above_mark(self) -> list[Any]:
        at = self._marks.pop()
        items = self._stack[at:]
        del self._stack[at:]
        return items

    def _tensor(self, arguments: tuple[Any, ...]) -> TensorRecord:
        storage, offset, extents, strides = arguments[:4]
        if not isinstance(storage, _Storage):
            raise PickleError("a tensor has no storage")
        numbers = (offset, *extents, *strides)
        if not all(type(each) is int for each in numbers):
            raise PickleError("the extents of a tensor are no integers")
        path = f"{self._folder}/{storage.key}"
        return TensorRecord(path, storage.dtype, tuple(extents), tuple(strides), offset)


def _text(value: Any) -> str:
    """A key or a name; the hash and the text of another value may take without end."""
    if not isinstance(value, str):
        raise PickleError("a key is no text")
    return value


def _storage(identity: Any) -> _Storage:
    kind, type_, key, *_ = identity
    if not isinstance(kind, str) or kind != "storage" or not isinstance(key, str):
        raise PickleError("a storage has no name")
    return _Storage(_STORAGES.get(type_.name, str(type_.name)), key)
