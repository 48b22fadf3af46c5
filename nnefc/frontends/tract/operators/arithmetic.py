"""Element-wise operators; operands are promoted to a common item type first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import not_empty, take_room
from nnefc.frontends.common.operators import boolean_arithmetic
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, operand
from nnefc.frontends.tract.quantization import as_real
from nnefc.frontends.tract.registry import operator
from nnefc.ir import DType, Value
from nnefc.symbolic.integers import specialized

if TYPE_CHECKING:
    from nnefc.frontends.tract.model_context import ModelContext

# -- one operand: operations of NNEF 1.0.2

_UNARY: Final = (
    "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh",
    "atanh", "sqrt", "rsqrt", "rsqr", "log2", "sigmoid", "tanh", "softplus",
    "floor", "ceil", "round", "relu", "neg", "abs", "sign", "sqr",
)  # fmt: skip
_ON_INTEGERS: Final = {"neg", "abs", "sign", "sqr", "relu"}
"""Operations that are defined on integers too."""
_IDENTITY_ON_INTEGERS: Final = {"floor", "ceil", "round"}
"""Operations that return integers unchanged."""


def _unary(name: str, x: Operand, make: OpBuilder) -> Operand:
    """Operation `name` of x; integers are cast to float32 unless it is defined on them."""
    if name in boolean_arithmetic.UNCHANGED and boolean_arithmetic.are_booleans(x):
        return x
    if x.type.dtype.is_integer or x.type.dtype is DType.BOOL:
        if name in _IDENTITY_ON_INTEGERS:
            return x
        if name not in _ON_INTEGERS:
            x = make.cast(x, DType.FLOAT32)
    return make(name, x)


def _register_unary(name: str) -> None:
    """Register an operation of NNEF 1.0.2 with one operand."""

    def function(make: OpBuilder, x: Operand) -> Any:
        return _unary(name, x, make)

    function.__name__ = name
    operator("tract_nnef")(function)


for _name in _UNARY:
    _register_unary(_name)


@operator("tract_nnef", "rcp")
def recip(make: OpBuilder, x: Operand) -> Any:
    """1 / x."""
    return make("rcp", x)


@operator("tract_nnef")
def not_(make: OpBuilder, x: Operand) -> Any:
    return make("not", make.cast(x, DType.BOOL))


@operator("tract_core")
def tract_core_round_even(make: OpBuilder, input: Operand, decimals: int = 0) -> Any:
    """Nearest number, ties to even, with `decimals` digits after the point (beyond tract)."""
    if input.type.dtype.is_integer:
        return input
    if not decimals:
        return make("round_even", input)
    scale = 10.0**decimals
    return make("div", make("round_even", make("mul", input, scale)), scale)


@operator("tract_core")
def tract_core_erf(make: OpBuilder, input: Operand) -> Any:
    return make("erf", input)


@operator("tract_core")
def tract_core_bitnot(make: OpBuilder, input: Operand) -> Any:
    return make("bitnot", input)


@operator("tract_core")
def tract_core_is_nan(make: OpBuilder, input: Operand) -> Any:
    return make("is_nan", input)


@operator("tract_core", "tract_onnx_isinf")
def tract_core_is_inf(
    make: OpBuilder, input: Operand, detect_positive: bool = True, detect_negative: bool = True
) -> Any:
    return make("is_inf", input, detect_positive=detect_positive, detect_negative=detect_negative)


@operator("tract_core")
def tract_core_hard_swish(make: OpBuilder, input: Operand) -> Any:
    """x * min(max(x / 6 + 1/2, 0), 1)."""
    gate = make("add", make("mul", input, 1.0 / 6.0), 0.5)
    return make("mul", input, make("clamp", gate, 0.0, 1.0))


@operator("tract_core", "tract_transformers_silu")
def tract_core_silu(make: OpBuilder, input: Operand) -> Any:
    return make("silu", input)


@operator("tract_core", "tract_transformers_gelu_approx")
def tract_core_gelu_approx(make: OpBuilder, input: Operand, fast_impl: bool = False) -> Any:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^p))), with p = 2 if `fast_impl`, otherwise 3."""
    power = make("mul", input, input)
    if not fast_impl:
        power = make("mul", power, input)
    inner = make("add", input, make("mul", power, 0.044715))
    gate = make("add", make("tanh", make("mul", inner, math.sqrt(2 / math.pi))), 1.0)
    return make("mul", make("mul", input, 0.5), gate)


