"""Operands of a fused expression in an order, and in a form, that many networks share.

    x * 0.176                 one kernel per size of an attention head
    x * s, s = 0.176          one kernel; s is a constant of the program, read once per row

Numbers that networks choose freely become operands.  Numbers that are part of a function, such as
those of GELU, stay literals; an expression of one operation has none.  So do numbers that select
other instructions: exponents, limits of `min` and `max`, and divisors of integers.

Operands are numbered in the order in which the results need them, whatever their order in the
network.  Results are unchanged, to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np

from nnefc.ir import DType, Expression, Step
from nnefc.lower.elementwise.kernel_expression import stored_literal
from nnefc.lower.product.pack import Array
from nnefc.ops.tools.table import operations
from nnefc.support.digests import blake2b

T = TypeVar("T")

_READERS: Final = frozenset(
    ("add", "sub", "mul", "div", "lt", "gt", "le", "ge", "eq", "ne", "select")
)
"""Operations that take the same time whether a number is a literal or an operand."""
_FLOATS: Final = tuple(
    float(np.float32(number))
    for number in (
        *(0, 1, 2, 3, 6, 0.5, 1 / 3, 1 / 6),
        *(0.5**0.5, (2 / math.pi) ** 0.5, 0.044715, 1.702),  # GELU, exact and approximate
        *(1.6732632423543772, 1.0507009873554805),  # SELU
        *(math.log(2), 1 / math.log(2), math.inf),
    )
)
_USUAL: Final = frozenset(_FLOATS + tuple(-number for number in _FLOATS))
"""Numbers of usual functions, as float32 stores them."""
_USUAL_INTEGERS: Final = frozenset((-1, 0, 1, 2))
_LOW, _HIGH = 2.0**-100, 2.0**100
"""Between these, a number and its reciprocal are normal float32 numbers."""


def canonical_operands(
    expression: Expression,
    operands: Sequence[T],
    number: Callable[[Array], T],
    *,
    fixed: int = 0,
    kind: Callable[[T], Hashable] = lambda _: None,
) -> tuple[Expression, list[T]]:
    """(expression, its operands) in canonical form.

    `operands`: one for each input after the first `fixed` ones, which stay in place.  `number`
    makes an operand of an array of one item.  `kind`: operands of different kinds need different
    kernels, so they are told apart.
    """
    expression = _with_products(expression)
    inputs = len(expression.inputs)
    is_function = sum(step.op != "literal" for step in expression.steps) > 1
    arrays = {
        inputs + i: np.array([step.value], step.dtype.numpy)
        for i, step in enumerate(expression.steps)
        if _is_number(step) and not (is_function and _is_usual(step))
        if _may_move(expression, inputs + i)
    }
    if not arrays and inputs - fixed < 2:
        return expression, list(operands)
    kinds = [("operand", kind(operand)) for operand in operands]
    order = _order(expression, fixed, kinds, arrays.keys())
    found: dict[Hashable, int] = {}
    made: list[T] = []
    place = {i: i for i in range(fixed)}
    types = list(expression.inputs[:fixed])
    unread = [i for i in range(fixed, inputs) if i not in order]
    for old in (*order, *unread):
        array = arrays.get(old)
        key = old if array is None else (array.dtype.name, array.tobytes())
        if key not in found:
            found[key] = fixed + len(made)
            made.append(operands[old - fixed] if array is None else number(array))
            types.append(_type(expression, old))
        place[old] = found[key]
    return _renumbered(expression, types, place), made


def _is_number(step: Step) -> bool:
    """Whether a step is a literal that may be an operand."""
    return step.op == "literal" and type(step.value) in (int, float)


def _is_usual(step: Step) -> bool:
    """Whether a literal is a number of usual functions."""
    value = step.value
    if not step.dtype.is_float or value is None:
        return value in _USUAL_INTEGERS
    with np.errstate(over="ignore"):
        return value != value or float(np.float32(value)) in _USUAL


def _may_move(expression: Expression, operand: int) -> bool:
    """Whether all steps that read a literal take it as an operand as well."""
    readers = [step for step in expression.steps if operand in step.operands]
    known = _type(expression, operand)
    return (
        bool(readers)
        and operand not in expression.results
        and all(step.op in _READERS and (step.op != "div" or known.is_float) for step in readers)
    )


def _with_products(expression: Expression) -> Expression:
    """The expression with products instead of quotients by powers of two, which are equal."""
    steps, inputs = list(expression.steps), len(expression.inputs)
    for i, step in enumerate(expression.steps):
        at = step.operands[1] - inputs if step.op == "div" else -1
        divisor = steps[at].value if at >= 0 and steps[at].dtype is DType.FLOAT32 else None
        if divisor is None or abs(math.frexp(divisor)[0]) != 0.5:
            continue
        readers = [*expression.results, *(o for other in steps for o in other.operands)]
        if readers.count(inputs + at) == 1 and _LOW < abs(divisor) < _HIGH:
            steps[at] = replace(steps[at], value=1 / divisor)
            steps[i] = replace(step, op="mul")
    return replace(expression, steps=tuple(steps))


def _type(expression: Expression, operand: int) -> DType:
    inputs = expression.inputs
    if operand < len(inputs):
        return inputs[operand]
    return expression.steps[operand - len(inputs)].dtype


def _order(
    expression: Expression, fixed: int, kinds: Sequence[Hashable], moved: Collection[int]
) -> list[int]:
    """The operands that are not fixed, and the literals that move, in the order of their use.

    Operands of commutative operations are visited in the order of digests that do not depend on
    numbers of operands.
    """
    inputs = len(expression.inputs)
    digests: list[bytes] = []
    visits: list[tuple[int, ...]] = [()] * inputs
    for i in range(inputs):
        facts = i if i < fixed else (kinds[i - fixed], expression.inputs[i].value)
        digests.append(_digest(facts))
    for i, step in enumerate(expression.steps):
        spec = operations().get(step.op)
        children = list(step.operands)
        if spec is not None and spec.commutative:
            children.sort(key=lambda operand: digests[operand])
        visits.append(tuple(children))
        value = "number" if inputs + i in moved else stored_literal(step)
        digests.append(_digest((step.op, [digests[c] for c in children], step.dtype, value)))
    seen: dict[int, None] = {}
    waiting = list(reversed(expression.results))
    while waiting:
        operand = waiting.pop()
        if operand not in seen:
            seen[operand] = None
            waiting.extend(reversed(visits[operand]))
    return [o for o in seen if fixed <= o < inputs or o in moved]


def _digest(facts: object) -> bytes:
    return blake2b(repr(facts).encode(), digest_size=16).digest()


def _renumbered(
    expression: Expression, types: Sequence[DType], place: dict[int, int]
) -> Expression:
    """The expression with inputs of `types`; `place`: the input that replaces an operand."""
    new = dict(place)
    steps: list[Step] = []
    for old, step in enumerate(expression.steps, len(expression.inputs)):
        if old not in place:
            new[old] = len(types) + len(steps)
            steps.append(replace(step, operands=tuple(new[o] for o in step.operands)))
    return Expression(tuple(types), tuple(steps), tuple(new[r] for r in expression.results))
