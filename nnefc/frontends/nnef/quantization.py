"""Quantization files (5.3, 7.1): check them, and insert their operations into the graph.

The quantized tensor replaces the named one in all its uses and outputs.  Two extensions occur
in existing files: the algorithms `min_max_linear_quantize` and `zero_point_linear_quantize`,
and arrays instead of tensors, with one item per channel.  Channels are dimension 0 of a
variable and dimension 1 of other tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnefc.frontends.common.budget import Budget
from nnefc.frontends.nnef import typed_tree as tree
from nnefc.frontends.nnef.build_graph import Elaboration
from nnefc.frontends.nnef.build_operations import Elaborator, ImportChoices
from nnefc.frontends.nnef.check_types import TypeChecker
from nnefc.frontends.nnef.evaluate import CallFrame, Evaluator
from nnefc.frontends.nnef.invoke import bind_arguments
from nnefc.frontends.nnef.operation_declarations import Declaration, DeclaredOperations, standard
from nnefc.frontends.nnef.stored_codes import StoredCodes, dequantized, flat, single_variables
from nnefc.frontends.nnef.types import Array, Tensor, Type, castable
from nnefc.ir import DType, Graph, Location, Op, TensorType, Value
from nnefc.ops.standard.quantization import limits_of_codes
from nnefc.ops.tools.build import build
from nnefc.ops.tools.suggest import suggestion
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.support.limits import Limits
from nnefc.syntax import ast
from nnefc.syntax.parser import decode, parse_quantization

ALGORITHMS = (
    "linear_quantize",
    "logarithmic_quantize",
    "min_max_linear_quantize",
    "zero_point_linear_quantize",
)


NUMBERS = ("min", "max", "scale", "zero_point")
"""Arguments that may have an item per channel."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """One entry; its arguments by name are numbers, or (nested) tuples per channel."""

    tensor: str
    algorithm: str
    arguments: Mapping[str, Any]
    location: Location


def read_quantization(
    text: bytes, file: str, elaboration: Elaboration, limits: Limits, diagnostics: Diagnostics
) -> list[Quantization]:
    """The valid entries of a quantization file; errors go to `diagnostics`."""
    parsed = parse_quantization(
        decode(text, file, limits=limits, diagnostics=diagnostics),
        file,
        limits=limits,
        diagnostics=diagnostics,
    )
    reader = _Reader(parsed, elaboration, limits, diagnostics)
    seen: set[str] = set()
    entries: list[Quantization] = []
    for entry in parsed.entries:
        if entry.tensor in seen:
            diagnostics.error(
                "quantization/duplicate",
                f"tensor '{entry.tensor}' is quantized twice",
                parsed.source.place(entry.at),
            )
            continue
        seen.add(entry.tensor)
        quantization = reader.read(entry)
        if quantization is not None:
            entries.append(quantization)
    return entries


class _Reader:
    def __init__(
        self,
        file: ast.QuantizationFile,
        elaboration: Elaboration,
        limits: Limits,
        diagnostics: Diagnostics,
    ) -> None:
        self._source = file.source
        self._names = elaboration.names
        self._labels = {v.label: v for v in elaboration.graph.variables.values()}
        self._diagnostics = diagnostics
        budget = Budget(limits, len(file.source.text))
        self._checker = TypeChecker(
            DeclaredOperations({}), file.source, budget, diagnostics, parameters={}, results={}
        )
        elaborator = Elaborator(Graph(), (), ImportChoices(), limits, budget, diagnostics)
        self._evaluator = Evaluator(elaborator, _no_body, file.source, budget)

    def _error(self, rule: str, message: str, at: int, *, hint: str = "") -> None:
        self._diagnostics.error(rule, message, self._source.place(at), hint=hint)

    def read(self, entry: ast.QuantizationEntry) -> Quantization | None:
        before = len(self._diagnostics.errors)
        node = entry.invocation
        self._check_tensor(entry)
        callee = standard(node.name) if node.name in ALGORITHMS else None
        if callee is None:
            self._error(
                "quantization/algorithm",
                f"there is no quantization algorithm '{node.name}'",
                node.at,
                hint=suggestion(node.name, ALGORITHMS) or f"known: {', '.join(ALGORITHMS)}",
            )
            return None
        if node.dtype is not None:
            self._error("invocation/generic", f"'{node.name}' is not generic", node.at)
        arguments = self._arguments(callee, node)
        if arguments is None or len(self._diagnostics.errors) > before:
            return None
        self._check_numbers(entry, arguments)
        if len(self._diagnostics.errors) > before:
            return None
        location = Location(self._source.place(entry.at))
        return Quantization(entry.tensor, node.name, arguments, location)

    def _check_tensor(self, entry: ast.QuantizationEntry) -> None:
        name = entry.tensor
        value = self._names.get(name)
        if name not in self._names:
            hint = suggestion(name, self._names)
            if name in self._labels:
                hint = "this is the label of a variable; write its identifier in the graph"
            self._error(
                "quantization/tensor", f"the graph has no tensor '{name}'", entry.at, hint=hint
            )
        elif isinstance(value, Value) and not value.type.dtype.is_float:
            self._error(
                "quantization/tensor",
                f"tensor '{name}' has items of {value.type.dtype}; only scalars are quantized",
                entry.at,
            )

    def _check_numbers(self, entry: ast.QuantizationEntry, arguments: dict[str, Any]) -> None:
        """Report ranges and scales that stand for no codes, and wrong numbers of channels."""
        value = self._names[entry.tensor]
        assert isinstance(value, Value)
        numbers = {n: flat(arguments[n]) for n in NUMBERS if n in arguments}
        problem = _problem_of_numbers(numbers, value.type.dtype) or _problem_of_codes(arguments)
        if problem is None and value.op is not None and value.op.name == "variable":
            channels = (*value.type.dims, 1)[0]
            problem = next(
                (
                    (
                        "quantization/channels",
                        f"{len(items)} items of {name} for {channels} channels",
                    )
                    for name, items in numbers.items()
                    if len(items) not in (1, channels)
                ),
                None,
            )
        if problem is not None:
            rule, message = problem
            self._error(rule, f"tensor '{entry.tensor}': {message}", entry.at)

    def _arguments(self, callee: Declaration, node: ast.Invocation) -> dict[str, Any] | None:
        for argument in node.arguments:
            if argument.name is None:
                self._error(
                    "quantization/positional",
                    "arguments in a quantization file must be named",
                    argument.at,
                )
                return None
        # the tensor is the implicit first argument
        tensor = ast.Argument(node.at, None, ast.Identifier(node.at, ""))
        subject: list[tuple[ast.Argument, tree.Typed]] = [
            (tensor, tree.Local(node.at, Tensor("scalar"), ""))
        ]
        named = [(a, self._checker.expression(a.value)) for a in node.arguments]
        bound = bind_arguments(callee, node, subject + named, self._error)
        if bound is None:
            return None
        values: dict[str, Any] = {}
        frame = CallFrame({})
        for index, operand in bound.items():
            if index == 0:
                continue
            parameter = callee.parameters[index]
            declared = parameter.type
            item = _channel_item(operand.type) if isinstance(declared, Tensor) else operand.type
            if not castable(item, declared) or isinstance(operand.type, Tensor):
                self._error(
                    "type/argument",
                    f"{callee.name}: parameter '{parameter.name}' is {declared}, but the "
                    f"argument is {operand.type}",
                    operand.at,
                )
                continue
            values[parameter.name] = self._evaluator.evaluate(operand, frame)
        return values


def _problem_of_numbers(
    numbers: Mapping[str, tuple[Any, ...]], dtype: DType
) -> tuple[str, str] | None:
    """The rule and message for numbers by argument that items of type `dtype` cannot have."""
    with np.errstate(over="ignore"):
        items = {name: np.array(given, dtype.numpy) for name, given in numbers.items()}
    for name, given in numbers.items():
        if name == "zero_point":
            continue
        wrong = ~np.isfinite(items[name])
        if name == "scale":
            wrong |= items[name] <= 0
        if wrong.any():
            needs = "positive and finite" if name == "scale" else "finite"
            rule = "quantization/scale" if name == "scale" else "quantization/range"
            return rule, f"{name} must be {needs} in {dtype}: it is {given[int(wrong.argmax())]}"
    if "max" in numbers and "min" not in numbers and min(numbers["max"], default=1) <= 0:
        return "quantization/range", f"max must be positive: it is {min(numbers['max'])}"
    if "min" in numbers and "max" in numbers:
        for low, high in zip(*_repeated(numbers["min"], numbers["max"]), strict=False):
            if low > high:
                return (
                    "quantization/range",
                    f"min must not be greater than max: they are {low} and {high}",
                )
            if high - low > float(np.finfo(dtype.numpy).max):
                return "quantization/range", f"max - min exceeds {dtype}: it is {high - low}"
    return None


def _problem_of_codes(arguments: Mapping[str, Any]) -> tuple[str, str] | None:
    """The rule and message for zero points that are none of the codes."""
    if "zero_point" not in arguments:
        return None
    low, high = limits_of_codes(*(arguments[name] for name in ("bits", "signed", "symmetric")))
    for point in flat(arguments["zero_point"]):
        if not low <= point <= high:
            message = f"zero_point must be one of the codes {low:.0f} to {high:.0f}: it is {point}"
            return "quantization/zero-point", message
    return None


def _repeated(*each: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Tuples of numbers, with single ones repeated."""
    count = max(map(len, each))
    return [numbers * count if len(numbers) == 1 else numbers for numbers in each]


