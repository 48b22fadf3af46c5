"""Straight-line programs as steps for embedded models (`kernels.embedded.shapes`).

A step has two registers of one type.  Registers are numbered: the symbols, then constant numbers,
then results of steps.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from nnefc.kernels.embedded.model_layout import OPERATIONS, STEP
from nnefc.support.errors import NnefError
from nnefc.support.wording import wording
from nnefc.symbolic.linear_shapes import Terms
from nnefc.symbolic.straight_line import COMPARISONS, EXTREMES, Operand, StraightLine

if TYPE_CHECKING:
    from nnefc.runtime.artifact.build_dynamic import PatternBuild

_INTEGER: Final = {
    **{"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod", "<<": "lshift"},
    **{"max": "max", "min": "min", "neg": "neg", "abs": "abs", "bit_length": "bit_length"},
    **{"==": "eq", "!=": "ne", "<": "lt", "<=": "le"},
}
_FLOAT: Final = {
    **{"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv", "max": "fmax", "min": "fmin"},
    **{"neg": "fneg", "abs": "fabs", "ceil": "fceil", "floor": "ffloor"},
    **{"==": "feq", "!=": "fne", "<": "flt", "<=": "fle"},
}
_SWAPPED: Final = {">": "<", ">=": "<="}
_ROUNDED: Final = ("ceil", "floor")
_LIMIT: Final = 1 << 63

Register = tuple[str, int]
"""(`number`, `symbol` or `result`; its index among these)."""


class ShapeCode:
    """The registers and steps of one pattern under construction."""

    def __init__(self, parameters: int, names: Mapping[str, int]) -> None:
        """`parameters`: their number; `names`: the numbers of those that programs name."""
        self._symbols = parameters
        self._known: dict[str, Register] = {name: ("symbol", i) for name, i in names.items()}
        self._floats: set[Register] = set()
        self._numbers: dict[tuple[type, float], Register] = {}
        self._words: list[int] = []
        self._results = 0
        self._steps: list[tuple[int, Register, Register, Register]] = []

    def add(self, program: StraightLine) -> list[Register]:
        """Add the steps of a program; returns the registers of its results.

        Raises NnefError `artifact/c-shape` for an operation that has no step.
        """
        for target, op, operands in program.steps:
            self._add(target, op, operands)
        return [self._register(each) for each in program.results]

    def require(self, sign: str, left: Terms, right: Terms) -> None:
        """Add a guard that two sums of symbols, by their indices as names `s0`, compare so."""
        self._guard(sign, self._sum(left), self._sum(right))

    def require_equal(self, parameter: int, value: int | None = None, other: int = 0) -> None:
        """Add a guard that a parameter has a value, or without one that of `other` parameter."""
        right = ("symbol", other) if value is None else self.number(value)
        self._guard("==", ("symbol", parameter), right)

    def number(self, value: float) -> Register:
        """The register of a constant number."""
        key = (type(value), value)
        if key not in self._numbers:
            if isinstance(value, int) and not -_LIMIT <= value < _LIMIT:
                value = _LIMIT - 1 if value > 0 else -_LIMIT  # no extent reaches it
            kind = "<q" if isinstance(value, int) else "<d"
            (word,) = struct.unpack("<q", struct.pack(kind, value))
            register = self._numbers[key] = "number", len(self._words)
            self._words.append(word)
            if isinstance(value, float):
                self._floats.add(register)
        return self._numbers[key]

    # -- data

    @property
    def numbers(self) -> list[int]:
        """The words of the constant numbers."""
        return self._words

    @property
    def count(self) -> int:
        """The number of registers."""
        return self._symbols + len(self._words) + self._results

    @property
    def step_count(self) -> int:
        """The number of steps."""
        return len(self._steps)

    def index(self, register: Register) -> int:
        """The index of a register; final after the last addition."""
        kind, number = register
        starts = {"symbol": 0, "number": self._symbols}
        return starts.get(kind, self._symbols + len(self._words)) + number

    def steps(self) -> list[int]:
        """The words of the steps."""
        words: list[int] = []
        for op, *registers in self._steps:
            target, left, right = map(self.index, registers)
            words += STEP.pack(op=op, target=target, left=left, right=right)  # pyright: ignore[reportArgumentType]
        return words

    # -- steps

    def _add(self, target: str, op: str, operands: Sequence[Operand]) -> None:
        if op in ("call", "item", "len"):
            raise unwritable("a table that depends on the shape")
        registers = [self._register(each) for each in operands]
        if op in COMPARISONS:
            self._guard(op, *registers)
            return
        floats = [each in self._floats for each in registers]
        is_float = op == "/" or any(floats)
        if op in EXTREMES and is_float and not all(floats):
            raise unwritable(f"the operation {op!r} on integers and real numbers")
        if op == "bits":
            word = self._as_float(registers[0])
            self._known[target] = self._step("max", word, word)  # the same word, as an integer
            return
        if op in ("round", *_ROUNDED) and not is_float:
            self._known[target] = registers[0]
            return
        names = _FLOAT if is_float else _INTEGER
        if op not in names:
            raise unwritable(f"the operation {op!r} on real numbers")
        if is_float:
            registers = [self._as_float(each) for each in registers]
        result, *rest = registers
        for other in rest if op in EXTREMES else rest[:1] or [result]:
            result = self._step(names[op], result, other)
            if is_float and op not in _ROUNDED:
                self._floats.add(result)
        self._known[target] = result

    def _guard(self, op: str, left: Register, right: Register) -> None:
        if op in _SWAPPED:
            op, left, right = _SWAPPED[op], right, left
        if left in self._floats or right in self._floats:
            left, right = self._as_float(left), self._as_float(right)
            self._step(_FLOAT[op], left, right)
        else:
            self._step(_INTEGER[op], left, right)

    def _step(self, name: str, left: Register, right: Register) -> Register:
        result = "result", self._results
        self._results += 1
        self._steps.append((OPERATIONS.index(name), result, left, right))
        return result

    def _as_float(self, register: Register) -> Register:
        if register in self._floats:
            return register
        result = self._step("to_float", register, register)
        self._floats.add(result)
        return result

    def _register(self, value: Operand) -> Register:
        if isinstance(value, str):
            return self._known[value]
        if isinstance(value, tuple):
            raise unwritable("a table that depends on the shape")
        return self.number(int(value) if isinstance(value, bool) else value)

    def _sum(self, terms: Terms) -> Register:
        constant, factors = terms
        total = self.number(constant)
        for name, factor in factors:
            product = self._step("mul", self._known[name], self.number(factor))
            total = self._step("add", total, product)
        return total


def is_writable(pattern: PatternBuild) -> bool:
    """Whether the numbers of a plan can be computed in C."""
    template, program = pattern.template, pattern.template.program
    if template.bases or template.launches.repeated:
        return False
    names = {name: i for i, name in enumerate(program.symbols)}
    try:
        ShapeCode(len(names), names).add(program)
    except NnefError:
        return False
    return True


def symbol_indices(terms: Terms, symbols: Sequence[str], known: Mapping[str, int]) -> Terms:
    """A sum with the names `s0, s1, ...` of symbols; those with `known` values are constant."""
    constant, factors = terms
    constant += sum(factor * known[name] for name, factor in factors if name in known)
    free = [(name, factor) for name, factor in factors if name not in known]
    return constant, tuple((f"s{symbols.index(name)}", factor) for name, factor in free)


def unwritable(what: str) -> NnefError:
    """The error for a model whose plans depend on something that C code cannot compute."""
    return NnefError.of(
        "artifact/c-shape",
        f"{wording('emit_c', '--emit c')}: the plan depends on {what}, which is not computed in C",
        hint="write the model for one shape: "
        + wording("model.for_shapes({...}).emit_c(folder)", "--shape or --symbol, no --dynamic"),
    )
