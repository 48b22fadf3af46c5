"""Build the operations of a graph from evaluated invocations: rules, types, names (chapter 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nnefc.frontends.common.budget import Budget
from nnefc.frontends.nnef import results
from nnefc.frontends.nnef import typed_tree as tree
from nnefc.frontends.nnef.apply_shape_rules import Rules, too_large
from nnefc.frontends.nnef.types import OPAQUE, Array, Tensor, Tuple, Type
from nnefc.ir import DType, Graph, Location, Op, TensorType, Value
from nnefc.ir.graph import Variable
from nnefc.ops.core.spec import UNKNOWN, has_unknown
from nnefc.support.errors import Diagnostics, Place
from nnefc.support.limits import Limits, how_to_raise

PRIMITIVES = {
    "scalar": DType.FLOAT32,
    "integer": DType.INT32,
    "logical": DType.BOOL,
    "string": DType.STRING,
}
"""Default item types of tensors, by NNEF data-type."""


@dataclass(frozen=True, kw_only=True)
class ImportChoices:
    """Choices that a document leaves to the user: item types, shapes of inputs."""

    scalar: DType = DType.FLOAT32
    integer: DType = DType.INT32
    shapes: Mapping[str, tuple[int, ...]] | None = None


def abstract(type_: Type, dtypes: Mapping[str, DType] = PRIMITIVES) -> Any:
    """A value of this type without a shape and without data; UNKNOWN for attributes."""
    match type_:
        case Tensor(dtype=str(dtype)) if dtype != OPAQUE:
            return Value(TensorType(dtypes[dtype], None))
        case Tuple(items):
            return tuple([abstract(i, dtypes) for i in items])
        case _:
            return UNKNOWN


class Elaborator:
    """Builds the operations of one graph.

    `names`: tensors by their identifier in the graph's body.  `spoiled`: an operation is
    missing because of an error; `incomplete`: because of an unknown custom operation.
    """

    def __init__(
        self,
        graph: Graph,
        parameters: Sequence[str],
        choice: ImportChoices,
        limits: Limits,
        budget: Budget,
        diagnostics: Diagnostics,
    ) -> None:
        self.graph = graph
        self.names: dict[str, Any] = {}
        self.externals: dict[str, Value] = {}
        self.spoiled = False
        self.incomplete = False
        self._parameters = frozenset(parameters)
        self._choice = choice
        self._limits = limits
        self._budget = budget
        self._diagnostics = diagnostics
        self._dtypes = {**PRIMITIVES, "scalar": choice.scalar, "integer": choice.integer}
        self._unnamed: dict[int, tuple[Value, Location]] = {}
        self._updated: dict[str, Location] = {}
        self._fixed: dict[str, str] = {}
        self._reported: set[tuple[str, str, Place]] = set()
        self._rules = Rules(limits, diagnostics, self.problem)

    def problem(self, rule: str, message: str, location: Location, hint: str = "") -> None:
        """Report an error; the same error is reported once per position in the document."""
        self.spoiled = True
        key = rule, message, location.place
        if key in self._reported:
            return
        self._reported.add(key)
        self._diagnostics.error(rule, message, location.place, hint=hint, chain=location.chain)

    # -- literals

    def literal(self, value: Any, primitive: str, location: Location, *, real: bool) -> Any:
        """A primitive value as a constant of rank 0."""
        if primitive == OPAQUE:
            return UNKNOWN
        dtype = self._dtypes[primitive]
        if not real:
            return Value(TensorType(dtype, ()))
        if value is UNKNOWN:
            self.incomplete = True
            return UNKNOWN
        if not self._fits(value, dtype):
            message = f"{value} does not fit in {dtype}"
            self.problem("argument/constant", message, location)
            return UNKNOWN
        attributes = {"shape": (), "value": (value,)}
        return self._insert("constant", (), attributes, [TensorType(dtype, ())], location).output

    @staticmethod
    def _fits(value: Any, dtype: DType) -> bool:
        bits = {DType.INT32: 31, DType.INT64: 63}.get(dtype)
        return bits is None or -(1 << bits) <= value < (1 << bits)

    # -- operations

    def operation(
        self, node: tree.Call, values: Sequence[Any], location: Location, *, real: bool
    ) -> Any:
        """Check an invocation and build its operation; its results, structured like its type."""
        callee = node.callee
        types, _ = callee.types(node.dtype)
        operands: dict[str, Any] = {}
        attributes: dict[str, Any] = {}
        inputs: list[Value] = []
        complete = True
        for parameter, type_, value in zip(callee.parameters, types, values):
            if not parameter.is_tensor:
                attributes[parameter.name] = value
                continue
            operands[parameter.name] = self._operand(value, type_)
            if real:
                complete = _flatten(value, inputs) and complete
        result_types: list[TensorType] | None = None
        if callee.spec is not None:
            result_types, is_valid = self._rules.check(callee.spec, operands, attributes, location)
            if not is_valid:
                return abstract(node.type, self._dtypes)
        if real and (not complete or has_unknown(tuple(attributes.values()))):
            self.incomplete = True
            real = False
        if real and callee.spec is not None and callee.name == "external":
            return self._external(node, result_types, location)
        if real and callee.spec is not None and callee.spec.section == "custom":
            self._rules.check_custom(node, result_types, inputs, location)
        return self._results(node, inputs if real else None, attributes, result_types, location)

    def _operand(self, value: Any, type_: Type) -> Any:
        """An operand as `Rules.check` takes it: its type, a list of types, or None."""
        if isinstance(value, Value):
            return value.type
        if isinstance(value, tuple) and isinstance(type_, Array):
            self._budget.take_steps(len(value))  # pyright: ignore[reportUnknownArgumentType]
            items: list[Any] = [self._operand(v, type_.item) for v in value]  # pyright: ignore
            return None if any(i is None for i in items) else items
        if isinstance(type_, Tensor) and type_.dtype in self._dtypes:
            return TensorType(self._dtypes[type_.dtype], None)
        return None

    def _results(
        self,
        node: tree.Call,
        inputs: Sequence[Value] | None,
        attributes: dict[str, Any],
        inferred: Sequence[TensorType] | None,
        location: Location,
    ) -> Any:
        """The results of an operation, which is built if `inputs` are given.

        Otherwise the results are values without an operation, with the types that are known.
        """
        name = node.callee.name
        flat = None if inferred is None else len(inferred)
        with_lengths = inputs is not None or inferred
        lengths = results.lengths(node, flat, attributes) if with_lengths else None
        if lengths is None:
            self.incomplete |= inputs is not None
            return abstract(node.type, self._dtypes)
        types: list[TensorType] = []
        for i, kind in enumerate(results.flat_dtypes(node, lengths)):
            dtype = self._dtypes.get(kind or OPAQUE)
            if dtype is None:
                return abstract(node.type, self._dtypes)
            types.append(TensorType(dtype, None if inferred is None else inferred[i].shape))
        if inputs is None:
            return results.structured([Value(type_) for type_ in types], lengths)
        if node.callee.spec is not None and not self._allowed(
            name, inputs, attributes, types, location
        ):
            return abstract(node.type, self._dtypes)
        op = self._insert(name, inputs, attributes, types, location)
        return results.structured(op.outputs, lengths)

    def _insert(
        self,
        name: str,
        inputs: Sequence[Value],
        attributes: dict[str, Any],
        types: Sequence[TensorType],
        location: Location,
    ) -> Op:
        self._budget.take_operation(len(inputs) + len(types))
        return self.graph.insert(Op(name, inputs, attributes, types, (), location))

    # -- operations with rules beyond their arguments

    def _allowed(
        self,
        name: str,
        inputs: Sequence[Value],
        attributes: Mapping[str, Any],
        types: Sequence[TensorType],
        location: Location,
    ) -> bool:
        match name:
            case "constant":
                dtype = types[0].dtype
                if not dtype.is_integer:
                    return True
                for value in (min(attributes["value"]), max(attributes["value"])):
                    if not self._fits(value, dtype):
                        message = f"constant: {value} does not fit in {dtype}"
                        self.problem("argument/constant", message, location)
                        return False
                return True
            case "variable":
                return self._variable(attributes["label"], types[0], location)
            case "update":
                return self._update(inputs[0], location)
            case _:
                return True

    def _variable(self, label: str, type_: TensorType, location: Location) -> bool:
        shared = self.graph.variables.setdefault(label.lower(), Variable(label, type_))
        if shared.type == type_:
            return True
        self.problem(
            "argument/variable",
            f"variable: label '{label}' is shared with a variable of type {shared.type}, "
            f"but this one is {type_}",
            location,
            hint="variables with the same label (in any case) have the same shape and type",
        )
        return False

    def fix(self, label: str, parameter: str) -> bool:
        """Note that a parameter takes the initial value of a variable; False if it is updated."""
        self._fixed.setdefault(label.lower(), parameter)
        return label.lower() not in self._updated

    def _update(self, variable: Value, location: Location) -> bool:
        if variable.op is None or variable.op.name != "variable":
            message = "update: the first argument must be a variable"
            self.problem("argument/update", message, location)
            return False
        label: str = variable.op.attributes["label"]
        if parameter := self._fixed.get(label.lower()):
            message = f"update: parameter {parameter} takes the value of variable '{label}'"
            hint = "such a value is known at compile time and does not change"
            self.problem("argument/update", message, location, hint)
        first = self._updated.setdefault(label.lower(), location)
        if first is not location:
            self.problem(
                "argument/update",
                f"update: variable '{label}' is updated already, on line {first.place.line}",
                location,
                hint="a variable is updated once per cycle",
            )
        return first is location

    def _external(
        self, node: tree.Call, inferred: Sequence[TensorType] | None, location: Location
    ) -> Any:
        dtype = self._dtypes[node.dtype]
        if inferred is None:
            return abstract(node.type, self._dtypes)
        value = Value(TensorType(dtype, inferred[0].shape))
        self._unnamed[id(value)] = value, location
        return value

    # -- names

    def name(self, value: Any, identifier: str, location: Location) -> Any:
        """Bind an identifier of the graph's body; the value of this name, a copy if necessary."""
        if not isinstance(value, Value):
            self.names.setdefault(identifier, value)
            return value
        pending = self._unnamed.pop(id(value), None)
        if pending is not None:
            self._name_external(value, identifier, pending[1])
        elif value.name:
            value = self._insert("copy", [value], {}, [value.type], location).output
            value.name = identifier
        elif value.op is not None:
            value.name = identifier
        self.names.setdefault(identifier, value)
        return value

    def _name_external(self, value: Value, identifier: str, location: Location) -> None:
        value.name = identifier
        if identifier not in self._parameters:
            self.problem(
                "identifier/external",
                f"'{identifier}' is external but no parameter of the graph",
                location,
                hint=f"add '{identifier}' to the parameters of the graph",
            )
            return
        self.externals.setdefault(identifier, value)
        shape = (self._choice.shapes or {}).get(identifier)
        if shape is not None:
            value.type = value.type.with_shape(shape)
            excess = too_large(value.type, self._limits)
            if excess:
                message = f"external '{identifier}' {excess}"
                self.problem("limit/tensor", message, location, how_to_raise("tensor_bytes"))
                value.type = TensorType(value.type.dtype, None)

    def finish(self) -> None:
        """Report externals without a name; name other values that have none.

        Constants of literals get no name.
        """
        for _, location in self._unnamed.values():
            self.problem(
                "identifier/external",
                "an external tensor must be assigned to a parameter of the graph",
                location,
            )
        taken = set(self.names) | self._parameters
        counts: dict[str, int] = {}
        for op in self.graph.ops:
            for value in op.outputs:
                if value.name or (op.name == "constant" and value.type.shape == ()):
                    continue
                stem = op.name
                while True:
                    counts[stem] = counts.get(stem, 0) + 1
                    name = f"{stem}_{counts[stem]}"
                    if name not in taken:
                        break
                value.name = name


def _flatten(value: Any, inputs: list[Value]) -> bool:
    """Append the tensors inside `value` to `inputs`; False if any is unknown."""
    if isinstance(value, Value):
        inputs.append(value)
        return True
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return all(_flatten(item, inputs) for item in items)
    return False
