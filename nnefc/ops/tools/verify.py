"""Check operations of a graph against the table of operations."""

from __future__ import annotations

from nnefc.ir import Op
from nnefc.ops.core import check
from nnefc.ops.tools.table import operations


def rule_problems(op: Op) -> list[str]:
    """The rules that `op` violates: the checker for `nnefc.ir.verify`.

    Custom operations, which are not in the table, have no rules.
    """
    spec = operations().get(op.name)
    return [] if spec is None else check.problems(spec, op)
