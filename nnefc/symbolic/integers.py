"""Symbolic integers, as PyTorch's `SymInt` and JAX's shape polymorphism have them.

A `Trace` gives a `SymInt` for each symbol.  It behaves like the integer that the symbol stands for
during the trace, its hint.  Arithmetic gives further symbolic numbers.  Where Python needs a plain
value, the trace records a *guard*: the outcome of a comparison, or, where a SymInt becomes a plain
integer, that it has this value (*specialization*).  The results of a trace are a function of the
symbols, which holds for all values that satisfy the guards:

    trace = Trace()
    n = trace.symbol(64)
    tiles = n // 16 if n >= 32 else 1
    function = trace.function([tiles, 4 * n])
    function(96)      # [6, 384]
    function(16)      # None: n >= 32 is a guard

SymInts have no hash: a lookup compares hashes, which no guard could record.

Functions compute whole arrays from symbols: see `nnefc.symbolic.traced_array`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, NoReturn, cast

from nnefc.symbolic.counted_extent import CountedExtent
from nnefc.symbolic.straight_line import text
from nnefc.symbolic.sym_int_base import Dim, SymIntBase, Untraceable, float_bits
from nnefc.symbolic.trace_recording import Named, Number, Recording, operand

PROBE_STRIDE: Final = 1009
"""Distance between a symbol's hint and its probe, a second sample value.

