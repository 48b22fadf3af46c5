"""Argument checks and result types of invocations, by the shape rules of operations (chapter 4)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

from nnefc.frontends.nnef import results
from nnefc.frontends.nnef import typed_tree as tree
from nnefc.ir import Location, TensorType, Value
from nnefc.ops.core.spec import Call, OpSpec, infer
from nnefc.support.errors import Diagnostics
from nnefc.support.limits import Limits, how_to_raise

RuleResult = tuple[list[TensorType] | None, list[str], str]
"""Types of the results, if they are known; violated rules; a result that exceeds a limit, or ""."""

NOT_CACHED = frozenset({"constant", "variable"})
"""Operations whose invocations all differ, or have too many values to compare."""


class Problem(Protocol):
    def __call__(self, rule: str, message: str, location: Location, hint: str = "") -> None: ...


class Rules:
    """Applies the rules of operations to invocations; violations go to `problem`."""

    def __init__(self, limits: Limits, diagnostics: Diagnostics, problem: Problem) -> None:
        self._limits = limits
        self._diagnostics = diagnostics
        self._problem = problem
        self._cache: dict[Hashable, RuleResult] = {}

    def check(
        self,
        spec: OpSpec,
        operands: Mapping[str, Any],
        attributes: Mapping[str, Any],
        location: Location,
    ) -> tuple[list[TensorType] | None, bool]:
        """Types of the results as far as they are known, and whether the invocation is valid.

        `operands` by parameter: a type, a list of types, or None where nothing is known.
        """
        # cached, because networks repeat their layers
        result: RuleResult | None = None
        key: Hashable = None
        if spec.name not in NOT_CACHED:
            key = spec.name, *map(_hashable, operands.values()), *attributes.values()
            result = self._cache.get(key)
        if result is None:
            result = self._apply(spec, operands, attributes)
            if key is not None:
                self._cache[key] = result
        types, problems, excess = result
        for problem in problems:
            self._problem(f"argument/{spec.name}", f"{spec.name}: {problem}", location)
        if excess:
            message = f"{spec.name}: the result {excess}"
            self._problem("limit/tensor", message, location, how_to_raise("tensor_bytes"))
        if spec.lenient_border and attributes.get("border") == "ignore":
            self._warn_of_ignore(spec.name, location)
        return types, not (problems or excess)

    def _apply(
        self, spec: OpSpec, operands: Mapping[str, Any], attributes: Mapping[str, Any]
    ) -> RuleResult:
        """The result of the shape rule, checked against the limits."""
        types, problems = infer(spec, Call(spec.name, operands, attributes))
        excess = ""
        for type_ in types or ():
            shape = type_.shape or ()
            if len(shape) > self._limits.rank:
                problems.append(f"the result has rank {len(shape)}; at most {self._limits.rank}")
            else:
                excess = excess or too_large(type_, self._limits)
        return types, problems, excess

    def _warn_of_ignore(self, name: str, location: Location) -> None:
        """Warn once per document: exporters write it, but the specification does not define it."""
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
        types: Sequence[TensorType] | None,
        inputs: Sequence[Value],
        location: Location,
    ) -> None:
        """Check that the shape rule of a custom operation gave a type for each result."""
        if any(value.type.shape is None for value in inputs):
            return
        name = node.callee.name
        if types is None:
            message = f"the shape rule of '{name}' gives no types"
            self._problem("custom/shape", message, location)
        elif results.lengths(node, len(types), {}) is None:
            message = f"the shape rule of '{name}' gives {len(types)} types for {node.type}"
            self._problem("custom/shape", message, location)


def too_large(type_: TensorType, limits: Limits) -> str:
    """Predicate of a message if a tensor exceeds the limit `tensor_bytes`; "" if it does not."""
    if type_.shape is None or type_.nbytes <= limits.tensor_bytes:
        return ""
    shape = ",".join(map(str, type_.dims))
    return (
        f"of shape [{shape}] takes {type_.nbytes} bytes, more than the limit tensor_bytes of "
        f"{limits.tensor_bytes}"
    )


def _hashable(operand: Any) -> Hashable:
    """An operand of `Rules.check` as part of a dictionary key."""
    if not isinstance(operand, list):
        return operand
    types: list[TensorType] = operand  # pyright: ignore[reportUnknownVariableType]
    return tuple(types)
