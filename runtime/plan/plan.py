"""A plan: a program as the words that the executor walks.

A launch is laid out as `kernels.abi.LAUNCH` says.  Parameters name memory as (index into the
table of bases, byte offset), so a plan is position-independent and read-only: callers that run
it at the same time each have a table of bases and an arena, and share the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    Int64Array = np.ndarray[Any, np.dtype[np.int64]]


class BaseTable(NamedTuple):
    """Where the base addresses of each space start in the table."""

    constants: int
    states: int
    inputs: int
    outputs: int
    slices: int
    size: int


class Plan(NamedTuple):
    """`launches`: int64 [steps, 4]; `params`: int64.

    A step is one run of a launch; those that run several times share their parameters.
    """

    launches: Int64Array
    launch_of: Int64Array
    """[steps]: which of the distinct launches of the program it is."""
    params: Int64Array
    table: BaseTable
    arena_bytes: int
    arena_lower_bound: int
    """No arrangement of what lives in the arena needs less."""
    parallel: bool
    """Whether any launch has more than one tile."""


class LaunchSequence(NamedTuple):
    """Launches of a plan for a team to run: their address, how many, whether together."""

    launches: int
    steps: int
    parallel: bool
