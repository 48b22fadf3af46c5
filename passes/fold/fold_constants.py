"""Compute operations on constants at compile time."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from nnefc.ir import Graph, Op
from nnefc.ops.core.arrays import widen
from nnefc.ops.core.traits import Folding
from nnefc.ops.tools.reference import apply
from nnefc.ops.tools.table import operations
from nnefc.passes.analysis.known_data import KnownValues, constant_op, is_widening
from nnefc.passes.op_queries import is_constant, is_elementwise, replace, splat, splat_op
from nnefc.support.errors import NnefError
from nnefc.symbolic.integers import is_symbolic

_READ_BLOCKS: Final = {"fused_matmul": 1, "gather": 0, "linear": 1, "matmul": 1}
"""Operations that may read blocks, and the position of the operand."""
_KEEP_BLOCKS: Final = ("cast", "reshape", "squeeze", "transpose", "unsqueeze")


@dataclass(frozen=True)
class FoldConstants:
    """Evaluate operations whose operands are constants or variables that never change.

        %0: float32[] = constant() {shape = [], value = [2.0]}
        %1: float32[3] = constant() {shape = [3], value = [1.0, 2.0, 3.0]}
        %y: float32[3] = mul(%1, %0)

    becomes, but for operations that are dead now,

        %y: float32[3] = constant() {shape = [3], value = tensor float32[3] [2.0, 4.0, 6.0]}

    The reference computes in float64 and int64; results are rounded to the item type once per
    operation.  Not folded are: views of variables, which cost nothing; results of more than
    `growth` times the stored items of the operands plus `small`; operations on more than `repeated`
    items that repeat one number; operations of more than `work` multiplications; and operations
    that only enlarge weights: dequantization, and widening of more than `small` 16-bit floats.
    Blocks that no product or gather reads are dequantized, as nothing decodes them in registers.

    Tensors without items are known, whatever computes them.  Raises NnefError `operator/empty` for
    an operation that is undefined for them, such as a maximum.
    """

    name: ClassVar[str] = "fold_constants"
    enters_loops: ClassVar[bool] = True
    growth: int = 2
    small: int = 4096
    repeated: int = 1 << 22
    work: int = 1 << 26

    def run(self, graph: Graph) -> bool:
        known = KnownValues(graph)
        changed = False
        for op in graph.ops:
            if self._foldable(op, known):
                results = _fold(op, known)
                replace(graph, op, [graph.insert(r, op).output for r in results])
                changed = True
        return changed

    def _foldable(self, op: Op, known: KnownValues) -> bool:
        """Whether `op` has known operands and its result is worth storing."""
        spec = operations().get(op.name)
        if spec is None or not spec.pure or not op.inputs or spec.reference is None:
            return False
        if op.outputs and all(v.type.is_empty for v in op.outputs):
            return True
        if spec.traits.folding is Folding.NEVER and not _blocks_without_product(op):
            return False
        if any(v.type.shape is None or is_symbolic(v.type.shape) for v in op.outputs):
            return False
        if not all(v in known or v.type.is_empty for v in op.inputs):
            return False
        if spec.traits.folding is Folding.NEVER:
            return True
        if is_elementwise(op) and _splats(op) is not None:
            return True
        halves = is_widening(op) and op.inputs[0].type.dtype.is_half
        if halves and op.output.type.volume > self.small:
            return False
        if spec.traits.view and not is_constant(op.inputs[0]):
            return False
        repeated = sum(v.type.volume for v in op.inputs if splat(v) is not None)
        stored = sum(1 if splat(v) is not None else v.type.volume for v in op.inputs)
        results = sum(v.type.volume for v in op.outputs)
        if repeated > self.repeated or results > self.growth * stored + self.small:
            return False
        linear = spec.traits.folding is Folding.LINEAR
        return linear or max(v.type.volume for v in op.inputs) * results <= self.work


def _blocks_without_product(op: Op) -> bool:
    """Whether `op` dequantizes blocks that no product and no gather can read as they are."""
    if op.name != "dequantize_blocks" or not op.output.users:
        return False
    values = [op.output]
    for value in values:
        for user in value.users:
            if user.name in _READ_BLOCKS and user.inputs.index(value) == _READ_BLOCKS[user.name]:
                return False
            if user.name in _KEEP_BLOCKS:
                values += user.outputs
    return not any(user.bodies for value in values for user in value.users)


def _splats(op: Op) -> list[Any] | None:
    """The numbers that the operands repeat; None if an operand is not a splat."""
    numbers = [splat(v) for v in op.inputs]
    return None if any(n is None for n in numbers) else numbers


def _fold(op: Op, known: KnownValues) -> list[Op]:
    """A constant for each output of `op`; they are not inserted into a graph."""
    if all(v.type.is_empty for v in op.outputs):
        empty = [np.empty(v.type.dims, v.type.dtype.numpy) for v in op.outputs]
        return [constant_op(r, v.type, op.location) for v, r in zip(op.outputs, empty, strict=True)]
    if any(v.type.is_empty for v in op.inputs):
        return _of_no_items(op, known)
    with np.errstate(all="ignore"):
        numbers = _splats(op) if is_elementwise(op) else None
        if numbers is not None:
            operands = [widen(n, v.type.dtype) for n, v in zip(numbers, op.inputs)]
            result = apply(op, operands)[0].astype(op.output.type.dtype.numpy)
            return [splat_op(op.output.type, result.item(), op.location)]
        results = apply(op, [widen(known.items(v), v.type.dtype) for v in op.inputs])
        return [
            constant_op(r, v.type, op.location) for v, r in zip(op.outputs, results, strict=True)
        ]


def _of_no_items(op: Op, known: KnownValues) -> list[Op]:
    """A constant for each output of an operation on tensors of which some have no items."""
    operands: list[Any] = []
    for value in op.inputs:
        dtype = value.type.dtype
        is_empty = value.type.is_empty
        items = np.empty(value.type.dims, dtype.numpy) if is_empty else known.items(value)
        operands.append(widen(items, dtype))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of no items is NaN
        try:
            results = apply(op, operands)
        except (ValueError, IndexError):
            message = f"there is no {op.name} of a tensor without items"
            place = op.location.place if op.location is not None else None
            raise NnefError.of("operator/empty", message, place) from None
    return [constant_op(r, v.type, op.location) for v, r in zip(op.outputs, results, strict=True)]
