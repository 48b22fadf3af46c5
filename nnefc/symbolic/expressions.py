"""Straight-line programs as expressions of their symbols, for people: `S + 1`, `(S + P)//2`.

Integers are polynomials with integer coefficients.  Their variables, the atoms, are symbols and
operations that are no polynomials, such as a quotient.  Equal polynomials have one text, so
`(2*S + 4)//2 - 2` is `S`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from nnefc.symbolic.straight_line import EXTREMES, Operand, StraightLine

MAX_TERMS: Final = 32
"""Terms of a polynomial; a larger one has no expression."""
MAX_CHARACTERS: Final = 120
"""Characters of an expression; a longer one is none."""


Monomial: TypeAlias = "tuple[Atom, ...]"


class Atom(NamedTuple):
    """A variable of polynomials."""

    text: str
    is_natural: bool = False
    """Whether it is at least 0."""
    quotient: tuple[tuple[tuple[Monomial, int], ...], int] | None = None
    """For a quotient by a positive number: the terms of the dividend, and the number."""
    is_factor: bool = True
    """Whether the text can stand in a product without parentheses."""


class Real(NamedTuple):
    """A number that is no integer."""

    text: str


Polynomial = dict[Monomial, int]
"""Coefficients by the sorted atoms of each product; () is the constant; no coefficient is 0."""
Expression = Polynomial | Real


class _NoExpression(Exception):
    """An operation has no expression, such as an item of a table."""


def expressions(program: StraightLine, symbols: Sequence[str]) -> list[str | None]:
    """The results of a program as texts; None for one without an expression.

    `symbols`: the names of the program's symbols, in order.
    """
    known: dict[str, Expression | None] = {
        name: {(Atom(text, is_natural=True),): 1}
        for name, text in zip(program.symbols, symbols, strict=True)
    }
    for target, op, operands in program.steps:
        if target:
            known[target] = _computed(op, operands, known)
    return [_result(each, known) for each in program.results]


def _result(result: Operand, known: dict[str, Expression | None]) -> str | None:
    try:
        text = _text(_expression(result, known))
    except _NoExpression:
        return None
    return text if len(text) <= MAX_CHARACTERS else None


def _computed(
    op: str, operands: Sequence[Operand], known: dict[str, Expression | None]
) -> Expression | None:
    """The expression of a step; None if it has none."""
    try:
        return _apply(op, [_expression(each, known) for each in operands])
    except _NoExpression:
        return None


def _expression(value: Operand, known: dict[str, Expression | None]) -> Expression:
    match value:
        case str():
            expression = known.get(value)
            if expression is None:
                raise _NoExpression
            return expression
        case float():
            return Real(repr(value))
        case int():
            return _constant(int(value))
        case _:
            raise _NoExpression


def _apply(op: str, operands: Sequence[Expression]) -> Expression:
    if op in EXTREMES:
        return _extreme(op, operands)
    if len(operands) == 1:
        (x,) = operands
        match op, x:
            case "neg", dict():
                return _scaled(x, -1)
            case (("ceil" | "floor" | "round"), dict()):
                return x
            case (("ceil" | "floor" | "round" | "abs" | "neg"), _):
                return _call(op, operands) if op != "neg" else Real(f"-{_factor(x)}")
            case _:
                raise _NoExpression
    left, right = operands
    if op == "/" or isinstance(left, Real) or isinstance(right, Real):
        return Real(_bounded(f"{_factor(left)} {op} {_factor(right)}"))
    if op not in _INTEGER:
        raise _NoExpression
    return _INTEGER[op](left, right)


def _extreme(op: str, operands: Sequence[Expression]) -> Expression:
    """The maximum or minimum, without the operands that another one bounds for all symbols."""
    rest: list[Expression] = []
    for each in operands:
        if not any(_bounds(op, other, each) for other in rest):
            rest = [*(other for other in rest if not _bounds(op, each, other)), each]
    return rest[0] if len(rest) == 1 else _call(op, rest)


def _bounds(op: str, a: Expression, b: Expression) -> bool:
    """Whether `a` is always the maximum or minimum of `a` and `b`."""
    return _exceeds(a, b) if op == "max" else _exceeds(b, a)


def _exceeds(a: Expression, b: Expression) -> bool:
    """Whether `a` is at least `b` for all values of the symbols, which are at least 0."""
    if isinstance(a, Real) or isinstance(b, Real):
        return a == b
    return _is_natural(_sum(a, _scaled(b, -1)))


def _call(op: str, operands: Sequence[Expression]) -> Expression:
    """A call of a function; the result is an integer if all operands are, or it is rounded."""
    text = _bounded(f"{op}({', '.join(map(_text, operands))})")
    is_real = op in (*EXTREMES, "abs") and any(isinstance(each, Real) for each in operands)
    return Real(text) if is_real else {(Atom(text),): 1}


# -- polynomials


def _constant(value: int) -> Polynomial:
    return {(): value} if value else {}


def _sum(a: Polynomial, b: Polynomial) -> Polynomial:
    total = dict(a)
    for monomial, coefficient in b.items():
        total[monomial] = total.get(monomial, 0) + coefficient
    return _checked({monomial: c for monomial, c in total.items() if c})


def _is_natural(a: Polynomial) -> bool:
    """Whether no value of the symbols makes a polynomial negative, as far as its signs tell."""
    return all(c >= 0 and all(atom.is_natural for atom in m) for m, c in a.items())


def _scaled(a: Polynomial, factor: int) -> Polynomial:
    return {monomial: c * factor for monomial, c in a.items()} if factor else {}


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for monomial, coefficient in b.items():
        shifted = {tuple(sorted((*m, *monomial))): c * coefficient for m, c in a.items()}
        total = _sum(total, shifted)
    return total


def _quotient(a: Polynomial, b: Polynomial) -> Polynomial:
    """The quotient, rounded down.

    Multiples of the divisor are taken out of it: `(S + 5)//2` is `(S + 1)//2 + 2`.
    """
    divisor = b.get((), 0) if set(b) <= {()} else None
    if divisor:
        whole = {m: q for m, c in a.items() if (q := c // divisor)}
        rest = {m: r for m, c in a.items() if (r := c % divisor)}
        if set(rest) <= {()}:  # a constant between 0 and the divisor
            return whole
        return _sum(whole, _floor(rest, divisor))
    exact = _exact_quotient(a, b) if b else None
    return _atom(a, "//", b) if exact is None else exact


def _floor(a: Polynomial, divisor: int) -> Polynomial:
    """The atom of a quotient; `(S//2 + 1)//2` is `(S + 2)//4`."""
    (*heads, last) = sorted(a, key=len, reverse=True)
    inner = heads[0] if len(heads) == 1 and last == () else last if not heads else ()
    if divisor > 0 and len(inner) == 1 and a[inner] == 1 and inner[0].quotient is not None:
        terms, by = inner[0].quotient
        return _quotient(_sum(dict(terms), _constant(a.get((), 0) * by)), _constant(divisor * by))
    text = _bounded(f"{_factor(a)}//{_factor(_constant(divisor))}")
    quotient = (tuple(a.items()), divisor) if divisor > 0 else None
    return {(Atom(text, _is_natural(a) and divisor > 0, quotient, is_factor=False),): 1}


def _exact_quotient(a: Polynomial, b: Polynomial) -> Polynomial | None:
    """The polynomial whose product with `b` is `a`, by long division; None if none is."""
    quotient: Polynomial = {}
    lead = max(b, key=_order)
    while a:
        top = max(a, key=_order)
        rest = _divided(top, lead)
        if rest is None or a[top] % b[lead]:
            return None
        term = {rest: a[top] // b[lead]}
        quotient = _sum(quotient, term)
        a = _sum(a, _scaled(_product(b, term), -1))
    return quotient


def _divided(a: Monomial, b: Monomial) -> Monomial | None:
    """The atoms of `a` without those of `b`; None if some are missing."""
    rest = list(a)
    for atom in b:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def _remainder(a: Polynomial, b: Polynomial) -> Polynomial:
    divisor = b.get((), 0) if set(b) <= {()} else None
    if divisor:
        a = {m: r for m, c in a.items() if (r := c % divisor)}
        if set(a) <= {()}:
            return a
    return _atom(a, "%", b)


def _shifted(a: Polynomial, b: Polynomial) -> Polynomial:
    if set(b) <= {()} and 0 <= b.get((), 0) < 64:
        return _scaled(a, 1 << b.get((), 0))
    raise _NoExpression


_INTEGER: Final[dict[str, Callable[[Polynomial, Polynomial], Polynomial]]] = {
    "+": _sum,
    "-": lambda a, b: _sum(a, _scaled(b, -1)),
    "*": _product,
    "//": _quotient,
    "%": _remainder,
    "<<": _shifted,
}


def _atom(a: Polynomial, op: str, b: Polynomial) -> Polynomial:
    return {(Atom(_bounded(f"{_factor(a)}{op}{_factor(b)}"), is_factor=False),): 1}


def _checked(a: Polynomial) -> Polynomial:
    if len(a) > MAX_TERMS:
        raise _NoExpression
    return a


def _bounded(text: str) -> str:
    if len(text) > MAX_CHARACTERS:
        raise _NoExpression
    return text


# -- texts


def _order(monomial: Monomial) -> tuple[int, Monomial]:
    """The order of terms: by the number of factors, then by the atoms."""
    return len(monomial), monomial


def _text(expression: Expression) -> str:
    if isinstance(expression, Real):
        return expression.text
    terms = sorted(expression, key=lambda each: (-len(each), each))
    first = next((m for m in terms if expression[m] > 0), None)  # no leading minus sign
    if first is not None:
        terms.remove(first)
        terms.insert(0, first)
    return "".join(_signed_terms(expression, terms)) or "0"


def _signed_terms(polynomial: Polynomial, terms: Sequence[Monomial]) -> Iterator[str]:
    for i, monomial in enumerate(terms):
        coefficient = polynomial[monomial]
        is_negated = not i and coefficient < 0  # -S//2 would be (-S)//2
        sign = (" - " if coefficient < 0 else " + ") if i else "-" if is_negated else ""
        yield sign + _term(abs(coefficient), monomial, is_factor=is_negated)


def _term(coefficient: int, monomial: Monomial, *, is_factor: bool) -> str:
    if coefficient == 1 and len(monomial) == 1 and not is_factor:
        return monomial[0].text
    factors = [each.text if each.is_factor else f"({each.text})" for each in monomial]
    return "*".join([str(coefficient)] * (coefficient != 1 or not monomial) + factors)


def _factor(expression: Expression) -> str:
    """The text as an operand of a product or a quotient."""
    if isinstance(expression, Real):
        return f"({expression.text})" if " " in expression.text else expression.text
    text = _text(expression)
    match [*expression]:
        case [] | [()]:
            return text
        case [(atom,)] if expression[(atom,)] == 1 and atom.is_factor:
            return text
        case _:
            return f"({text})"
