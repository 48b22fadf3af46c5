"""Constants of the tables that `upsample` reads."""

from __future__ import annotations

from typing import Final

ONE_ROW, TWO_ROWS = 1, 2
"""Kinds of pieces of `upsample.linear`: outputs of one input row, or between two input rows."""


COLUMN: Final = 3
"""Words of a table entry of `upsample.linear`."""

CODE_RUN: Final = 4
"""Words of a run of outputs of `upsample.code_linear`."""
CODE_NUMBERS: Final = 8
"""Numbers that all pieces of `upsample.code_linear` read."""
