"""What it takes to run a model: the result of compiling, or what a file holds of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from nnefc.ir import Count, State, Variable
    from nnefc.program.program import Appended
    from nnefc.runtime.compile.executable_memory import Code
    from nnefc.runtime.memory.tensors import TensorSpec
    from nnefc.runtime.plan.launch_info import LaunchInfo
    from nnefc.runtime.plan.plan import Plan

Array = np.ndarray[Any, Any]


class SessionLayout(NamedTuple):
    """Which inputs and outputs of a plan a session carries from call to call."""

    states: tuple[State, ...] = ()
    counts: tuple[Count, ...] = ()
    appended: tuple[Appended, ...] = ()
    """States whose input a call writes into, behind the items that it reads there."""


STATELESS: Final = SessionLayout()
"""The layout of plans that keep nothing between calls."""


class Compiled(NamedTuple):
    """Code and data of a model; it has no graph, and does not change."""

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    variables: Mapping[str, Variable]
    """By label in lower case, with their initial values."""
    states: tuple[str, ...]
    """Keys of those that have a mutable buffer, in the order of the table of bases."""
    code: Code
    plan: Plan
    work: int
    """Operations, and bytes that are read, of a call."""
    launches: Callable[[], tuple[LaunchInfo, ...]]
    constants: Callable[[], Sequence[Array]]
    """In the order of the table of bases; whoever runs the plan keeps them."""
    constant_bytes: int
    session: SessionLayout = STATELESS
