"""layout and shuffle_channels, which move items.

    layout(x)

stores x in the layout of its result's type.

    shuffle_channels(x0, x1, ...) {source}

concatenates its operands along the channels; channel c of the result is channel source[c] of the
concatenation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnefc.ir import Op
from nnefc.ops.core import batch_rules, blocked_rules
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.spec import Interpreter, OpSpec, internal
from nnefc.ops.core.traits import MOVEMENT


def _layout(op: Op, operands: list[Array], interpreter: Interpreter) -> Sequence[Array]:
    del op, interpreter
    return operands


def _shuffle_channels(op: Op, operands: list[Array], interpreter: Interpreter) -> Sequence[Array]:
    del interpreter
    return [np.concatenate(operands, 1).take(op.attributes["source"], 1)]


SPECS: tuple[OpSpec, ...] = (
    internal(
        name="layout",
        summary="The same tensor in another layout.",
        verify=None,
        evaluate=_layout,
        traits=MOVEMENT._replace(batch=batch_rules.every),
    ),
    internal(
        name="shuffle_channels",
        summary="Channels in another order.",
        verify=None,
        evaluate=_shuffle_channels,
        traits=MOVEMENT._replace(batch=batch_rules.every, blocked=blocked_rules.any_layout),
    ),
)
