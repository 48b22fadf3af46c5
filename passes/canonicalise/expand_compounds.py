"""Rewrite compound operations into simpler ones until every operation has a lowering."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from nnefc.ir import Graph, Op, Value
from nnefc.ops.core.interface import sequence
from nnefc.ops.core.spec import Lookup, OpSpec, no_custom
from nnefc.ops.tools.build import emitter
from nnefc.ops.tools.table import declared
from nnefc.passes.op_queries import replace
from nnefc.support.errors import Diagnostic, NnefError
from nnefc.support.limits import Limits


def _all(op: Op) -> bool:
    """The default `only` of `ExpandCompounds`."""
    del op
    return True


@dataclass(frozen=True)
class ExpandCompounds:
    """Expand operations that have an `expand`, recursively.

        %y: float32[4] = clamp(%x, %0, %1)

    becomes

        %2: float32[4] = min(%x, %1)
        %y: float32[4] = max(%2, %0)

    `lookup`: custom operations.  `only`: expand the operations for which it is true.  A custom
    operation may expand into itself, so `depth` bounds the rounds and `operations` the size of the
    graph.  Raises NnefError beyond these bounds, for an
    expansion that raises, and for one whose results differ in number or type from the operation's.
    """

    name: ClassVar[str] = "expand_compounds"
    enters_loops: ClassVar[bool] = True
    lookup: Lookup = no_custom
    only: Callable[[Op], bool] = _all
    depth: int = 64
    operations: int = Limits.operations

    def run(self, graph: Graph) -> bool:
        for round in range(self.depth):
            if not self._expand_once(graph):
                return round > 0
        op = next(op for op in graph.ops if self._compound(op) is not None)
        raise NnefError([_error(op, "limit/depth", f"expands more than {self.depth} times over")])

    def _compound(self, op: Op) -> OpSpec | None:
        """The entry of `op` if it has an expansion."""
        spec = declared().get(op.name) or self.lookup(op.name)
        return spec if spec is not None and spec.expand is not None and self.only(op) else None

    def _expand_once(self, graph: Graph) -> bool:
        """Expand every compound of the graph one level; returns whether it had any."""
        changed = False
        for op in graph.ops:
            spec = self._compound(op)
            if spec is None:
                continue
            values = _expansion(graph, op, spec)
            problems = _problems(op, values)
            if len(graph) > self.operations:
                message = f"the graph expands to more than {self.operations} operations"
                problems.append(_error(op, "limit/operations", message))
            if problems:
                raise NnefError(problems)
            replace(graph, op, values)
            changed = True
        return changed


def _expansion(graph: Graph, op: Op, spec: OpSpec) -> list[Value]:
    """The values that replace the results of `op`; their operations are inserted before it."""
    assert spec.expand is not None
    emit = emitter(graph, op, op.location)
    if op.name in declared():
        result = spec.expand(emit, op)
    else:
        try:
            result = spec.expand(emit, op)
        except NnefError:
            raise
        except Exception as error:  # the function is the user's
            message = f"the function registered for it raises {type(error).__name__}: {error}"
            raise NnefError([_error(op, "custom/function", message)]) from error
    items = sequence(result)
    values: list[Any] = [result] if items is None else items
    wrong = [value for value in values if not isinstance(value, Value)]
    if wrong:
        kinds = ", ".join(dict.fromkeys(type(value).__name__ for value in wrong))
        message = f"the function registered for it gives {kinds}, not values of the graph"
        hint = "return the value that emit(...) gives, or a tuple of them for several results"
        raise NnefError([_error(op, "custom/results", message, hint)])
    return values


def _problems(op: Op, values: list[Value]) -> list[Diagnostic]:
    """Results of an expansion that do not match `op`; expansions may be functions of the user."""
    if len(values) != len(op.outputs):
        message = f"its expansion gives {len(values)} results, not {len(op.outputs)}"
        return [_error(op, "custom/results", message)]
    return [
        _error(op, "custom/type", f"its expansion gives {new.type}, not {old.type}")
        for old, new in zip(op.outputs, values)
        if new.type != old.type and old.type.shape is not None
    ]


def _error(op: Op, rule: str, message: str, hint: str = "") -> Diagnostic:
    place = op.location.place if op.location else None
    chain = op.location.chain if op.location else ()
    return Diagnostic(rule, f"{op.name}: {message}", place, chain=chain, hint=hint)