def _no_body(declaration: Declaration, dtype: str, chain: object) -> None:
    """No body: algorithms are operations, not fragments to expand."""
    del declaration, dtype, chain


def _channel_item(type_: Type) -> Type:
    while isinstance(type_, Array):
        type_ = type_.item
    return type_


def apply_quantization(
    elaboration: Elaboration, entries: list[Quantization], diagnostics: Diagnostics
) -> dict[str, Value]:
    """Insert the quantization operations into the graph; returns their results by tensor."""
    graph = elaboration.graph
    values = [elaboration.names[entry.tensor] for entry in entries]
    following = _following(graph, values)
    taken = set(elaboration.names)
    replaced: list[Op] = []
    results: dict[str, Value] = {}
    for entry, value in zip(entries, values):
        try:
            quantized = _insert(graph, entry, value, following.get(value.op))
        except NnefError as error:
            for diagnostic in error.errors:
                diagnostics.add(diagnostic)
            continue
        _redirect(graph, value, quantized)
        results[entry.tensor] = quantized
        other = _fresh(entry.tensor, taken)
        if quantized.op is not None and quantized.op.name == "dequantize" and value.op is not None:
            replaced.append(value.op)
            value = quantized.op.inputs[0]
        if value.op is None:
            quantized.name = other  # inputs keep their names
        else:
            quantized.name, value.name = entry.tensor, other
    for op in replaced:
        graph.erase(op)
    return results