@operator("tract_core")
def tract_core_pow_const(make: OpBuilder, input: Operand, exponent: float) -> Any:
    """x to the power of a number."""
    return pow_(make, input, exponent)


# -- several operands


def _aligned(make: OpBuilder, *operands: Any) -> list[Operand]:
    """Operands of a common item type and rank; missing dimensions are appended, as in NNEF."""
    tensors = make.unified(*operands)
    rank = max(x.type.rank for x in tensors)
    return [
        make.reshape(x, x.type.dims + (1,) * (rank - x.type.rank)) if x.type.rank else x
        for x in tensors
    ]


def _broadcast(make: OpBuilder, name: str, *operands: Any) -> Any:
    """Operation `name` of aligned operands; on booleans that of `boolean_arithmetic`."""
    aligned = _aligned(make, *operands)
    if boolean_arithmetic.are_booleans(*aligned):
        result = boolean_arithmetic.binary(make, name, *aligned)
        if result is not None:
            return result
    return make(name, *aligned)


@operator("tract_nnef", quantized=True)
def add(make: OpBuilder, x: Any, y: Any) -> Any:
    return _on_reals(make, "add", x, y)


@operator("tract_nnef", quantized=True)
def sub(make: OpBuilder, x: Any, y: Any) -> Any:
    return _on_reals(make, "sub", x, y)


@operator("tract_nnef", quantized=True)
def mul(make: OpBuilder, x: Any, y: Any) -> Any:
    return _on_reals(make, "mul", x, y)


def _on_reals(make: OpBuilder, name: str, x: Any, y: Any) -> Any:
    """Operation `name` of dequantized operands.

    If graph.quant has an entry for the result, the evaluator quantizes it.
    """
    return _broadcast(make, name, as_real(make, x), as_real(make, y))


@operator("tract_nnef")
def div(make: OpBuilder, x: Operand, y: Operand) -> Any:
    x, y = _aligned(make, x, y)
    if isinstance(y, KnownTensor) and y.dtype.is_integer and not y.array.all():
        raise OperatorError("operator/division", "integers are divided by zero")
    if isinstance(y, Value) and y.type.dtype.is_integer and make.is_known(y) and _is_symbolic(make):
        raise OperatorError(
            "operator/division", "whether integers are divided by zero depends on symbols"
        )
    return make("div", x, y)


def _is_symbolic(make: OpBuilder) -> bool:
    """Whether extents of the graph are symbolic; on OperatorError a concrete graph is used."""
    model: ModelContext = make.evaluator.context.model
    return model.is_symbolic


@operator("tract_nnef")
def pow_(make: OpBuilder, x: Operand, y: Any) -> Any:
    if isinstance(y, KnownTensor) and y.array.size == 1:
        # a single exponent is treated as a literal, so that small ones select a cheaper operation
        y = specialized(y.array.reshape(()).item())
    if isinstance(y, bool | int | float):
        match float(y):
            case 1.0:
                return x
            case 2.0:
                return _unary("sqr", x, make)
            case 0.5 if x.type.dtype.is_float:
                return make("sqrt", x)
            case -0.5 if x.type.dtype.is_float:
                return make("rsqrt", x)
            case exponent if x.type.dtype.is_integer:
                real = make("pow", make.cast(x, DType.FLOAT64), exponent)
                return make.cast(real, x.type.dtype)
            case exponent:
                return make("pow", x, exponent)
    return _broadcast(make, "pow", x, operand(y))


