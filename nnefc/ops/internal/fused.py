"""fused, and operations that apply an expression to their result.

    fused(inputs) {expression}

broadcasts its inputs as NNEF does (4.2.2: aligned at dimension 0, singular extents repeat) and
evaluates the expression for every item of the output.

    fused_matmul(A, B, others) {..., expression}

first computes `matmul(A, B) {...}`.  The first input of the expression is the sums, in the type of
the accumulator; the further inputs are `others`, which broadcast.

A of 16-bit floats is multiplied with B rounded to the type of A, and the sums are float32
(`passes.machine.lower_precision`).

    fused_code_conv(input, filter, input_zero, filter_zero, others) {..., expression}

and `fused_code_deconv` do so with int32 sums; the expression is a requantization
(`nnefc.ops.internal.requantization`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from nnefc.ir import DType, Op, TensorType
from nnefc.ops.core import batch_rules, check
from nnefc.ops.core.arrays import Array
from nnefc.ops.core.cost import Cost, expression_steps, output_items
from nnefc.ops.core.spec import ExpressionUse, Interpreter, OpSpec, internal
from nnefc.ops.core.traits import ELEMENTWISE, OPAQUE, Folding
from nnefc.ops.extended import integer_products
from nnefc.ops.internal import code_matmul, mean_variance
from nnefc.ops.internal.read_requantization import requantization_of
from nnefc.ops.standard import convolution, matmul


def plain_op(plain: OpSpec, operands: int, op: Op) -> Op:
    """`op` without its expression: the operation `plain` on the first `operands` operands."""
    assert plain.traits.accumulator is not None
    attributes = {k: v for k, v in op.attributes.items() if k not in ("expression", "algorithm")}
    if plain.name.startswith("integer_"):
        attributes[integer_products.WIDE] = False
    type_ = TensorType(plain.traits.accumulator(op), op.output.type.shape)
    return Op(plain.name, op.inputs[:operands], attributes, [type_])


def _with_expression(
    plain: OpSpec, operands: int, problems: Callable[[Op], list[str]] | None = None
) -> OpSpec:
    """The entry of the operation that applies an expression to the sums of `plain`.

    `operands`: number of operands of `plain`.  `problems`: further rules.
    """
    assert plain.traits.with_expression is not None
    inner = partial(plain_op, plain, operands)

    def start(op: Op) -> int:
        del op
        return operands

    def verify(op: Op) -> list[str]:
        return [*check.problems(plain, inner(op)), *(problems(op) if problems else [])]

    def evaluate(op: Op, values: list[Array], interpreter: Interpreter) -> Sequence[Array]:
        result = interpreter.apply(inner(op), values[:operands])
        types = [v.type for v in op.outputs]
        inputs = [*result, *values[operands:]]
        return interpreter.expression(op.attributes["expression"], inputs, types)

    multiplied, others, rule = *plain.traits.cost, plain.traits.batch

    def multiply_adds(op: Op) -> int:
        return multiplied(inner(op)) if multiplied is not None else 0

    def other(op: Op) -> int:
        return _steps(op) + (others(inner(op)) if others is not None else 0)

    return internal(
        name=plain.traits.with_expression,
        summary=f"{plain.name}, then an expression of its result.",
        verify=verify,
        evaluate=evaluate,
        traits=plain.traits._replace(
            cost=Cost(multiply_adds if multiplied is not None else None, other),
            batch=batch_rules.then_expression(rule, start) if rule is not None else None,
            with_expression=None,
        ),
        expression=ExpressionUse(start),
    )


def _requantization_problems(op: Op) -> list[str]:
    """The expression of a convolution of codes must be a requantization, or give the sums."""
    expression = op.attributes["expression"]
    is_sums = not expression.steps and expression.inputs == (DType.INT32,)
    if is_sums or requantization_of(expression) is not None:
        return []
    return ["the expression is no requantization of the sums"]


def _first_operand(op: Op) -> int:
    """0: all operands are inputs of the expression."""
    del op
    return 0


def _steps(op: Op) -> int:
    return expression_steps(op) * output_items(op)


def _evaluate(op: Op, operands: list[Array], interpreter: Interpreter) -> Sequence[Array]:
    types = [v.type for v in op.outputs]
    return interpreter.expression(op.attributes["expression"], operands, types)


def _int32(op: Op) -> DType:
    """int32, as accumulator."""
    del op
    return DType.INT32


_PLAIN: Final = {
    spec.name: spec
    for module in (matmul, convolution, integer_products, mean_variance, code_matmul)
    for spec in module.SPECS
}


def _of_codes(name: str) -> OpSpec:
    """The entry of the convolution integer_`name`, to which an expression may be applied."""
    plain = _PLAIN[f"integer_{name}"]
    traits = OPAQUE._replace(
        cost=plain.traits.cost,
        batch=batch_rules.first,
        resized=_PLAIN[name].traits.resized,
        accumulator=_int32,
        with_expression=f"fused_code_{name}",
    )
    return replace(plain, traits=traits)


SPECS: tuple[OpSpec, ...] = (
    internal(
        name="fused",
        summary="An expression of items.",
        verify=None,
        evaluate=_evaluate,
        traits=ELEMENTWISE._replace(
            cost=Cost(multiply_adds=None, other=_steps), folding=Folding.BOUNDED, permuted=None
        ),
        expression=ExpressionUse(_first_operand),
    ),
    _with_expression(_PLAIN["matmul"], 2),
    _with_expression(_PLAIN["conv"], 3),
    _with_expression(_PLAIN["deconv"], 3),
    *(
        _with_expression(_of_codes(name), integer_products.OPERANDS, _requantization_problems)
        for name in ("conv", "deconv")
    ),
    _with_expression(_PLAIN[mean_variance.NAME], 1),
    _with_expression(_PLAIN[code_matmul.NAME], integer_products.OPERANDS),
)
