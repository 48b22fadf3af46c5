"""Check operations of a graph by the rules of the table."""

from __future__ import annotations

from nnefc.ir import Op
from nnefc.ops.core import check
from nnefc.ops.tools.table import operations


def rule_problems(op: Op) -> list[str]:
    """Violated rules of an operation: the checker for `nnefc.ir.verify`.

    Operations that are not in the table, custom ones, have no rule here.
    """
    spec = operations().get(op.name)
    return [] if spec is None else check.problems(spec, op)
