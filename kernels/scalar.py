"""What every element-wise operation does to one item: source text and the functions it names.

Kernels are generated as Python source.  `source` gives the expression of one step; simple
operations are spelled out, elementary functions are those of `nnefc.kernels.elementary` on
float32 and of the C library on float64.  The C library is called through a table of
addresses, so that a kernel has no undefined symbol.

Integers wrap around.  Operands have the type of the result, but for comparisons, `select`
(first operand bool) and `cast`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_UNARY = "exp log log2 sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh log1p"
LIBM: Final[tuple[tuple[str, int], ...]] = (*((name, 1) for name in _UNARY.split()), ("pow", 2))
"""Functions of the C library, over double, in the order of the table; with their arity."""

Number = bool | int | float

StepKey = tuple[str, tuple[int, ...], str, Number | None]
"""(operation, operands, type of the result, literal value), see `nnefc.ir.expression.Step`."""


@dataclass(frozen=True, slots=True)
class Expression:
    """What a kernel computes for each item: an `nnefc.ir.Expression` in plain, hashable words.

    Operand i < len(inputs) is an input, operand len(inputs) + j the result of step j.
    """

    inputs: tuple[str, ...]
    """Types."""
    steps: tuple[StepKey, ...]
    results: tuple[int, ...]
    """Operands that are the outputs."""

    @property
    def types(self) -> tuple[str, ...]:
        """Of all operands."""
        return (*self.inputs, *(dtype for _, _, dtype, _ in self.steps))

    @property
    def calls_library(self) -> bool:
        """Whether it needs the table of the C library."""
        return any(dtype == "float64" and op in ELEMENTARY for op, _, dtype, _ in self.steps)


_ANY = ("float32", "float64", "int32", "int64", "bool")
_NUMBERS = _ANY[:-1]
_FLOATS = _ANY[:2]

_SIMPLE: dict[str, tuple[str, tuple[str, ...]]] = {
    "copy": ("{0}", _ANY),
    "neg": ("-{0}", _NUMBERS),
    "abs": ("select({0} < {zero}, -{0}, {0})", ("int32", "int64")),  # fabs for the others
    "sign": ("select({0} > {zero}, {one}, select({0} < {zero}, -{one}, {0}))", _NUMBERS),
    "add": ("{0} + {1}", _NUMBERS),
    "sub": ("{0} - {1}", _NUMBERS),
    "mul": ("{0} * {1}", _NUMBERS),
    "div": ("{0} / {1}", _FLOATS),
    "min": ("select({0} != {0}, {0}, select({0} < {1}, {0}, {1}))", _NUMBERS),
    "max": ("select({0} != {0}, {0}, select({0} > {1}, {0}, {1}))", _NUMBERS),
    "relu": ("select({0} <= {zero}, {zero}, {0})", _NUMBERS),
    "rcp": ("{one} / {0}", _FLOATS),
    "sqr": ("{0} * {0}", _NUMBERS),
    "sqrt": ("sqrt({0})", _FLOATS),
    "rsqrt": ("{one} / sqrt({0})", _FLOATS),
    # 1 / (x * x) would underflow where the result is still a number.
    "rsqr": ("({one} / {0}) * ({one} / {0})", _FLOATS),
    "floor": ("floor({0})", _FLOATS),
    "ceil": ("ceil({0})", _FLOATS),
    # floor(x + 1/2) without the rounding of the sum
    "round": ("select({0} - floor({0}) >= {half}, floor({0}) + {one}, floor({0}))", _FLOATS),
    "not": ("not {0}", ("bool",)),
    "and": ("{0} & {1}", ("bool",)),
    "or": ("{0} | {1}", ("bool",)),
    "select": ("select({0}, {1}, {2})", _ANY),
}
"""Operation -> source, types of the result; `min`, `max`, `relu` of a NaN are NaN."""

_COMPARISONS = {"lt": "<", "gt": ">", "le": "<=", "ge": ">=", "eq": "==", "ne": "!="}
ELEMENTARY = frozenset(_UNARY.split()) - {"log1p"} | {"pow", "sigmoid", "softplus"}


def operations() -> dict[str, tuple[str, ...]]:
    """Every operation with the types its result may have (of the operands, for comparisons)."""
    table = {name: types for name, (_, types) in _SIMPLE.items()}
    table |= dict.fromkeys(_COMPARISONS, _ANY)
    table |= dict.fromkeys(ELEMENTARY, _FLOATS)
    table |= {"abs": _NUMBERS, "cast": _ANY}
    return table


class Scope:
    """Names that generated source uses."""

    def __init__(self) -> None:
        from nnefc.kernels import memory

        self.names: dict[str, Any] = {
            name: getattr(memory, name)
            for name in ("select", "sqrt", "floor", "ceil", "fabs", "fma", "load_word")
        }
        self.uses_libm = False
        """Whether the source needs the variable `libm`: the address of the table of functions."""

    def constant(self, value: bool | int | float, dtype: str) -> str:
        """The name of a constant of that type; a number out of range wraps or becomes infinite."""
        import numpy as np

        if dtype == "bool":
            return str(bool(value))
        if dtype.startswith("int"):
            bits = 8 * np.dtype(dtype).itemsize
            whole = int(value) & ((1 << bits) - 1)
            item: Any = np.dtype(dtype).type(whole - (1 << bits) if whole >> (bits - 1) else whole)
        else:
            with np.errstate(over="ignore"):
                item = np.dtype(dtype).type(value)
        name = f"k{len(self.names)}"
        self.names[name] = item
        return name

    def convert(self, source: str, dtype: str) -> str:
        """`source` made to be of an integer type: numba computes integers in 64 bits."""
        import numpy as np

        self.names["int32"] = np.int32
        return f"int32({source})" if dtype == "int32" else source

    def function(self, name: str, function: Callable[..., Any]) -> str:
        """The name of a function."""
        self.names[name] = function
        return name

    def libm(self, name: str) -> str:
        """A call of the C library, up to its arguments."""
        from nnefc.kernels.memory import calls

        index = [entry for entry, _ in LIBM].index(name)
        arity = LIBM[index][1]
        self.uses_libm = True
        call = self.function(f"call{arity}", calls("float64", arity))
        return f"{call}(load_word(libm + {8 * index})"


def source(op: str, operands: Sequence[str], types: Sequence[str], dtype: str, scope: Scope) -> str:
    """The expression of one operation over variables `operands` of `types`; result `dtype`.

    Raises KeyError for an operation or a type that is not element-wise arithmetic.
    """
    if op == "cast":
        return _cast(operands[0], types[0], dtype, scope)
    if op in _COMPARISONS:
        return f"{operands[0]} {_COMPARISONS[op]} {operands[1]}"
    if dtype not in operations()[op]:
        raise KeyError(op, dtype)
    if op == "abs" and dtype in _FLOATS:
        return f"fabs({operands[0]})"
    if op in ELEMENTARY:
        return _elementary(op, operands, dtype, scope)
    text, _ = _SIMPLE[op]
    numbers = {"zero": 0, "half": 0.5, "one": 1}
    used = {n: scope.constant(v, dtype) for n, v in numbers.items() if "{" + n + "}" in text}
    return scope.convert(text.format(*operands, **used), dtype)


def _elementary(op: str, operands: Sequence[str], dtype: str, scope: Scope) -> str:
    from nnefc.kernels import elementary

    x, arguments = operands[0], ", ".join(operands)
    if dtype == "float32":
        return f"{scope.function(f'{op}_float32', getattr(elementary, op))}({arguments})"
    if op not in ("sigmoid", "softplus"):
        return f"{scope.libm(op)}, {arguments})"
    e = f"{scope.libm('exp')}, -fabs({x}))"
    if op == "sigmoid":
        return f"{scope.function('sigmoid_of_exp', elementary.sigmoid_of_exp)}({x}, {e})"
    zero = scope.constant(0, dtype)
    return f"select({x} < {zero}, {zero}, {x}) + {scope.libm('log1p')}, {e})"


def _cast(x: str, given: str, dtype: str, scope: Scope) -> str:
    """As in C, but a float out of range becomes the nearest integer there is, and NaN 0."""
    import numpy as np

    if given == dtype:
        return x
    if dtype == "bool":
        return f"{x} != {scope.constant(0, given)}"
    if given == "bool":
        return f"select({x}, {scope.constant(1, dtype)}, {scope.constant(0, dtype)})"
    if given in _FLOATS and dtype not in _FLOATS:
        from nnefc.kernels.memory import SATURATE

        return f"{scope.function(f'saturate_{dtype}', SATURATE[dtype])}({x})"
    return f"{scope.function(dtype, np.dtype(dtype).type)}({x})"
