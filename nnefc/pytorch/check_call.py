"""Why a compiled module cannot take the tensors of a call, in the words of PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from nnefc.frontends.torch.program import Input, InputKind, Program
from nnefc.frontends.torch.signature import user_inputs
from nnefc.pytorch.check_tensors import fault_of
from nnefc.pytorch.read_fx import type_name
from nnefc.support.errors import Diagnostic, NnefError

if TYPE_CHECKING:
    import torch

    from nnefc.pytorch.call_arguments import Leaf

_DYNAMIC: Final = "dynamic_shapes of nnefc.pytorch.compile says which extents may change"


def check_call(program: Program, leaves: Sequence[Leaf], flat: Sequence[Any]) -> None:
    """Raise NnefError with the arguments that do not fit the inputs of a program, if any.

    Other errors of a call are those of the model.
    """
    inputs = {each.label: each for each in user_inputs(program)}
    extents = _Extents(program)
    problems: list[Diagnostic] = []
    for leaf, given in zip(leaves, flat, strict=True):
        if leaf.label is None:
            continue
        wanted = inputs[leaf.label]
        if (problem := _of_type(leaf.name, wanted, given)) is not None:
            problems.append(problem)
        elif wanted.kind is InputKind.USER:
            problems += extents.problems(leaf.name, wanted, given)
    if problems:
        raise NnefError(problems)


def _of_type(name: str, wanted: Input, given: Any) -> Diagnostic | None:
    """The error of a value that is no tensor, or whose items are of another type."""
    import torch

    what = f"argument '{name}' is"
    if wanted.kind is InputKind.VALUE:
        if isinstance(given, int):
            return None
        message = f"{what} of type {type(given).__name__}, expected an integer"
        return Diagnostic("input/argument", message)
    if not isinstance(given, torch.Tensor):
        message = f"{what} of type {type(given).__name__}, expected a tensor"
        return Diagnostic("input/argument", message, hint="torch.as_tensor(x) makes one")
    if reason := fault_of(given, within=False):
        return Diagnostic("torch/unsupported", f"{what} {reason}")
    if type_name(given.dtype) != wanted.dtype:
        message = f"{what} of the type {type_name(given.dtype)}, expected {wanted.dtype}"
        return Diagnostic("input/dtype", message, hint=f"convert it: x.to(torch.{wanted.dtype})")
    return None


class _Extents:
    """Compares the shapes of a call with those of a program."""

    def __init__(self, program: Program) -> None:
        self._ranges = program.ranges
        self._known: dict[str, tuple[int, str]] = {}
        """The values of symbols, and where they are from."""

    def problems(self, name: str, wanted: Input, given: torch.Tensor) -> Iterator[Diagnostic]:
        """The errors of a tensor's shape."""
        shape, extents = tuple(given.shape), wanted.extents
        text = f"[{', '.join(extents)}]"
        if len(shape) != len(extents):
            message = f"argument '{name}' has the shape {[*shape]}, expected {text}"
            yield Diagnostic("input/shape", message)
            return
        for axis, (extent, allowed) in enumerate(zip(shape, extents, strict=True)):
            where = f"axis {axis} of argument '{name}'"
            if allowed.isdecimal():
                if extent != int(allowed):
                    message = f"{where} is {extent}, expected {allowed}: the shape is {text}"
                    yield Diagnostic("input/shape", message, hint=_DYNAMIC)
            elif allowed.isidentifier():
                yield from self._of_symbol(allowed, extent, where)

    def _of_symbol(self, symbol: str, extent: int, where: str) -> Iterator[Diagnostic]:
        """The errors of an extent that is a symbol."""
        value, first = self._known.setdefault(symbol, (extent, where))
        if value != extent:
            message = f"{where} is {extent}, but {symbol} is {value} at {first}"
            yield Diagnostic("input/shape", message)
        elif (limits := self._ranges.get(symbol)) is not None:
            if limits.most is not None and extent > limits.most:
                message = f"{where} is {extent}, but {symbol} is at most {limits.most}"
                yield Diagnostic("input/shape", message)
            elif extent < limits.least and limits.least > 1:
                message = f"{where} is {extent}, but {symbol} is at least {limits.least}"
                yield Diagnostic("input/shape", message)
