"""`PlanTemplate`: a plan whose numbers are a function of symbols, as data.

`nnefc.runtime.plan.trace_template` makes one from a traced program, `runtime.artifact` writes and
reads it, and `SymbolicExecutable` runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from nnefc.runtime.memory.caller_arrays import TensorSpec
    from nnefc.runtime.plan.launch_table import LaunchTable
    from nnefc.runtime.plan.plan import Int64Array, Plan
    from nnefc.symbolic.straight_line import StraightLine

    Array = np.ndarray[Any, Any]


class Sections(NamedTuple):
    """Where the numbers of a plan stand among the results of a template's function."""

    params: Int64Array
    """The varying parameters."""
    tiles: Int64Array
    """The tiles of each distinct launch; empty if neither they nor repetitions vary."""
    steps: Int64Array
    """The lengths of repeated runs."""
    arena_bytes: Int64Array
    """One number."""
    inputs: Int64Array
    """All extents of the varying inputs."""
    outputs: Int64Array
    appended: Int64Array
    """Items that are appended to each appended input of the session."""


class PlanTemplate(NamedTuple):
    """A plan for many shapes."""

    plan: Plan
    """The plan for the hints of symbols."""
    launches: LaunchTable
    slots: Int64Array
    """Indices of the varying parameters."""
    bases: Sequence[int]
    """Indices, in the table of base addresses, of the constants that each shape has for itself."""
    inputs: Sequence[int]
    """Numbers of the inputs with a varying shape."""
    outputs: Sequence[int]
    program: StraightLine
    """The function of the symbols: distinct numbers, then a table for each of `bases`."""
    sections: Sections


def of_varying(specs: Sequence[TensorSpec], numbers: Sequence[int]) -> list[int]:
    """All extents of the tensors with these numbers, in order."""
    return [extent for i in numbers for extent in specs[i].shape]
