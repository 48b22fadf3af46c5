"""Integers that know how they are computed of symbols: what they tell holds for other values, too.

A `Trace` gives an `SymInt` for each symbol.  It behaves like the integer that the symbol stands for
now; arithmetic gives further extents, and whatever leaves that world is noted as a condition: the
outcome of a comparison, or, where an extent becomes a plain integer, that it has this value.  What
has been computed with extents is then a function of the symbols, which holds for all values for
which the conditions do:

    trace = Trace()
    n = trace.symbol("n", 64)
    tiles = n // 16 if n >= 32 else 1
    trace.function([tiles, 4 * n])(96)      # [6, 384]
    trace.function([tiles, 4 * n])(16)      # None: n >= 32 is a condition

Extents have no hash: sets and dictionaries could not tell that two are equal now, but not always.

Whole arrays are computed by functions, which the function of the symbols calls
(`nnefc.symbolic.traced_array`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from nnefc.symbolic.base import SymIntBase, float_bits

Number = int | float
PROBE_STRIDE: Final = 1009
"""Distance of values that tell what is equal by chance from those of now: a prime number, since
multiples of tiles are equal more often."""
Function = Callable[..., "list[Any] | None"]
"""Values of the symbols, in order, to values of extents and tables; None where a condition does not
hold."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A line of the function: an assignment to `target`, or a condition; `uses` are targets."""

    target: str
    text: str
    uses: tuple[str, ...]


class Trace:
    """What is computed of symbols, and compared, in the order in which it happens."""

    def __init__(self, *, must_vary: bool = False) -> None:
        """`must_vary`: TypeError as soon as all symbols have become plain integers."""
        self._must_vary = must_vary
        self._symbols: list[str] = []
        self._pinned: set[str] = set()
        """Symbols that are plain integers somewhere."""
        self._steps: list[_Step] = []
        self._made: dict[str, SymInt] = {}
        self.calls: dict[str, tuple[Any, ...]] = {}
        """What functions give, by their calls: see `nnefc.symbolic.traced_array`."""
        self._given: list[Any] = []
        """Functions, and what they take that does not depend on symbols."""
        self._given_names: dict[Any, str] = {}
        self._conditions: set[str] = set()
        self.is_makeshift = False
        """Whether something that is worth it was left out, since it needs plain numbers."""

    def symbol(self, value: int) -> int:
        """An extent that passes for an integer, with its value now."""
        name = f"s{len(self._symbols)}"
        self._symbols.append(name)
        elsewhere = 3 * value + len(self._symbols) * PROBE_STRIDE
        return cast(int, SymInt(self, value, name, elsewhere))

    def known(self, text: str) -> SymInt | None:
        """What an expression gives, if there has been one with this text."""
        return self._made.get(text)

    def make(self, text: str, value: Number, *uses: Any, elsewhere: Number | None = None) -> SymInt:
        """What an expression of extents gives, of which there is one for each text."""
        found = self._made.get(text)
        if found is None:
            name = f"v{len(self._made)}"
            found = self._made[text] = SymInt(self, value, name, elsewhere)
            self._steps.append(_Step(name, text, _names(uses)))
        return found

    def assign(self, text: str, *uses: Any) -> str:
        """The name of what an expression gives, of any type."""
        name = f"a{len(self._steps)}"
        self._steps.append(_Step(name, text, _names(uses)))
        return name

    def bind(self, given: Any) -> str:
        """The name of what does not depend on symbols: the same for equal ones, of equal types."""
        key: Any = (type(given), given, repr(given))  # (1, 2) is (1.0, 2), but for its text
        try:
            name = self._given_names.get(key)
        except TypeError:  # there is no telling
            key = (type(given), id(given))
            name = self._given_names.get(key)
        if name is None:
            name = self._given_names[key] = f"g{len(self._given)}"
            self._given.append(given)
        return name

    def require(self, text: str, *uses: Any) -> None:
        """Note a condition, which holds now."""
        if text not in self._conditions:
            self._conditions.add(text)
            self._steps.append(_Step("", text, _names(uses)))

    def pin(self, extent: SymInt) -> None:
        """Note that an extent has the value that it has now."""
        self.require(f"{extent.name} == {text_of(extent.value)}", extent)
        if extent.name in self._symbols:
            self._pinned.add(extent.name)
            if self._must_vary and len(self._pinned) == len(self._symbols):
                raise TypeError("all symbols are needed as plain integers")

    @property
    def conditions(self) -> list[str]:
        """The conditions, in the order in which they were noted."""
        return [step.text for step in self._steps if not step.target]

    def function(self, results: Sequence[Number | Named]) -> Function:
        """The function of the symbols that computes `results`: numbers of this trace or plain, and
        tables.
        """
        needed = {x.name for x in results if isinstance(x, Named)}
        body: list[str] = []
        for step in reversed(self._steps):
            if step.target and step.target not in needed:
                continue
            needed.update(step.uses)
            assignment = f"{step.target} = {step.text}"
            body.append(assignment if step.target else f"if not ({step.text}): return None")
        body.reverse()
        returned = ", ".join(map(text_of, results))
        lines = [f"def function({', '.join(self._symbols)}):", *body, f"return [{returned}]"]
        namespace: dict[str, Any] = {
            "inf": math.inf,
            "nan": math.nan,
            "ceil": math.ceil,
            "floor": math.floor,
            "bits": float_bits,
            **{f"g{i}": given for i, given in enumerate(self._given)},
        }
        exec("\n ".join(lines), namespace)
        return namespace["function"]