The probes expose coincidental equality: see `statically_equal`.  A prime, since probes that are
multiples of tile sizes would be equal more often.
"""


class Trace(Recording):
    """Records the arithmetic and the comparisons of SymInts in the order of their execution."""

    def __init__(self, *, must_vary: bool = False, computes_limits: bool = False) -> None:
        """`must_vary`: raise Untraceable as soon as all symbols are specialized.

        `computes_limits`: `at_least` and `at_most` record no guards, but what they compute.
        """
        super().__init__()
        self._must_vary = must_vary
        self.computes_limits = computes_limits
        self._specialized: set[str] = set()
        """Symbols with a guard that fixes their value."""
        self._expressions: dict[str, SymInt] = {}
        self.calls: dict[str, tuple[Any, ...]] = {}
        """Results of functions by their calls: see `nnefc.symbolic.traced_array`."""
        self.is_degraded = False
        """Whether an optimization was left out because it needs plain integers."""

    def symbol(self, value: int) -> Dim:
        """A new symbol; `value` is its hint."""
        name = f"s{len(self.symbols)}"
        self.symbols.append(name)
        probe = 3 * value + len(self.symbols) * PROBE_STRIDE
        return cast(Dim, SymInt(self, value, name, probe))

    def lookup(self, op: str, *operands: Any) -> SymInt | None:
        """The SymInt of an operation, if an equal one was recorded."""
        return self._expressions.get(text(op, tuple(map(operand, operands))))

    def make(self, value: Number, op: str, *operands: Any, probe: Number | None = None) -> SymInt:
        """The SymInt of an operation, which is `value` for the hints; one for equal operations."""
        expression = text(op, tuple(map(operand, operands)))
        number = self._expressions.get(expression)
        if number is None:
            name = f"v{len(self._expressions)}"
            number = self._expressions[expression] = SymInt(self, value, name, probe)
            self.assign(op, *operands, name=name)
        return number

    def specialize(self, number: SymInt) -> None:
        """Guard that a SymInt equals its hint."""
        self.guard("==", number, number.value)
        if number.name in self.symbols:
            self._specialized.add(number.name)
            if self._must_vary and len(self._specialized) == len(self.symbols):
                raise Untraceable("all symbols are needed as plain integers")


class SymInt(Named, SymIntBase):
    """A number that is computed from symbols, an integer or, after a division, a float.

    Only a trace makes one.  Operators that are not implemented raise Untraceable.
    """

    __slots__ = ("probe", "trace")

    value: Number

    def __init__(self, trace: Trace, value: Number, name: str, probe: Number | None = None) -> None:
        super().__init__(value, name)
        self.trace = trace
        self.probe = probe
        """Its value for the probes of the symbols, None if unknown: see `statically_equal`."""

    def __repr__(self) -> str:
        return f"{self.value}:{self.name}"

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else repr(self)

    def _unsupported(self, *_: Any) -> NoReturn:
        raise Untraceable(f"an operation needs the value of {self!r}")

    __hash__ = _unsupported

    # -- specialization

    def _plain(self) -> Number:
        self.trace.specialize(self)
        return self.value

    def __index__(self) -> int:
        return operator.index(cast(int, self._plain()))

    def __int__(self) -> int:
        return int(self._plain())

    def __float__(self) -> float:
        return float(self._plain())

    def __bool__(self) -> bool:
        return bool(_compared(self, "!=", "==", operator.ne, 0))

    # -- comparisons, which are guards

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
    __lshift__ = __rshift__ = __rrshift__ = __pow__ = __rpow__ = _unsupported
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = _unsupported

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
        probe = None if self.probe is None else -self.probe
        return self.trace.make(-self.value, "neg", self, probe=probe)

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
        return self._call("bit_length", lambda value: value.bit_length())

    def float_bits(self) -> Any:
        return self._call("bits", float_bits)

    def _call(self, name: str, function: Callable[[Any], Number]) -> Any:
        return self.trace.make(function(self.value), name, self)


_NUMBERS: Final = (int, float, SymInt)

_IDENTITIES: Final[dict[tuple[str, Number], Callable[[Any], Any]]] = {
    ("+", 0): lambda x: x,
    ("-", 0): lambda x: x,
    ("*", 1): lambda x: x,
    ("*", 0): lambda x: 0,
    ("//", 1): lambda x: x,
    ("%", 1): lambda x: 0,
}
"""Simplifications of `x op number` for any integer x."""


_WITH_ITSELF: Final = {"-": 0, "//": 1, "%": 0}
"""Simplifications of `x op x` for an integer x that is not 0."""


def _computed(left: Any, sign: str, compute: Callable[[Any, Any], Number], right: Any) -> Any:
    """The result of a binary operation with a SymInt on at least one side."""
    if not (isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS)):
        return NotImplemented
    if isinstance(left, CountedExtent) or isinstance(right, CountedExtent):
        return NotImplemented  # it is the one that computes
    is_whole = isinstance(hint(left), int)
    if is_whole and isinstance(right, int) and (sign, right) in _IDENTITIES:
        return _IDENTITIES[sign, right](left)
    if left is right and is_whole and sign in _WITH_ITSELF and (sign == "-" or left != 0):
        return _WITH_ITSELF[sign]
    trace = left.trace if isinstance(left, SymInt) else cast(SymInt, right).trace
    if (known := trace.lookup(sign, left, right)) is not None:
        return known
    value = compute(hint(left), hint(right))
    a, b = _probe(left), _probe(right)
    try:
        probe = None if a is None or b is None else compute(a, b)
    except (ArithmeticError, ValueError):
        probe = None
    return trace.make(value, sign, left, right, probe=probe)


def _probe(number: Any) -> Number | None:
    return number.probe if isinstance(number, SymInt) else number


def _compared(
    left: SymInt, sign: str, opposite: str, compute: Callable[[Any, Any], Any], right: Any
) -> Any:
    """The outcome of a comparison, which becomes a guard."""
    if not isinstance(right, Number | SymInt):
        return NotImplemented
    holds = bool(compute(left.value, hint(right)))
    if left is not right:
        left.trace.guard(sign if holds else opposite, left, right)
    return holds


def hint(number: Any) -> Any:
    """The value of a number during the trace, without a guard.

    For heuristics, whose result is correct for any value.
    """
    return number.value if isinstance(number, SymInt) else number


def statically_equal(a: Any, b: Any) -> bool:
    """Whether two numbers are equal by construction, not only for the hints; guarded if so.

    False where the probes differ, without a guard.  For choices that are correct where this is
    false, whether the numbers are equal or not.
    """
    if hint(a) != hint(b):
        return False
    probes = _probe(a), _probe(b)
    return (None in probes or probes[0] == probes[1]) and a == b


def mark_degraded(numbers: Iterable[Any]) -> None:
    """Record in the traces of symbolic numbers that an optimization was left out.

    It needs plain integers.
    """
    for number in numbers:
        if isinstance(number, SymInt):
            number.trace.is_degraded = True


def largest(numbers: Sequence[Dim]) -> Dim:
    """The maximum, without the guards of `max`."""
    return _extreme("max", max, numbers)


def smallest(numbers: Sequence[Dim]) -> Dim:
    """The minimum, without the guards of `min`."""
    return _extreme("min", min, numbers)


def at_least(number: Dim, low: Dim) -> Dim:
    """The maximum, as operators limit a bound to an extent; see `_limited`."""
    return _limited(max, largest, number, low)


def at_most(number: Dim, high: Dim) -> Dim:
    """The minimum, as operators limit a bound to an extent; see `_limited`."""
    return _limited(min, smallest, number, high)


def _limited(
    guarded: Callable[[Any, Any], Any],
    computed: Callable[[Sequence[Any]], Any],
    number: Any,
    limit: Any,
) -> Any:
    """An extreme of two numbers: with a guard, or computed if the trace `computes_limits`."""
    trace = next((x.trace for x in (number, limit) if isinstance(x, SymInt)), None)
    if trace is None:
        return guarded(number, limit)
    if trace.computes_limits:
        return computed((number, limit))
    with trace.limiting():
        return guarded(number, limit)


def _extreme(name: str, choose: Callable[[Iterable[Any]], Any], numbers: Sequence[Any]) -> Any:
    symbolic = {x.name: x for x in numbers if isinstance(x, SymInt)}
    plain = [x for x in numbers if not isinstance(x, SymInt)]
    several = [*symbolic.values(), *([choose(plain)] if plain else [])]
    if len(several) == 1 or not symbolic:
        return several[0]
    trace = next(iter(symbolic.values())).trace
    probe = None
    if trace.computes_limits:  # otherwise `statically_equal` decides by a guard
        probes = [_probe(x) for x in several]
        probe = None if None in probes else choose(probes)
    return trace.make(choose(map(hint, several)), name, *several, probe=probe)


def ceil_div(count: Dim, size: Dim) -> Dim:
    """`count / size`, rounded up."""
    return -(-count // size)


def specialized(value: Any) -> Any:
    """A number, or a tuple of such values, with its SymInts specialized to plain numbers."""
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return tuple(specialized(item) for item in items)
    if isinstance(value, SymInt):
        return float(value) if isinstance(value.value, float) else int(value)
    return value


def deciding(numbers: Iterable[Any]) -> AbstractContextManager[None]:
    """Guards in the block are decisions of the model: see `Recording.deciding`."""
    trace = next((x.trace for x in numbers if isinstance(x, SymInt)), None)
    return nullcontext() if trace is None else trace.deciding()


def is_symbolic(numbers: Iterable[Any]) -> bool:
    """Whether any of some numbers is a SymInt."""
    return any(isinstance(x, SymInt) for x in numbers)
