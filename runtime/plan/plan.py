"""Plans: programs encoded as integers that the executor interprets.

`kernels.abi.LAUNCH` defines the layout of a launch.  Parameters name memory as (index into the
table of bases, byte offset), so a plan is position-independent and read-only.  Concurrent calls
each have their own table of bases and arena, and share the plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    Int64Array = np.ndarray[Any, np.dtype[np.int64]]


class BaseTable(NamedTuple):
    """Index of the first base address of each memory space."""

    constants: int
    states: int
    inputs: int
    outputs: int
    slices: int
    size: int


class Plan(NamedTuple):
    """`launches`: int64 [steps, 4]; `params`: int64.

    A step is one execution of a launch; launches that run several times share their parameters.
    """

    launches: Int64Array
    launch_of: Int64Array
    """[steps]: index of the launch among the distinct launches of the program."""
    params: Int64Array
    table: BaseTable
    arena_bytes: int
    arena_lower_bound: int
    """The most bytes live at one time: no arrangement needs less."""
    parallel: bool
    """Whether any launch has more than one tile."""


class LaunchSequence(NamedTuple):
    """Launches for a team: address of the first, their number, whether threads share them."""

    launches: int
    steps: int
    parallel: bool