class Named:
    """What is computed of symbols, under a name in their function."""

    __slots__ = ("name", "trace", "value")

    def __init__(self, trace: Trace, value: Any, name: str) -> None:
        self.trace = trace
        self.value = value
        """What it is now."""
        self.name = name


class SymInt(Named, SymIntBase):
    """A number that is computed of symbols; see the module.  Not to be made but by a trace."""

    __slots__ = ("elsewhere",)
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    value: Number

    def __init__(
        self, trace: Trace, value: Number, name: str, elsewhere: Number | None = None
    ) -> None:
        super().__init__(trace, value, name)
        self.elsewhere = elsewhere
        """Its value at the probe values of the symbols, if known: see `statically_equal`."""

    def __repr__(self) -> str:
        return f"{self.value}:{self.name}"

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else repr(self)

    # -- out of this world

    def _pinned(self) -> Number:
        self.trace.pin(self)
        return self.value

    def __index__(self) -> int:
        return operator.index(cast(int, self._pinned()))

    def __int__(self) -> int:
        return int(self._pinned())

    def __float__(self) -> float:
        return float(self._pinned())

    def __bool__(self) -> bool:
        return bool(_compared(self, "!=", "==", operator.ne, 0))

    # -- comparisons

    def __eq__(self, other: object) -> Any:
        return _compared(self, "==", "!=", operator.eq, other)

    def __ne__(self, other: object) -> Any:
        return _compared(self, "!=", "==", operator.ne, other)

    def __lt__(self, other: Any) -> Any:
        return _compared(self, "<", ">=", operator.lt, other)

    def __le__(self, other: Any) -> Any:
        return _compared(self, "<=", ">", operator.le, other)

    def __gt__(self, other: Any) -> Any:
        return _compared(self, ">", "<=", operator.gt, other)

    def __ge__(self, other: Any) -> Any:
        return _compared(self, ">=", "<", operator.ge, other)

    # -- arithmetic

    def __add__(self, other: Any) -> Any:
        return _computed(self, "+", operator.add, other)

    def __sub__(self, other: Any) -> Any:
        return _computed(self, "-", operator.sub, other)

    def __mul__(self, other: Any) -> Any:
        return _computed(self, "*", operator.mul, other)

    def __floordiv__(self, other: Any) -> Any:
        return _computed(self, "//", lambda x, y: x // y, other)

    def __mod__(self, other: Any) -> Any:
        return _computed(self, "%", operator.mod, other)

    def __truediv__(self, other: Any) -> Any:
        return _computed(self, "/", lambda x, y: x / y, other)

    def __rlshift__(self, other: Any) -> Any:
        return _computed(other, "<<", lambda x, y: x << y, self)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Any) -> Any:
        return _computed(other, "-", operator.sub, self)

    def __rfloordiv__(self, other: Any) -> Any:
        return _computed(other, "//", lambda x, y: x // y, self)

    def __rmod__(self, other: Any) -> Any:
        return _computed(other, "%", operator.mod, self)

    def __rtruediv__(self, other: Any) -> Any:
        return _computed(other, "/", lambda x, y: x / y, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pos__(self) -> Any:
        return self

    def __neg__(self) -> Any:
        elsewhere = None if self.elsewhere is None else -self.elsewhere
        return self.trace.make(f"-{self.name}", -self.value, self, elsewhere=elsewhere)

    def __abs__(self) -> Any:
        return self._call("abs", abs)

    def __ceil__(self) -> Any:
        return self if isinstance(self.value, int) else self._call("ceil", math.ceil)

    def __floor__(self) -> Any:
        return self if isinstance(self.value, int) else self._call("floor", math.floor)

    def __trunc__(self) -> Any:
        return math.floor(cast(Any, self)) if self >= 0 else math.ceil(cast(Any, self))

    def __round__(self) -> Any:
        return self if isinstance(self.value, int) else self._call("round", round)

    def bit_length(self) -> Any:
        value = cast(int, self.value)
        return self.trace.make(f"{self.name}.bit_length()", value.bit_length(), self)

    def float_bits(self) -> Any:
        return self._call("bits", float_bits)

    def _call(self, name: str, function: Callable[[Any], Number]) -> Any:
        return self.trace.make(f"{name}({self.name})", function(self.value), self)


def _names(uses: Iterable[Any]) -> tuple[str, ...]:
    return tuple(x if isinstance(x, str) else x.name for x in uses if isinstance(x, str | Named))


def text_of(number: Any) -> str:
    """A number as it stands in the function."""
    if isinstance(number, Named):
        return number.name
    plain = float(number) if isinstance(number, float) else int(number)
    return f"({plain!r})" if plain < 0 else repr(plain)


_NUMBERS: Final = (int, float, SymInt)

_SIMPLE: Final[dict[tuple[str, Number], Callable[[Any], Any]]] = {
    ("+", 0): lambda x: x,
    ("-", 0): lambda x: x,
    ("*", 1): lambda x: x,
    ("*", 0): lambda x: 0,
    ("//", 1): lambda x: x,
    ("%", 1): lambda x: 0,
}
"""What operations with a number on the right give for any integer on the left."""


_WITH_ITSELF: Final = {"-": 0, "//": 1, "%": 0}
"""What operations give for an integer and itself, if it is not 0."""


def _computed(left: Any, sign: str, compute: Callable[[Any, Any], Number], right: Any) -> Any:
    """The result of an operation, one side of which is an extent at least."""
    if not (isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS)):
        return NotImplemented
    is_whole = isinstance(hint(left), int)
    if is_whole and isinstance(right, int) and (sign, right) in _SIMPLE:
        return _SIMPLE[sign, right](left)
    if left is right and is_whole and sign in _WITH_ITSELF and (sign == "-" or left != 0):
        return _WITH_ITSELF[sign]
    trace = left.trace if isinstance(left, SymInt) else cast(SymInt, right).trace
    text = f"{text_of(left)} {sign} {text_of(right)}"
    if (known := trace.known(text)) is not None:
        return known
    value = compute(hint(left), hint(right))
    a, b = _probe(left), _probe(right)
    try:
        elsewhere = None if a is None or b is None else compute(a, b)
    except (ArithmeticError, ValueError):
        elsewhere = None
    return trace.make(text, value, left, right, elsewhere=elsewhere)


def _probe(number: Any) -> Number | None:
    return number.elsewhere if isinstance(number, SymInt) else number


def _compared(
    left: SymInt, sign: str, opposite: str, compute: Callable[[Any, Any], Any], right: Any
) -> Any:
    """The outcome of a comparison, which becomes a condition."""
    if not isinstance(right, Number | SymInt):
        return NotImplemented
    holds = bool(compute(left.value, hint(right)))
    if left is not right:
        text = f"{left.name} {sign if holds else opposite} {text_of(right)}"
        left.trace.require(text, left, right)
    return holds


def hint(number: Any) -> Any:
    """What a number is now, without a condition: for choices that are right in any case."""
    return number.value if isinstance(number, SymInt) else number


def statically_equal(a: Any, b: Any) -> bool:
    """Whether two numbers are equal, which is a condition then; but not where they only happen to
    be so now.  For choices that are right in any case where this is false.
    """
    if hint(a) != hint(b):
        return False
    there = _probe(a), _probe(b)
    return (None in there or there[0] == there[1]) and a == b


def mark_degraded(number: Any) -> bool:
    """Whether a number depends on symbols; what needs a plain one is left out then, and noted."""
    if not isinstance(number, SymInt):
        return False
    number.trace.is_makeshift = True
    return True


def largest(numbers: Sequence[Any]) -> Any:
    """The largest of some, whichever that is: `max` would make a condition of it."""
    return _extreme("max", max, numbers)


def smallest(numbers: Sequence[Any]) -> Any:
    """The smallest of some, whichever that is."""
    return _extreme("min", min, numbers)


def _extreme(name: str, choose: Callable[[Iterable[Any]], Any], numbers: Sequence[Any]) -> Any:
    extents = {x.name: x for x in numbers if isinstance(x, SymInt)}
    plain = [x for x in numbers if not isinstance(x, SymInt)]
    several = [*extents.values(), *([choose(plain)] if plain else [])]
    if len(several) == 1 or not extents:
        return several[0]
    text = f"{name}({', '.join(map(text_of, several))})"
    trace = next(iter(extents.values())).trace
    return trace.make(text, choose(map(hint, several)), *several)


def specialized(value: Any) -> Any:
    """A value, and what is in it if it is a tuple, with plain numbers in the place of extents."""
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return tuple(specialized(item) for item in items)
    if isinstance(value, SymInt):
        return float(value) if isinstance(value.value, float) else int(value)
    return value


def is_symbolic(numbers: Iterable[Any]) -> bool:
    """Whether any of some numbers depends on symbols."""
    return any(isinstance(x, SymInt) for x in numbers)
