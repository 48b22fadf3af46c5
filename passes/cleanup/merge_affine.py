"""Merge consecutive constant factors, and consecutive constant terms."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from nnefc.ir import Graph, Op, TensorType, Value
from nnefc.ops.tools.table import traits_of
from nnefc.passes.analysis.affine_maps import CANCELLED, Affine, cancels, step_between
from nnefc.passes.analysis.known_data import KnownValues, constant_op
from nnefc.passes.op_queries import only_user, splat

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class MergeAffine:
    """Merge consecutive steps in chains of additions and multiplications with constants.

        %1: float32[1,8,9,9] = sub(%x, %mean)
        %2: float32[1,8,9,9] = mul(%scale, %1)
        %3: float32[1,8,9,9] = div(%2, %deviation)
        %y: float32[1,8,9,9] = add(%offset, %3)

    becomes, with new constants, computed in float64 and rounded once,

        %1: float32[1,8,9,9] = add(%x, %minus_mean)
        %2: float32[1,8,9,9] = mul(%1, %factor)
        %y: float32[1,8,9,9] = add(%2, %offset)

    Terms are not moved past factors: scale * x + (offset - scale * mean) would lose digits where x
    is close to a large mean.  Constants are not enlarged by broadcasting.  Terms of very different
    sizes, and terms whose sum is much smaller than they are, stay apart: (x + 12582912) - 12582912
    rounds x to a whole number.
    """

    name: ClassVar[str] = "merge_affine"
    enters_loops: ClassVar[bool] = True

    def run(self, graph: Graph) -> bool:
        known = KnownValues(graph)
        changed = False
        done: set[Op] = set()
        with np.errstate(all="ignore"):
            for op in list(graph.ops):
                if op in done or traits_of(op).affine is None:
                    continue
                for value in dict.fromkeys(op.inputs):
                    chain = _chain(graph, value, op, known)
                    done.update(step for step, _ in chain)
                    if chain:
                        changed |= _merge(graph, value, chain)
                        break
        return changed


def _chain(graph: Graph, value: Value, op: Op, known: KnownValues) -> list[tuple[Op, Affine]]:
    """The chain of affine steps from `value` on: (operation, its map); the first one is `op`.

    Intermediate values have no other users.
    """
    chain: list[tuple[Op, Affine]] = []
    user: Op | None = op
    while user is not None and (step := step_between(value, user, known)) is not None:
        chain.append((user, step))
        value = user.output
        user = only_user(graph, value)
    return chain


def _merge(graph: Graph, value: Value, chain: list[tuple[Op, Affine]]) -> bool:
    """Rewrite a chain if that saves an operation, or a division by an array."""
    runs: list[Affine] = []
    for _, step in chain:
        factor, term = step.factor_and_term()
        for part in (factor, term):
            _append(runs, part)
    divides = any(op.name == "div" and splat(op.inputs[1]) is None for op, _ in chain)
    count = _operations(runs)
    if count > len(chain) or (count == len(chain) and not divides):
        return False
    largest = np.finfo(value.type.dtype.numpy).max
    if any((np.abs(a) > largest).any() for run in runs for a in (run.scale, run.shift)):
        return False
    last = chain[-1][0]
    graph.replace_value(last.output, _emit(graph, value, runs, last))
    for op, _ in reversed(chain):
        graph.erase(op)
    return True


def _append(runs: list[Affine], part: Affine) -> None:
    """Append a factor or a term to a list in which the two kinds alternate."""
    if part.is_identity:
        return
    if runs and runs[-1].scales == part.scales and not _loses_digits(runs[-1], part):
        merged = runs[-1].then(part)
        if merged.is_identity:
            runs.pop()
            return
        if _size(merged) <= max(_size(runs[-1]), _size(part)):
            runs[-1] = merged
            return
    runs.append(part)


def _loses_digits(first: Affine, second: Affine) -> bool:
    """Whether the sum of two terms has fewer of their digits than the two additions."""
    if first.scales:
        return False
    sizes = sorted((np.abs(first.shift).max(), np.abs(second.shift).max()))
    return sizes[0] < CANCELLED * sizes[1] or cancels(first.shift, second.shift)


def _size(map_: Affine) -> int:
    return max(map_.scale.size, map_.shift.size)


def _is_negation(map_: Affine) -> bool:
    return bool((map_.scale == -1).all()) and not map_.shifts


def _operations(runs: list[Affine]) -> int:
    """Number of operations for the runs; a negation and the term after it are one `sub`."""
    return len(runs) - sum(_is_negation(a) and b.shifts for a, b in pairwise(runs))


def _emit(graph: Graph, value: Value, runs: list[Affine], last: Op) -> Value:
    """Insert the operations of `runs`, factors and terms, before `last`; returns the result."""
    type_ = value.type

    def add(name: str, *operands: Value) -> Value:
        return graph.insert(Op(name, operands, {}, [type_], (), last.location), last).output

    def constant(items: Array) -> Value:
        shape = items.shape if items.size > 1 else ()
        op = constant_op(items.reshape(shape), TensorType(type_.dtype, shape), last.location)
        return graph.insert(op, last).output

    negated = False
    for run, following in zip(runs, [*runs[1:], None]):
        if negated:
            value, negated = add("sub", constant(run.shift), value), False
        elif _is_negation(run) and following is not None and following.shifts:
            negated = True
        elif _is_negation(run):
            value = add("neg", value)
        elif run.scales:
            value = add("mul", value, constant(run.scale))
        else:
            value = add("add", value, constant(run.shift))
    return value