def _insert(graph: Graph, entry: Quantization, value: Value, before: Op | None) -> Value:
    callee = standard(entry.algorithm)
    assert callee is not None and callee.spec is not None
    axis = 1
    if value.op is not None and value.op.name == "variable":
        codes = StoredCodes(entry.algorithm, entry.arguments, may_stay=True)
        stored = dequantized(graph, value, codes, before, entry.location)
        if stored is not None:
            return stored
        axis = 0
    inputs = [value]
    attributes: dict[str, Any] = {}
    for parameter in callee.parameters[1:]:
        argument = entry.arguments.get(parameter.name, parameter.default)
        if isinstance(parameter.type, Tensor):
            dtype = DType.INT32 if parameter.type.dtype == "integer" else value.type.dtype
            inputs.append(_constant(graph, entry, value, argument, dtype, axis, before))
        else:
            attributes[parameter.name] = argument
    op = build(graph, entry.algorithm, inputs, attributes, before=before, location=entry.location)
    return op.output


def _constant(
    graph: Graph,
    entry: Quantization,
    value: Value,
    argument: Any,
    dtype: DType,
    axis: int,
    before: Op | None,
) -> Value:
    """A constant of rank 0, or one with an item per channel."""
    items = flat(argument)
    shape: tuple[int, ...] = ()
    if isinstance(argument, tuple):
        extents = value.type.shape
        channels = extents[axis] if extents is not None and axis < len(extents) else 1
        if len(items) not in (1, channels):
            raise NnefError.of(
                "quantization/channels",
                f"{len(items)} items for the {channels} channels of '{entry.tensor}'",
                entry.location.place,
            )
        shape = (1,) * axis + (len(items),)
    attributes = {"shape": shape, "value": items}
    op = Op("constant", (), attributes, [TensorType(dtype, shape)], (), entry.location)
    return graph.insert(op, before).output


def _following(graph: Graph, values: list[Value]) -> dict[Op | None, Op | None]:
    """The operation after the one that defines each value, by that one (None: an input)."""
    wanted = {value.op for value in values}
    following: dict[Op | None, Op | None] = {}
    previous: Op | None = None
    for op in graph.ops:
        if previous in wanted:
            following[previous] = op
        previous = op
    return following


def _redirect(graph: Graph, value: Value, quantized: Value) -> None:
    """Replace `value` by `quantized` in all uses except its quantization and updates."""
    for op in dict.fromkeys(value.users):
        for index, operand in enumerate(op.inputs):
            updated = op.name == "update" and index == 0
            if operand is value and op is not quantized.op and not updated:
                op.set_input(index, quantized)
    graph.outputs = [quantized if v is value else v for v in graph.outputs]


def _fresh(name: str, taken: set[str]) -> str:
    candidate, count = f"{name}_raw", 1
    while candidate in taken:
        count += 1
        candidate = f"{name}_raw{count}"
    taken.add(candidate)
    return candidate


def stored_codes(
    elaboration: Elaboration, entries: list[Quantization], *, may_stay: bool
) -> dict[str, StoredCodes]:
    """The codes that may be stored for variables, by key of `graph.variables`.

    `may_stay`: whether variables may be codes, which `apply_quantization` dequantizes.
    """
    by_key: dict[str, StoredCodes] = {}
    single = single_variables(elaboration.graph) if may_stay else set[Op]()
    for entry in entries:
        op = elaboration.names[entry.tensor].op
        if op is not None and op.name == "variable":
            stays = op in single
            codes = StoredCodes(entry.algorithm, entry.arguments, stays)
            by_key[op.attributes["label"].lower()] = codes
    return by_key
