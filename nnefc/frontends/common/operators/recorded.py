"""The interface of operators that converted models record beside their nodes.

A converter records each operator whose arithmetic the standard operators cannot say.  Front ends
take the function that evaluates such records as an argument: they do not import each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Operand

EvaluateRecord = Callable[[OpBuilder, Any, Sequence[Operand]], Operand]
"""The result of an operator, from its record (values as in JSON) and the inputs that it names.

Raises ValueError, or what reading a malformed record raises, if the record does not fit.
"""
