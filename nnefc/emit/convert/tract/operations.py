"""How the dialect of tract writes operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nnefc.emit.convert.tract.scan import scan
from nnefc.emit.convert.tract.writer import TYPE_NAMES, Handler, TractWriter, Unsupported
from nnefc.ir import DType, Op, Value
from nnefc.ir.compare import same_attribute
from nnefc.ops.core.interface import interface
from nnefc.ops.standard.slice_pad_tile_gather import slice_ranges
from nnefc.ops.tools.table import declared
from nnefc.passes.op_queries import splat

HANDLERS: dict[str, Handler] = {}

SAME: Final = (
    "neg", "exp", "log", "sin", "cos", "abs", "sign", "floor", "ceil", "round", "sqr", "sqrt",
    "rsqr", "rsqrt", "log2", "sigmoid", "relu", "tanh", "softplus", "tan", "sinh", "cosh", "asin",
    "acos", "atan", "asinh", "acosh", "atanh", "copy", "not", "select", "add", "sub", "mul", "div",
    "pow", "lt", "gt", "le", "ge", "eq", "ne", "and", "or", "min", "max", "sum_reduce",
    "mean_reduce", "max_reduce", "min_reduce", "all_reduce", "any_reduce", "transpose", "split",
    "stack", "unstack", "concat", "tile", "clamp", "prelu", "leaky_relu", "elu", "selu", "gelu",
    "silu", "softabs", "softmax", "avg_pool", "rms_pool", "box", "debox", "l1_normalization",
    "l2_normalization", "local_response_normalization", "batch_normalization", "moments", "add_n",
    "nearest_downsample", "area_downsample", "nearest_upsample", "multilinear_upsample",
)  # fmt: skip
"""Operations that the dialect writes as NNEF does."""
RENAMED: Final = {
    **{
        name: f"tract_core_{name}"
        for name in (
            "erf", "round_even", "is_nan", "is_inf", "xor", "bitand", "bitor", "bitxor", "bitnot",
            "gather", "gather_elements", "gather_nd", "scatter_elements", "scatter_nd", "topk",
            "product_reduce", "argmax_reduce_last", "argmin_reduce_last", "grid_sample",
        )
    },
    "rcp": "recip",
    "shift_left": "tract_shl",
    "shift_right": "tract_shr",
}  # fmt: skip
"""Operations that have another name in the dialect, and the same parameters."""


def _handler(name: str) -> Callable[[Handler], Handler]:
    def register(function: Handler) -> Handler:
        HANDLERS[name] = function
        return function

    return register


def invocation(w: TractWriter, op: Op, name: str) -> str:
    """An operation with the operands and attributes of its declaration.

    tract has defaults for the attributes of NNEF only.
    """
    spec = declared()[op.name]
    parameters = interface(spec)
    operands = iter(range(len(op.inputs)))
    arguments: list[str] = []
    arrays = len(op.inputs) - len(parameters.tensors) + 1
    for parameter in parameters.tensors:
        if parameter.is_array:
            items = [w.operand(op.inputs[next(operands)]) for _ in range(arrays)]
            arguments.append(f"[{', '.join(items)}]")
        else:
            arguments.append(w.in_place(op, next(operands)))
    for key in parameters.attributes:
        value = op.attributes[key]
        if key == "axes" and op.name != "transpose":
            value = tuple(sorted(value))  # as tract requires
        default = parameters.defaults.get(key)
        is_default = default is not None and same_attribute(value, default)
        if not is_default or name.startswith("tract"):
            arguments.append(f"{key} = {w.literal(value)}")
    return f"{name}({', '.join(arguments)})"


def _register_named(operation: str, name: str) -> None:
    HANDLERS[operation] = lambda w, op: invocation(w, op, name)


for _name in SAME:
    _register_named(_name, _name)
for _name, _written in RENAMED.items():
    _register_named(_name, _written)
HANDLERS["scan"] = scan


# -- data and shapes


@_handler("variable")
def _variable(w: TractWriter, op: Op) -> str:
    variable = w.graph.variables[op.attributes["label"].lower()]
    if variable.data is None:
        raise Unsupported(f"variable '{variable.label}' has no data")
    return w.tensor(variable.label, variable.data, variable.type.dtype)


@_handler("reshape")
@_handler("squeeze")
@_handler("unsqueeze")
def _reshape(w: TractWriter, op: Op) -> str:
    (x,) = op.inputs
    if not op.output.type.rank:  # tract has no type for an array without items
        return f"squeeze({w.operand(x)}, axes = {w.literal([*range(x.type.rank)])})"
    return f"reshape({w.operand(x)}, shape = {w.shape(op.output)})"


@_handler("cast")
def _cast(w: TractWriter, op: Op) -> str:
    return f"tract_core_cast({w.operand(op.inputs[0])}, to = '{TYPE_NAMES[op.output.type.dtype]}')"


@_handler("slice")
def _slice(w: TractWriter, op: Op) -> str:
    (x,) = op.inputs
    a = op.attributes
    axes: tuple[int, ...] = a["axes"]
    ranges = slice_ranges(x.type.dims, axes, a["begin"], a["end"], a["stride"])
    text = w.operand(x)
    forward = [(axis, ranges[axis]) for axis in axes if ranges[axis].step > 0]
    if forward:
        keys = {
            "axes": [axis for axis, _ in forward],
            "begin": [taken.start for _, taken in forward],
            "end": [taken.stop for _, taken in forward],
            "stride": [taken.step for _, taken in forward],
        }
        if all(step == 1 for step in keys["stride"]):
            del keys["stride"]
        text = f"slice({text}, {', '.join(f'{k} = {w.literal(v)}' for k, v in keys.items())})"
    for axis in axes:
        taken = ranges[axis]
        if taken.step < 0:  # the items up to the first one, in reverse order
            part = f"axes = [{axis}], begin = [{w.extent(taken.stop + 1)}], "
            text = f"slice({text}, {part}end = [{w.extent(taken.start + 1)}])"
            text = f"tract_core_downsample({text}, axis = {axis}, stride = {taken.step})"
    return text


@_handler("pad")
def _pad(w: TractWriter, op: Op) -> str:
    border = op.attributes["border"]
    names = {"constant": "constant", "reflect": "reflect", "replicate": "replicated"}
    if border not in names:
        raise Unsupported(f"pad(border = '{border}') is not in the dialect of tract")
    padding = w.literal(op.attributes["padding"])
    value = float(op.attributes["value"])
    more = f", value = {w.literal(value)}" if value else ""
    operand = w.operand(op.inputs[0])
    return f"pad({operand}, padding = {padding}, border = '{names[border]}'{more})"


@_handler("iota")
def _iota(w: TractWriter, op: Op) -> str:
    a = op.attributes
    start, step = a["start"], a["step"]
    end = start + a["count"] * step
    texts = [w.extent(number) for number in (start, end, step)]
    made = f"tract_core_range({', '.join(texts)})"
    return f"tract_core_cast({made}, to = 'i64')"


@_handler("tri")
def _tri(w: TractWriter, op: Op) -> str:
    a = op.attributes
    *_, rows, columns = a["shape"]
    row = f"tract_core_range({w.extent(a['k'])}, {w.extent(rows + a['k'])}, 1)"
    column = f"tract_core_range(0, {w.extent(columns)}, 1)"
    compared = "gt" if a["above"] else "le"
    made = f"{compared}(unsqueeze({column}, axes = [0]), unsqueeze({row}, axes = [1]))"
    return f"reshape({made}, shape = {w.literal(a['shape'])})"


@_handler("remainder")
def _remainder(w: TractWriter, op: Op) -> str:
    """Division of integers truncates; the remainder of reals is beyond tract."""
    if op.output.type.dtype.is_float:
        return invocation(w, op, "tract_core_remainder")
    x, y = (w.in_place(op, i) for i in range(2))
    return f"sub({x}, mul(div({x}, {y}), {y}))"


# -- products and windows


@_handler("matmul")
def _matmul(w: TractWriter, op: Op) -> str:
    if op.inputs[0].type.rank != op.inputs[1].type.rank:
        raise Unsupported("matmul of tensors of different ranks is not in the dialect of tract")
    return invocation(w, op, "matmul")


def _with_zero_border(op: Op) -> None:
    if op.attributes["border"] != "constant" and any(map(any, op.attributes["padding"])):
        border = op.attributes["border"]
        raise Unsupported(f"{op.name}(border = '{border}') is not in the dialect of tract")


def _window(w: TractWriter, op: Op) -> str:
    names = ("padding", "stride", "dilation", "groups")
    return ", ".join(f"{n} = {w.literal(op.attributes[n])}" for n in names)


def _bias(w: TractWriter, bias: Value) -> str:
    return "" if splat(bias) == 0 else f", {w.operand(bias)}"


@_handler("conv")
def _conv(w: TractWriter, op: Op) -> str:
    _with_zero_border(op)
    x, kernel = map(w.operand, op.inputs[:2])
    return f"conv({x}, {kernel}{_bias(w, op.inputs[2])}, {_window(w, op)})"


@_handler("deconv")
def _deconv(w: TractWriter, op: Op) -> str:
    """The dialect has the filter [outputs, inputs / groups, ...]."""
    _with_zero_border(op)
    x, kernel, bias = op.inputs
    groups = op.attributes["groups"] or x.type.dims[1]
    rows, each, *extents = kernel.type.dims
    inputs = rows // groups
    order = [0, 2, 1, *range(3, 3 + len(extents))]
    text = f"reshape({w.operand(kernel)}, shape = {w.literal((groups, inputs, each, *extents))})"
    text = f"transpose({text}, axes = {w.literal(order)})"
    text = f"reshape({text}, shape = {w.literal((groups * each, inputs, *extents))})"
    shape = w.literal(op.output.type.dims[2:])
    window = f"{_window(w, op)}, output_shape = {shape}"
    return f"deconv({w.operand(x)}, {text}{_bias(w, bias)}, {window})"


@_handler("max_pool")
def _max_pool(w: TractWriter, op: Op) -> str:
    """The dialect ignores the border of a maximum, whatever it is called."""
    a = op.attributes
    padding = a["padding"]
    text = w.operand(op.inputs[0])
    if any(map(any, padding)) and a["border"] != "ignore":
        if a["border"] != "constant":
            raise Unsupported(f"max_pool(border = '{a['border']}') is not in the dialect of tract")
        text = f"pad({text}, padding = {w.literal(padding)})"
        padding = ((0, 0),) * len(padding)
    rest = {"size": a["size"], "padding": padding, "stride": a["stride"], "dilation": a["dilation"]}
    written = ", ".join(f"{name} = {w.literal(value)}" for name, value in rest.items())
    return f"max_pool({text}, {written}, border = 'ignore')"


@_handler("argmax_reduce")
@_handler("argmin_reduce")
def _argument(w: TractWriter, op: Op) -> str:
    """The dialect returns 64-bit integers."""
    text = invocation(w, op, op.name)
    dtype = op.output.type.dtype
    return text if dtype is DType.INT64 else f"tract_core_cast({text}, to = '{TYPE_NAMES[dtype]}')"


@_handler("resize")
def _resize(w: TractWriter, op: Op) -> str:
    a = op.attributes
    is_cubic = a["interpolator"] == "cubic"
    is_special = is_cubic and (a["cubic_coeff_a"] != -0.75 or a["exclude_outside"])
    shared: dict[str, Any] = {
        name: a[name] for name in ("coord_transformer", "interpolator", "nearest_mode")
    }
    name = "tract_core_resize"
    if is_special:
        if not a["scales"]:
            raise Unsupported(
                "resize to sizes with a cubic kernel of its own is not in the dialect of tract"
            )
        name = "tract_onnx_resize"
        w.registries.add("tract_onnx")
        shared |= {key: a[key] for key in ("cubic_coeff_a", "exclude_outside")}
    key, value = ("scales", a["scales"]) if a["scales"] else ("sizes", op.output.type.dims)
    arguments = [f"{n} = {w.literal(v)}" for n, v in {key: value, **shared}.items()]
    return f"{name}({w.operand(op.inputs[0])}, {', '.join(arguments)})"


# -- Fourier transforms


@_handler("fft")
def _fft(w: TractWriter, op: Op) -> str:
    a = op.attributes
    x = op.inputs[0]
    made = _complex(w, x)
    inverse = ", inverse = true" if a["inverse"] else ""
    made = f"tract_core_fft({made}, axis = {a['axis']}{inverse})"
    made = f"tract_core_complex_to_inner_dim({made})"
    return _with_bins(w, made, a["axis"], a["bins"])


@_handler("stft")
def _stft(w: TractWriter, op: Op) -> str:
    a = op.attributes
    x, window = op.inputs
    numbers = ", ".join(f"{name} = {w.extent(a[name])}" for name in ("axis", "frame", "stride"))
    given = "" if splat(window) == 1 else f", window = {w.operand(window)}"
    made = _complex(w, x)
    made = f"tract_core_complex_to_inner_dim(tract_core_stft({made}, {numbers}{given}))"
    return _with_bins(w, made, a["axis"] + 1, a["bins"])


def _complex(w: TractWriter, x: Value) -> str:
    """The complex tensor of real and imaginary parts [.., 2], or of real parts [.., 1]."""
    text = w.operand(x)
    if x.type.dims[-1] == 1:
        padding = ((0, 0),) * (x.type.rank - 1) + ((0, 1),)
        text = f"pad({text}, padding = {w.literal(padding)})"
    return f"tract_core_inner_dim_to_complex({text})"


def _with_bins(w: TractWriter, text: str, axis: int, bins: Any) -> str:
    """The first `bins` items along an axis; 0 takes all."""
    return (
        f"slice({text}, axes = [{axis}], begin = [0], end = [{w.extent(bins)}])" if bins else text
    )