def _register_binary(
    registry: str, name: str, operation: str = "", *, logical: bool = False, text: str = ""
) -> None:
    """Register an operation with two operands as operator `name`; by default that of the name."""

    def function(make: OpBuilder, x: Operand, y: Operand) -> Any:
        if logical:
            x, y = make.cast(x, DType.BOOL), make.cast(y, DType.BOOL)
        return _broadcast(make, operation or name, x, y)

    function.__name__, function.__doc__ = name, text
    operator(registry)(function)


for _name in ("min", "max", "lt", "gt", "le", "ge", "eq", "ne"):
    _register_binary("tract_nnef", _name)
for _name in ("and", "or"):
    _register_binary("tract_nnef", _name, logical=True)
_register_binary("tract_core", "tract_core_xor", "xor", logical=True)
for _name in ("bitand", "bitor", "bitxor"):
    _register_binary("tract_core", f"tract_core_{_name}", _name)
_register_binary("tract_core", "tract_shl", "shift_left", text="x shifted by y bits to the left.")
_register_binary("tract_core", "tract_shr", "shift_right", text="x shifted by y bits to the right.")


@operator("tract_core")
def tract_core_remainder(make: OpBuilder, x: Operand, y: Operand) -> Any:
    return _broadcast(make, "remainder", x, y)


@operator("tract_nnef")
def select(make: OpBuilder, condition: Operand, true_value: Operand, false_value: Operand) -> Any:
    condition = make.cast(condition, DType.BOOL)
    if isinstance(condition, KnownTensor) and condition.array.size == 1:
        chosen = true_value if condition.array.reshape(()) else false_value
        other = false_value if chosen is true_value else true_value
        if chosen.type.volume == 1 and other.type.volume == 1:
            return chosen
    true_value, false_value = make.unified(true_value, false_value)
    rank = max(x.type.rank for x in (condition, true_value, false_value))
    shaped = [
        make.reshape(x, x.type.dims + (1,) * (rank - x.type.rank))
        for x in (condition, true_value, false_value)
    ]
    return make("select", *shaped)


@operator("tract_nnef")
def clamp(make: OpBuilder, x: Operand, a: Operand, b: Operand) -> Any:
    tensors = make.unified(x, a, b)
    return make("min", make("max", *_aligned(make, *tensors[:2])), tensors[2])


@operator("tract_nnef")
def leaky_relu(make: OpBuilder, x: Operand, alpha: float) -> Any:
    return make("leaky_relu", x, alpha=alpha)


@operator("tract_nnef")
def prelu(make: OpBuilder, x: Operand, alpha: Operand) -> Any:
    return _broadcast(make, "prelu", x, alpha)


@operator("tract_nnef")
def elu(make: OpBuilder, x: Operand, alpha: float = 1.0) -> Any:
    return make("elu", x, alpha=alpha)


@operator("tract_nnef")
def selu(
    make: OpBuilder, x: Operand, alpha: float = 1.67326319, lambda_: float = 1.05070102
) -> Any:
    attributes: dict[str, Any] = {"alpha": alpha, "lambda": lambda_}
    return make("selu", x, **attributes)


@operator("tract_nnef")
def gelu(make: OpBuilder, x: Operand) -> Any:
    return make("gelu", x)


@operator("tract_nnef")
def silu(make: OpBuilder, x: Operand) -> Any:
    return make("silu", x)


@operator("tract_nnef")
def softabs(make: OpBuilder, x: Operand, epsilon: float) -> Any:
    return make("softabs", x, epsilon=epsilon)


@operator("tract_nnef")
def add_n(make: OpBuilder, x: tuple[Operand, ...]) -> Any:
    return sum_of(make, x)


def sum_of(make: OpBuilder, x: Sequence[Operand]) -> Operand:
    """The sum of tensors; raises OperatorError for none."""
    not_empty("add_n", "x", x)
    total = x[0]
    for each in x[1:]:
        total = _broadcast(make, "add", total, each)
    return total


@operator("tract_nnef", quantized=True)
def copy(make: OpBuilder, x: Any) -> Any:
    return x


@operator("tract_nnef")
def copy_n(make: OpBuilder, x: Operand, times: int) -> Any:
    take_room(make.budget, times)
    return (x,) * times
