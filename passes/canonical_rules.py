"""The rules of `canonicalise`: what an operation may be replaced by without changing a bit.

NaNs count as equal.  Zeros have signs, so x + 0.0 is not x (for x = -0.0), but x - 0.0 is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from nnefc.ir import Op, Value
from nnefc.ir.graph import Attribute
from nnefc.ops.table import operations
from nnefc.passes.base import is_one, is_zero, splat


@dataclass(frozen=True)
class New:
    """An operation to make in place of another one."""

    name: str
    inputs: Sequence[Value]
    attributes: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])


Result = Sequence[Value] | New | None
"""Values that are there already, one for each output; or one new operation; or no change."""

Rule = Callable[[Op], Result]

RULES: dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for name in names:
            assert name not in RULES, name
            RULES[name] = rule
        return rule

    return register


def _same_type(op: Op, value: Value) -> Result:
    """`value` if it may stand for the output of `op`; broadcasting may have grown it."""
    return [value] if value.type == op.output.type else None


def _producer(value: Value, *names: str) -> Op | None:
    return value.op if value.op is not None and value.op.name in names else None


# -- copies


@_rule("copy", "cast")
def _copy(op: Op) -> Result:
    return _same_type(op, op.inputs[0])


@_rule("copy_n")
def _copy_n(op: Op) -> Result:
    return [op.inputs[0]] * len(op.outputs)


# -- arithmetic and logic


@_rule("add")
def _add(op: Op) -> Result:
    x, y = op.inputs
    if is_zero(splat(y), -1.0):
        return _same_type(op, x)
    return _same_type(op, y) if is_zero(splat(x), -1.0) else None


@_rule("sub")
def _sub(op: Op) -> Result:
    x, y = op.inputs
    return _same_type(op, x) if is_zero(splat(y), 1.0) else None


@_rule("mul")
def _mul(op: Op) -> Result:
    x, y = op.inputs
    if is_one(splat(y)):
        return _same_type(op, x)
    return _same_type(op, y) if is_one(splat(x)) else None


@_rule("div")
def _div(op: Op) -> Result:
    x, y = op.inputs
    return _same_type(op, x) if is_one(splat(y)) else None


@_rule("pow")
def _pow(op: Op) -> Result:
    x, y = op.inputs
    if x.type != op.output.type:
        return None
    match splat(y):
        case 1.0:
            return [x]
        case 2.0:
            return New("sqr", [x])
        case -1.0:
            return New("rcp", [x])
        case _:
            return None


@_rule("neg", "not")
def _involution(op: Op) -> Result:
    inner = _producer(op.inputs[0], op.name)
    return [inner.inputs[0]] if inner is not None else None


@_rule("abs", "relu", "floor", "ceil", "sign")
def _idempotent(op: Op) -> Result:
    if _producer(op.inputs[0], op.name) is not None:
        return [op.inputs[0]]
    negated = _producer(op.inputs[0], "neg")
    return New("abs", negated.inputs) if negated is not None and op.name == "abs" else None


@_rule("min", "max")
def _of_itself(op: Op) -> Result:
    x, y = op.inputs
    return [x] if x is y else None


@_rule("and", "or")
def _logic(op: Op) -> Result:
    x, y = op.inputs
    neutral = op.name == "and"
    if x is y or splat(y) is neutral:
        return _same_type(op, x)
    return _same_type(op, y) if splat(x) is neutral else None


@_rule("select")
def _select(op: Op) -> Result:
    condition, yes, no = op.inputs
    if yes is no:
        return _same_type(op, yes)
    known = splat(condition)
    return None if known is None else _same_type(op, yes if known else no)


# -- other shapes for the same items


@_rule("reshape", "squeeze", "unsqueeze")
def _view(op: Op) -> Result:
    source = op.inputs[0]
    if source.type == op.output.type:
        return [source]
    inner = source.op
    if inner is not None and inner.name in operations() and operations()[inner.name].view:
        return _reshape(inner.inputs[0], op)
    return None


def _reshape(source: Value, op: Op) -> New:
    """A reshape of `source` to what `op` gives."""
    return New("reshape", [source], {"shape": op.output.type.dims})


@_rule("transpose")
def _transpose(op: Op) -> Result:
    source = op.inputs[0]
    order = _permutation(op)
    if order == sorted(order):
        return [source]
    dims = source.type.dims
    large = [d for d in order if dims[d] != 1]
    if large == sorted(large):
        return _reshape(source, op)
    inner = _producer(source, "transpose")
    if inner is None:
        return None
    first = _permutation(inner)
    return New("transpose", inner.inputs, {"axes": tuple(first[d] for d in order)})


def _permutation(op: Op) -> list[int]:
    """Axes of a transpose, those that it does not name included."""
    axes: tuple[int, ...] = op.attributes["axes"]
    return [*axes, *range(len(axes), op.output.type.rank)]


@_rule("slice")
def _slice(op: Op) -> Result:
    reversing = any(stride < 0 for stride in op.attributes["stride"])
    return None if reversing else _same_type(op, op.inputs[0])


@_rule("pad")
def _pad(op: Op) -> Result:
    unpadded = all(item == (0, 0) for item in op.attributes["padding"])
    return [op.inputs[0]] if unpadded else None


@_rule("tile")
def _tile(op: Op) -> Result:
    return _same_type(op, op.inputs[0])


@_rule("max_reduce", "min_reduce", "all_reduce", "any_reduce")
def _reduce(op: Op) -> Result:
    """Nothing is reduced where all axes are singular (sums might turn -0.0 into 0.0)."""
    return _same_type(op, op.inputs[0])


@_rule("concat", "split")
def _single(op: Op) -> Result:
    return list(op.inputs) if len(op.inputs) == len(op.outputs) == 1 else None


@_rule("stack")
def _stack(op: Op) -> Result:
    axes = (op.attributes["axis"],)
    return New("unsqueeze", op.inputs, {"axes": axes}) if len(op.inputs) == 1 else None


@_rule("unstack")
def _unstack(op: Op) -> Result:
    axes = (op.attributes["axis"],)
    return New("squeeze", op.inputs, {"axes": axes}) if len(op.outputs) == 1 else None
