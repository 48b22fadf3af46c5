"""Fuse the operations of layer, instance or RMS normalisation into one operation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

from nnefc.ir import Graph, Op, TensorType, Value
from nnefc.ops.internal.mean_variance import NAME
from nnefc.ops.tools.build import build
from nnefc.passes.op_queries import is_one, only_user, producer, splat

DEPTH: Final = 2
"""Levels of nested products that are searched for factors."""


@dataclass(frozen=True)
class FuseNormalization:
    """Replace normalisations by `mean_variance_normalization` (`nnefc.ops.internal.mean_variance`).

        %0: float32[5,1] = sum_reduce(%x) {axes = [1], normalize = true}
        %1: float32[5,4] = sub(%x, %0)
        %2: float32[5,4] = sqr(%1)
        %3: float32[5,1] = sum_reduce(%2) {axes = [1], normalize = true}
        %4: float32[5,1] = add(%3, %epsilon)
        %5: float32[5,1] = sqrt(%4)
        %y: float32[5,4] = div(%1, %5)

    becomes

        %y: float32[5,4] = mean_variance_normalization(%x) {axes = [1], epsilon = 1e-05,
          centred = true}

    The variance may also be mean(x^2) - mean(x)^2, or max(0, mean(x^2) - mean(x)^2); the fused
    operation is at least as exact.  It is mean(x^2) if x itself is divided.  Factors may be
    interleaved:

        (x - mean) * (scale / root),  (scale * (x - mean)) / root,
        x * (scale / root) + (offset - mean * (scale / root))

    The pattern does not match if another operation uses an intermediate value.
    """

    name: ClassVar[str] = "fuse_normalization"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        changed = False
        for op in list(graph.ops):
            match = _quotient(graph, op) or _affine(graph, op)
            if match is not None and match.is_alone(graph, op):
                _replace(graph, op, match)
                changed = True
        return changed


@dataclass
class _Root:
    """sqrt(variance + epsilon) of x along some axes."""

    x: Value
    axes: tuple[int, ...]
    epsilon: float
    mean: Value | None
    """The mean of x; None if it counts as 0."""
    inner: set[Op]
    """The operations from x to the root."""

    def is_numerator(self, value: Value) -> bool:
        """Whether `value` is x - mean, or x without a mean."""
        if self.mean is None:
            return value is self.x
        op = producer(value, "sub")
        return op is not None and op.inputs == (self.x, self.mean)


@dataclass
class _Normalisation:
    """A matched normalisation: root, (factor, whether it divides) pairs, and an added offset."""

    root: _Root
    factors: list[tuple[Value, bool]]
    offset: Value | None = None
    inner: set[Op] = field(default_factory=set[Op])

    def is_alone(self, graph: Graph, op: Op) -> bool:
        """Whether only the result of `op` is used outside of the matched operations."""
        inner = self.root.inner | self.inner
        return all(
            not graph.is_output(value) and all(user in inner or user is op for user in value.users)
            for each in inner - {op}
            for value in each.outputs
        )


def _replace(graph: Graph, op: Op, match: _Normalisation) -> None:
    """Replace the matched operations, which end with `op`."""
    x, result = match.root.x, op.output
    attributes = {
        "axes": match.root.axes,
        "epsilon": match.root.epsilon,
        "centred": match.root.mean is not None,
    }
    names = [result.name] if not match.factors and match.offset is None else ()
    type_ = TensorType(x.type.dtype, x.type.shape)
    normalised = Op(NAME, [x], attributes, [type_], names, location=op.location)
    value = graph.insert(normalised, op).output
    for factor, divides in match.factors:
        name = "div" if divides else "mul"
        value = build(graph, name, [value, factor], {}, before=op, location=op.location).output
    if match.offset is not None:
        operands = [value, match.offset]
        value = build(graph, "add", operands, {}, before=op, location=op.location).output
    graph.replace_value(result, value)
    graph.erase(op)
    inner = (match.root.inner | match.inner) - {op}
    while unused := {each for each in inner if not each.output.users}:
        inner -= unused
        for each in unused:
            graph.erase(each)


# -- normalised values


def _quotient(graph: Graph, op: Op) -> _Normalisation | None:
    """Match (x - mean) / root with further factors."""
    if op.name not in ("mul", "div"):
        return None
    inner: set[Op] = set()
    factors = _factors(graph, op, inner)
    for i, (value, inverted) in enumerate(factors):
        root = _root(value, inverted=inverted)
        if root is None:
            continue
        for j, (numerator, below) in enumerate(factors):
            if not below and root.is_numerator(numerator):
                if root.mean is not None and numerator.op is not None:
                    inner.add(numerator.op)
                rest = [f for k, f in enumerate(factors) if k not in (i, j)]
                return _Normalisation(root, rest, None, inner)
    return None


def _affine(graph: Graph, op: Op) -> _Normalisation | None:
    """Match x * factor + (offset - mean * factor), where `factor` has 1 / root as a factor."""
    if op.name != "add":
        return None
    for product, rest in _orders(op):
        first, difference = producer(product, "mul"), producer(rest, "sub")
        second = producer(difference.inputs[1], "mul") if difference is not None else None
        if first is None or difference is None or second is None:
            continue
        for x, factor in _orders(first):
            for mean, other in _orders(second):
                if factor is not other or factor.op is None:
                    continue
                inner = {first, second, difference, factor.op}
                factors = _factors(graph, factor.op, inner)
                for i, (value, inverted) in enumerate(factors):
                    root = _root(value, inverted=inverted)
                    if root is not None and root.x is x and root.mean is mean:
                        others = factors[:i] + factors[i + 1 :]
                        return _Normalisation(root, others, difference.inputs[0], inner)
    return None


def _factors(graph: Graph, op: Op, inner: set[Op], depth: int = DEPTH) -> list[tuple[Value, bool]]:
    """The factors of nested products that end with `op`: (value, whether it divides).

    Adds the inner products to `inner`.
    """
    if op.name not in ("mul", "div"):
        return [(op.output, False)]
    factors: list[tuple[Value, bool]] = []
    for value, inverted in zip(op.inputs, (False, op.name == "div"), strict=True):
        before = producer(value, "mul", "div")
        if before is not None and depth and only_user(graph, value) is op:
            inner.add(before)
            nested = _factors(graph, before, inner, depth - 1)
            factors += [(v, below != inverted) for v, below in nested]
        elif value.type.rank or not is_one(splat(value)):
            factors.append((value, inverted))
    return factors


# -- roots


def _root(value: Value, *, inverted: bool) -> _Root | None:
    """Match `value` as a root (`inverted`: as a divisor) or as the reciprocal of a root."""
    op = producer(value, "sqrt" if inverted else "rsqrt")
    if op is None:
        return None
    variance, epsilon, inner = _shifted(op.inputs[0])
    inner.add(op)
    root = _mean_of_square(variance, inner) or _difference_of_means(variance, inner)
    if root is not None:
        root.epsilon = epsilon
    return root


def _shifted(value: Value) -> tuple[Value, float, set[Op]]:
    """(x, number, {addition}) if `value` is x + number with number >= 0; else (value, 0, {})."""
    op = producer(value, "add")
    for x, other in _orders(op) if op is not None else ():
        number = splat(other)
        if op is not None and number is not None and number >= 0 and x.type == value.type:
            return x, float(number), {op}
    return value, 0.0, set()


def _mean_of_square(variance: Value, inner: set[Op]) -> _Root | None:
    """Match mean((x - mean(x))^2) or mean(x^2)."""
    mean = _mean(variance)
    square = producer(mean.inputs[0], "sqr") if mean is not None else None
    if mean is None or square is None:
        return None
    base, axes = square.inputs[0], mean.attributes["axes"]
    inner = inner | {mean, square}
    difference = producer(base, "sub")
    if difference is not None:
        x, subtracted = difference.inputs
        center = _mean(subtracted)
        if center is not None and center.inputs[0] is x and _axes(center) == _axes(mean):
            return _Root(x, axes, 0.0, subtracted, inner | {difference, center})
    return _Root(base, axes, 0.0, None, inner)


def _difference_of_means(variance: Value, inner: set[Op]) -> _Root | None:
    """Match mean(x^2) - mean(x)^2, or its maximum with 0."""
    positive = producer(variance, "relu", "max")
    if positive is not None:
        rest = [v for v in positive.inputs if splat(v) != 0]
        if len(rest) != 1 or rest[0].type != variance.type:
            return None
        variance, inner = rest[0], inner | {positive}
    difference = producer(variance, "sub")
    if difference is None:
        return None
    mean, squared = _mean(difference.inputs[0]), producer(difference.inputs[1], "sqr")
    square = producer(mean.inputs[0], "sqr") if mean is not None else None
    center = _mean(squared.inputs[0]) if squared is not None else None
    if mean is None or squared is None or square is None or center is None:
        return None
    x, axes = square.inputs[0], mean.attributes["axes"]
    if center.inputs[0] is not x or _axes(center) != _axes(mean):
        return None
    inner = inner | {difference, mean, squared, square, center}
    return _Root(x, axes, 0.0, center.output, inner)


def _mean(value: Value) -> Op | None:
    """The operation that computes `value`, if it is a mean along axes."""
    op = producer(value, "sum_reduce")
    return op if op is not None and op.attributes["normalize"] and op.attributes["axes"] else None


def _axes(op: Op) -> set[int]:
    return set(op.attributes["axes"])


def _orders(op: Op) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """The operands of a commutative operation in both orders."""
    return op.inputs, op.inputs[::-1]
