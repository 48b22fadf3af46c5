"""How the dialect of tract writes operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nnefc.emit.convert.tract.scan import scan
from nnefc.emit.convert.tract.writer import TYPE_NAMES, Handler, TractWriter, Unsupported
from nnefc.formats.tensor_header import MAX_RANK
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
    "stack", "unstack", "copy_n", "concat", "tile", "prelu", "leaky_relu", "elu", "selu", "gelu",
    "silu", "softabs", "softmax", "box", "debox", "l1_normalization",
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
            "product_reduce", "grid_sample",
        )
    },
    "rcp": "recip",
    "shift_left": "tract_shl",
    "shift_right": "tract_shr",
}  # fmt: skip
"""Operations that have another name in the dialect, and the same parameters."""
BORDERS: Final = {"constant": "constant", "reflect": "reflect", "replicate": "replicated"}
"""The borders of `pad` in the dialect by those of NNEF."""


def is_written(op: Op) -> bool:
    """Whether an operation has a handler; others are composed of simpler ones if they can be."""
    if op.name != "batch_normalization":
        return op.name in HANDLERS
    channels = (1, op.inputs[0].type.dims[1]) if op.inputs[0].type.rank > 1 else ()
    return all(x.type.dims in ((), channels) for x in op.inputs[1:])


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
    if border not in BORDERS:
        raise Unsupported(f"pad(border = '{border}') is not in the dialect of tract")
    padding = w.literal(op.attributes["padding"])
    value = float(op.attributes["value"])
    more = f", value = {w.literal(value)}" if value else ""
    operand = w.operand(op.inputs[0])
    return f"pad({operand}, padding = {padding}, border = '{BORDERS[border]}'{more})"


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


@_handler("clamp")
def _clamp(w: TractWriter, op: Op) -> str:
    """tract takes the maximum first, which differs where the bounds are in reverse order."""
    x, low, high = (w.in_place(op, i) for i in range(3))
    return f"max(min({x}, {high}), {low})"


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


Padding = tuple[tuple[int, int], ...]


def _bordered(w: TractWriter, op: Op, borders: tuple[str, ...]) -> tuple[str, Padding]:
    """The operand of a window, and its padding: none if `borders` lack that of the operation.

    Then the operand has the border already.
    """
    (x, *_), a = op.inputs, op.attributes
    padding: Padding = a["padding"]
    if a["border"] in borders or not any(map(any, padding)):
        return w.operand(x), padding
    border = BORDERS.get(a["border"])
    if border is None or op.name == "deconv":
        raise Unsupported(f"{op.name}(border = '{a['border']}') is not in the dialect of tract")
    full = ((0, 0),) * (x.type.rank - len(padding)) + padding
    text = f"pad({w.operand(x)}, padding = {w.literal(full)}, border = '{border}')"
    return text, ((0, 0),) * len(padding)


def _window(w: TractWriter, op: Op, padding: Padding) -> str:
    written = {"padding": padding} | {n: op.attributes[n] for n in ("stride", "dilation")}
    return ", ".join(f"{name} = {w.literal(value)}" for name, value in written.items())


def _bias(w: TractWriter, bias: Value) -> str:
    return "" if splat(bias) == 0 else f", {w.operand(bias)}"


@_handler("conv")
def _conv(w: TractWriter, op: Op) -> str:
    text, padding = _bordered(w, op, ("constant",))
    kernel, bias = w.operand(op.inputs[1]), _bias(w, op.inputs[2])
    groups = w.literal(op.attributes["groups"] or op.inputs[0].type.dims[1])
    return f"conv({text}, {kernel}{bias}, {_window(w, op, padding)}, groups = {groups})"


@_handler("deconv")
def _deconv(w: TractWriter, op: Op) -> str:
    """The dialect has the filter [outputs, inputs / groups, ...]."""
    text, padding = _bordered(w, op, ("constant",))
    _, kernel, bias = op.inputs
    groups = op.attributes["groups"] or op.output.type.dims[1]
    turned = _turned(w, kernel, groups)
    window = f"{_window(w, op, padding)}, groups = {w.literal(groups)}"
    shape = w.literal(op.output.type.dims[2:])
    return f"deconv({text}, {turned}{_bias(w, bias)}, {window}, output_shape = {shape})"


def _turned(w: TractWriter, kernel: Value, groups: Any) -> str:
    """A filter [inputs, outputs / groups, ...] as [outputs, inputs / groups, ...]."""
    rows, each, *extents = kernel.type.dims
    rest = [*range(2, 2 + len(extents))]
    if groups == 1:
        return f"transpose({w.operand(kernel)}, axes = {w.literal([1, 0, *rest])})"
    if kernel.type.rank == MAX_RANK:
        raise Unsupported("deconv of tensors of rank 8 in groups is not written")
    inputs = rows // groups
    text = f"reshape({w.operand(kernel)}, shape = {w.literal((groups, inputs, each, *extents))})"
    text = f"transpose({text}, axes = {w.literal([0, 2, 1, *(i + 1 for i in rest)])})"
    return f"reshape({text}, shape = {w.literal((groups * each, inputs, *extents))})"


@_handler("avg_pool")
@_handler("rms_pool")
@_handler("max_pool")
def _pool(w: TractWriter, op: Op) -> str:
    """The dialect ignores the border of a maximum, whatever it is called."""
    a = op.attributes
    is_maximum = op.name == "max_pool"
    text, padding = _bordered(w, op, ("ignore",) if is_maximum else ("constant", "ignore"))
    border = "ignore" if is_maximum or a["border"] == "ignore" else "constant"
    window = f"size = {w.literal(a['size'])}, {_window(w, op, padding)}, border = '{border}'"
    return f"{op.name}({text}, {window})"


@_handler("argmax_reduce")
@_handler("argmin_reduce")
@_handler("argmax_reduce_last")
@_handler("argmin_reduce_last")
def _argument(w: TractWriter, op: Op) -> str:
    """The dialect returns 64-bit integers."""
    text = invocation(w, op, f"tract_core_{op.name}" if op.name.endswith("_last") else op.name)
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
    if given and not window.type.rank:
        frame = w.extent(a["frame"])
        given = f", window = tract_core_broadcast({w.operand(window)}, shape = [{frame}])"
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
