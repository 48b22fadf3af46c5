"""Argument validity and result types of an invocation, by the rule of its operation (chapter 4)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

from nnefc.frontends.nnef import results, tree
from nnefc.ir import Location, TensorType, Value
from nnefc.ops.core.spec import Call, OpSpec, infer
from nnefc.ops.core.window_arithmetic import NONSTANDARD_BORDER
from nnefc.support.errors import Diagnostics
from nnefc.support.limits import Limits, how_to_raise

Judgement = tuple[list[TensorType] | None, list[str], str]
"""Types of the results, if they are known, the rules that are broken, and what is too large."""

ONCE = frozenset({"constant", "variable"})
"""Operations of which no two invocations are alike, or the values too many to compare them."""


class Problem(Protocol):
    def __call__(self, rule: str, message: str, location: Location, hint: str = "") -> None: ...


class Rules:
    """Asks the rules of operations; what they find goes to `problem`."""

    def __init__(self, limits: Limits, diagnostics: Diagnostics, problem: Problem) -> None:
        self._limits = limits
        self._diagnostics = diagnostics
        self._problem = problem
        self._answers: dict[Hashable, Judgement] = {}

    def judge(
        self,
        spec: OpSpec,
        operands: Mapping[str, Any],
        attributes: Mapping[str, Any],
        location: Location,
    ) -> tuple[list[TensorType] | None, bool]:
        """Types of the results as far as they are known, and whether all rules are kept.

        `operands` by parameter: a type, a list of types, or None where nothing is known.
        """
        # networks repeat their layers: the same question has the same answer
        answer: Judgement | None = None
        key: Hashable = None
        if spec.name not in ONCE:
            key = spec.name, *map(_hashable, operands.values()), *attributes.values()
            answer = self._answers.get(key)
        if answer is None:
            answer = self._judgement(spec, operands, attributes)
            if key is not None:
                self._answers[key] = answer
        found, problems, excess = answer
        for problem in problems:
            self._problem(f"argument/{spec.name}", f"{spec.name}: {problem}", location)
        if excess:
            message = f"{spec.name}: the result {excess}"
            self._problem("limit/tensor", message, location, how_to_raise("tensor_bytes"))
        if spec.name in NONSTANDARD_BORDER and attributes.get("border") == "ignore":
            self._warn_of_ignore(spec.name, location)
        return found, not (problems or excess)

    def _judgement(
        self, spec: OpSpec, operands: Mapping[str, Any], attributes: Mapping[str, Any]
    ) -> Judgement:
        """What the rule of an operation and the limits say of an invocation."""
        found, problems = infer(spec, Call(spec.name, operands, attributes))
        excess = ""
        for type_ in found or ():
            shape = type_.shape or ()
            if len(shape) > self._limits.rank:
                problems.append(f"the result has rank {len(shape)}; at most {self._limits.rank}")
            else:
                excess = excess or too_large(type_, self._limits)
        return found, problems, excess

    def _warn_of_ignore(self, name: str, location: Location) -> None:
        """Once per document: exporters write it, and the specification does not define it."""
        rule = "argument/border-ignore"
        reported = (*self._diagnostics.warnings, *self._diagnostics.errors)
        if not any(diagnostic.rule == rule for diagnostic in reported):
            self._diagnostics.warn(
                rule,
                f"border = 'ignore' of {name} is not part of NNEF 1.0.2; the border takes no "
                "part in the maximum",
                location.place,
            )

    def check_custom(
        self,
        node: tree.Call,
        found: Sequence[TensorType] | None,
        inputs: Sequence[Value],
        location: Location,
    ) -> None:
        """The shape rule that a user registered must give a type for each result."""
        if any(value.type.shape is None for value in inputs):
            return
        name = node.callee.name
        if found is None:
            message = f"the shape rule of '{name}' gives no types"
            self._problem("custom/shape", message, location)
        elif results.lengths(node, len(found), {}) is None:
            message = f"the shape rule of '{name}' gives {len(found)} types for {node.type}"
            self._problem("custom/shape", message, location)


def too_large(type_: TensorType, limits: Limits) -> str:
    """Says that a tensor exceeds the limit, as a predicate; nothing if it does not."""
    if type_.shape is None or type_.nbytes <= limits.tensor_bytes:
        return ""
    shape = ",".join(map(str, type_.dims))
    return (
        f"of shape [{shape}] takes {type_.nbytes} bytes, more than the limit tensor_bytes of "
        f"{limits.tensor_bytes}"
    )


def _hashable(operand: Any) -> Hashable:
    """The types of an operand; those of an array come as a list."""
    if not isinstance(operand, list):
        return operand
    types: list[TensorType] = operand  # pyright: ignore[reportUnknownVariableType]
    return tuple(types)
