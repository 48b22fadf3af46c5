"""A document of the dialect to a graph: symbols, the body, inputs and outputs, in this order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from nnefc.errors import Diagnostics, NnefError, Place
from nnefc.formats.container import Container
from nnefc.frontends.budget import Budget, Exhausted
from nnefc.frontends.tract import premises, symbols
from nnefc.frontends.tract.evaluate import BROKEN, Context, Evaluator, Frame
from nnefc.frontends.tract.maker import Maker
from nnefc.frontends.tract.names import count_name, grown_name, room_for, state_name, unused_name
from nnefc.frontends.tract.quantization import (
    decoded,
    encoded,
    quantized_types,
    read_quantization,
)
from nnefc.frontends.tract.readings import unknown
from nnefc.frontends.tract.registry import REGISTRIES, Operator, operators, refused
from nnefc.frontends.tract.trial import trial_shapes
from nnefc.frontends.tract.values import (
    DatumType,
    Known,
    Operand,
    Quantized,
    Wrong,
    integers,
    operand,
)
from nnefc.frontends.tract.weights import Weights
from nnefc.ir import DType, Graph, TensorType, Value
from nnefc.limits import Limits, how_to_raise, room_for_recursion
from nnefc.ops.suggest import suggestion
from nnefc.syntax import ast
from nnefc.syntax.parser import decode, parse

ALIASES: Final = {"pulse": "tract_pulse"}
"""Other names of registries."""
SUBMODELS: Final = 8
"""Models within each other, at most."""


@dataclass(frozen=True, slots=True)
class State:
    """What an operator has kept: an input, and how much of it there is."""

    value: Value
    dims: tuple[int, ...]


class Model:
    """What operators ask of the model they are in: its inputs, weights and symbols."""

    def __init__(
        self,
        graph: Graph,
        document: ast.Document,
        shapes: Mapping[str, Sequence[int]],
        states: Mapping[str, Sequence[int]],
        quantized: Mapping[str, DatumType],
        weights: Weights,
        limits: Limits,
    ) -> None:
        self.graph = graph
        self.weights = weights
        self.limits = limits
        self.container = weights.container
        self.inputs: dict[str, Value | Quantized | Known] = {}
        self.symbols: Mapping[str, int] = {}
        self.depth = 0
        """How many models it is within."""
        self._parameters = [p.name for p in document.graph.parameters]
        self._quantized = quantized
        self._shapes = shapes
        self._states = states
        self._kept: dict[str, tuple[Value | None, Operand, str]] = {}
        self._names: Counter[str] = Counter()
        self._unnamed: Counter[str] = Counter()

    def free_name(self, name: str) -> str:
        """`name`, or one like it if a tensor has it already."""
        self._names[name] += 1
        count = self._names[name]
        return name if count == 1 else self.free_name(f"{name}_{count}")

    def external(self, name: str, datum: DatumType, shape: Any) -> Any:
        """The input that is assigned to `name`; raises Wrong."""
        if name not in self._parameters:
            name = self.free_name(name or "external")
            self._parameters.append(name)
        if name in self.inputs:
            return self.inputs[name]
        datum = self._quantized.get(name, datum)
        dims = tuple(self._shapes[name]) if name in self._shapes else integers(shape)
        type_ = TensorType(datum.dtype, dims)
        self._check_size(name, type_)
        value = Value(type_, self.free_name(name))
        self.inputs[name] = value
        if 0 in dims:  # nothing has to be computed of it
            return Known(np.zeros(dims, datum.dtype.numpy), datum.dtype)
        return value if datum.scale is None else Quantized(value, datum.scale, datum.zero_point)

    def submodel(self, make: Maker, label: str, given: Sequence[Any]) -> Any:
        """The results of a model beside the document for some inputs."""
        if self.container is None or self.depth >= SUBMODELS:
            raise Wrong("tract/submodel", f"there is no model '{label}'")
        container = self.container.submodel(label)
        if container is None:
            hint = f"{self.container.name} has neither {label}/graph.nnef nor {label}.nnef.tgz"
            raise Wrong("tract/submodel", f"there is no model '{label}'", hint)
        with container:
            return embedded(self, make, label, container, given)

    def _check_size(self, name: str, type_: TensorType) -> None:
        if any(extent < 0 for extent in type_.dims):
            raise Wrong("input/shape", f"'{name}' has a negative extent: {list(type_.dims)}")
        if type_.rank > self.limits.rank:
            message = f"'{name}' has rank {type_.rank}, more than {self.limits.rank}"
            raise Wrong("limit/rank", message, how_to_raise("rank"))
        # those without items, too: their other extents are those of other tensors
        nbytes = math.prod(extent or 1 for extent in type_.dims) * type_.dtype.itemsize
        if nbytes > self.limits.tensor_bytes:
            message = f"'{name}' has {nbytes:,} bytes, more than {self.limits.tensor_bytes:,}"
            raise Wrong("limit/tensor", message, how_to_raise("tensor_bytes"))

    def state_name(self, kind: str) -> str:
        """A name for a state that the document does not name."""
        self._unnamed[kind] += 1
        return f"{kind}_{self._unnamed[kind]}"

    def state(
        self, name: str, dtype: DType, rank: int | None = None, room: int | None = None
    ) -> State | None:
        """What an operator has kept under a name, as an input; None if there is nothing yet.

        `rank`: that it must have; `room`: the axis along which there is more memory than items.
        """
        shape = self._states.get(name)
        if name in self._kept:
            raise Wrong("tract/state", f"the state '{name}' is kept by two operators")
        if shape is None:
            return None
        dims = tuple(shape)
        if rank is not None and len(dims) != rank:
            message = f"the state '{name}' has shape {list(dims)}, but must have rank {rank}"
            raise Wrong("input/state", message)
        if room is not None:
            dims = room_for(dims, room)
        return State(Value(TensorType(dtype, dims), state_name(name)), tuple(shape))

    def keep(self, name: str, before: State | None, after: Operand) -> None:
        """What an operator keeps under a name for the next call."""
        self._kept[name] = before and before.value, after, state_name(name)

    def append(self, name: str, before: State, more: Operand, axis: int) -> None:
        """What an operator keeps behind a state that has room, along an axis."""
        self._kept[name] = before.value, more, grown_name(name, axis)

    def quantized(self, make: Maker, value: Any, datum: DatumType) -> Quantized:
        """A result as the codes that a quantization file says it has."""
        scale = datum.scale or 1.0
        if isinstance(value, Quantized):
            same = (value.type.dtype, value.scale, value.zero_point)
            if same == (datum.dtype, scale, datum.zero_point):
                return value
            value = decoded(make, value)
        return encoded(make, operand(value), datum)

    def decoded(self, make: Maker, value: Quantized) -> Operand:
        return decoded(make, value)

    def connect(self, document: ast.Document, frame: Frame, make: Maker) -> list[Wrong]:
        """Make the inputs and outputs of the graph; what is wrong with them."""
        wrong: list[Wrong] = []
        for name, times in Counter(self._parameters).items():
            value = self.inputs.get(name)
            if times > 1:
                wrong.append(Wrong("identifier/parameter", f"'{name}' is a parameter twice"))
            elif value is None:
                hint = f"write {name} = tract_core_external(shape = [...], datum_type = 'f32');"
                message = f"parameter '{name}' of the graph is never introduced"
                wrong.append(Wrong("identifier/parameter", message, hint))
            else:
                self._add_input(value)
        for before, _, _ in self._kept.values():
            if before is not None:
                self._add_input(before)
        for result in document.graph.results:
            value = frame.values.get(result.name)
            if value is None:
                message = f"result '{result.name}' of the graph is never assigned"
                wrong.append(Wrong("identifier/result", message))
            elif value is not BROKEN:
                try:
                    tensor = value.codes if isinstance(value, Quantized) else operand(value)
                    self._add_output(make.value(tensor, may_be_empty=True), result.name)
                except Wrong as what:
                    message = f"result '{result.name}' of the graph: {what.message}"
                    wrong.append(Wrong(what.rule, message, what.hint))
        for _, after, name in self._kept.values():
            self.graph.add_output(make.value(after, may_be_empty=True), name)
        for value, name in zip(list(self.graph.outputs), list(self.graph.output_names)):
            if value in make.counted:
                axis, count = make.counted[value]
                self.graph.add_output(count, count_name(name, axis))
        return wrong

    def _add_input(self, value: Any) -> None:
        tensor = value.codes if isinstance(value, Quantized) else value
        assert isinstance(tensor, Value)
        tensor.index = len(self.graph.inputs)
        self.graph.inputs.append(tensor)

    def _add_output(self, value: Value, name: str) -> None:
        self.graph.add_output(value, unused_name(name, self.graph.output_names))


class Embedded(Model):
    """A model within another: its inputs are given, and what it keeps the other one keeps."""

    def __init__(
        self,
        outer: Model,
        document: ast.Document,
        given: Mapping[str, Any],
        quantized: Mapping[str, DatumType],
        weights: Weights,
    ) -> None:
        super().__init__(outer.graph, document, {}, {}, quantized, weights, outer.limits)
        self._outer = outer
        self._given = given
        self.depth = outer.depth + 1

    def free_name(self, name: str) -> str:
        return self._outer.free_name(name)

    def external(self, name: str, datum: DatumType, shape: Any) -> Any:
        if name not in self._given:
            raise Wrong("tract/submodel", f"input '{name}' is not given")
        return self._given[name]

    def state(
        self, name: str, dtype: DType, rank: int | None = None, room: int | None = None
    ) -> State | None:
        return self._outer.state(name, dtype, rank, room)

    def state_name(self, kind: str) -> str:
        return self._outer.state_name(kind)

    def keep(self, name: str, before: State | None, after: Operand) -> None:
        self._outer.keep(name, before, after)

    def append(self, name: str, before: State, more: Operand, axis: int) -> None:
        self._outer.append(name, before, more, axis)


def embedded(
    outer: Model, make: Maker, label: str, container: Container, given: Sequence[Any]
) -> Any:
    """The results of the model in a container for some inputs, made in the graph of another one.

    Raises Wrong, or NnefError with all that is wrong in its document.
    """
    limits = outer.limits
    diagnostics = Diagnostics(limit=limits.errors)
    file = container.graph_file
    text = decode(container.graph_text(), file, limits=limits, diagnostics=diagnostics)
    document = parse(text, file, limits=limits, diagnostics=diagnostics, tract=True)
    names = [p.name for p in document.graph.parameters]
    if len(names) != len(given):
        raise Wrong("tract/submodel", f"'{label}' takes {len(names)} tensors, not {len(given)}")
    types = quantized_types(read_quantization(container, limits, diagnostics), diagnostics)
    weights = outer.weights.within(container, label)
    inputs = dict(zip(names, given, strict=True))
    model = Embedded(outer, document, inputs, types, weights)
    context = _context(document, model, types, make.budget, diagnostics)
    evaluator = Evaluator(context, make.graph)
    frame = Frame()
    evaluator.run(document.graph.body, frame, names=True)
    _report_unknown(context, document)
    diagnostics.raise_errors()
    results = tuple(frame.values[r.name] for r in document.graph.results)
    return results[0] if len(results) == 1 else results


def _context(
    document: ast.Document,
    model: Model,
    types: Mapping[str, DatumType],
    budget: Budget,
    diagnostics: Diagnostics,
) -> Context:
    return Context(
        document.source,
        {f.name: f for f in document.fragments},
        _declared_operators(document, diagnostics),
        model.symbols,
        budget,
        diagnostics,
        frozenset(premises.all_symbols(document)).difference(model.symbols),
        types,
        model=model,
    )


def elaborate(
    document: ast.Document,
    *,
    shapes: Mapping[str, Sequence[int]],
    states: Mapping[str, Sequence[int]],
    weights: Weights,
    quantization: ast.QuantizationFile | None,
    limits: Limits,
    diagnostics: Diagnostics,
    lifted: Mapping[str, int] | None = None,
) -> Graph:
    """The graph of a document for `shapes` of its inputs and `states`, by name.

    `lifted`: numbers to compute with in the place of the values of symbols.  Raises NnefError with
    all errors.
    """
    values: Mapping[str, int] = symbols.bind(document, shapes)
    if lifted is not None:
        values = lifted
        shapes = symbols.evaluated(document, shapes, values)
    graph = Graph(document.graph.name)
    types = quantized_types(quantization, diagnostics)
    model = Model(graph, document, shapes, states, types, weights, limits)
    model.symbols = values
    budget = Budget(limits, len(document.source.text))
    context = _context(document, model, types, budget, diagnostics)
    _require_symbols(document, values, shapes, diagnostics)
    diagnostics.raise_errors()
    evaluator = Evaluator(context, graph)
    frame = Frame()
    try:
        with room_for_recursion():
            evaluator.run(document.graph.body, frame, names=True)
    except Exhausted as exhausted:
        place = exhausted.place
        hint = how_to_raise(exhausted.limit)
        diagnostics.error(
            f"limit/{exhausted.limit}", exhausted.message, place, hint=hint, chain=exhausted.chain
        )
    except RecursionError:
        place = document.source.place(document.graph.at)
        message = "expressions and invocations nest too deeply"
        diagnostics.error("limit/recursion", message, place)
    _report_unknown(context, document)
    if not diagnostics.errors:
        for wrong in model.connect(document, frame, evaluator.make):
            place = document.source.place(document.graph.at)
            diagnostics.error(wrong.rule, wrong.message, place, hint=wrong.hint)
    diagnostics.raise_errors()
    return graph


def registries(document: ast.Document) -> list[tuple[str, Place]]:
    """The registries that a document declares."""
    return [
        (ALIASES.get(name.name, name.name), document.source.place(name.at))
        for extension in document.extensions
        if extension.names[0].name == "tract_registry"
        for name in extension.names[1:]
    ]


def _declared_operators(document: ast.Document, diagnostics: Diagnostics) -> Mapping[str, Operator]:
    """The operators of the registries that are declared, and those that need none."""
    declared = {"tract_nnef"}
    for name, place in registries(document):
        if name not in REGISTRIES:
            hint = f"registries are {', '.join(REGISTRIES[1:])}"
            diagnostics.error("tract/registry", f"there is no registry {name!r}", place, hint=hint)
        declared.add(name)
    return {name: op for name, op in operators().items() if op.registry in declared}


def _require_symbols(
    document: ast.Document,
    values: Mapping[str, int],
    shapes: Mapping[str, Sequence[int]],
    diagnostics: Diagnostics,
) -> None:
    """Report inputs whose shapes are not known, with shapes that they might have."""
    try:
        possible, _ = next(trial_shapes(document, values))
    except NnefError:
        possible = {}
    for each in premises.inputs(document):
        names = [n for n in dict.fromkeys(premises.names_of(each.extents)) if n not in values]
        if names and each.name not in shapes:
            listed = " and ".join(f"'{name}'" for name in names)
            verb = "has no value" if len(names) == 1 else "have no values"
            extents = ",".join(each.written)
            example = ""
            if shape := possible.get(each.name):
                typed = ",".join(map(str, shape))
                example = (
                    f", such as --shape {each.name}={typed} or shapes={{'{each.name}': {shape}}}"
                )
            diagnostics.error(
                "tract/symbol",
                f"the shape of input '{each.name}' is [{extents}], but {listed} {verb}",
                each.place,
                hint=f"give its shape in numbers{example}",
            )


def _report_unknown(context: Context, document: ast.Document) -> None:
    """All operators that are not known, each once, with how often it is used.

    If evaluation has met any the document is searched for others, which it does not come to.
    """
    if not context.unknown:
        return
    everything = operators()
    for name, places in {**context.unknown, **unknown(document, context.operators)}.items():
        rule = "tract/operator"
        often = f", {len(places)} times" if len(places) > 1 else ""
        others = ", ".join(f"{p.line}:{p.column}" for p in places[1:6])
        message = f"there is no operator '{name}' (used here{often})"
        if name in everything:
            registry = everything[name].registry
            message = f"operator '{name}' is of the registry {registry}, which is not declared"
            hint = f"add the line 'extension tract_registry {registry};' after the version"
        elif name in refused():
            rule, message = "tract/unsupported", f"operator '{name}' is not possible"
            hint = refused()[name]
        else:
            hint = suggestion(name, [*everything, *context.fragments])
        if others:
            mark = "" if hint.endswith("?") or not hint else ";"
            hint = f"{hint}{mark} also at {others}".lstrip()
        context.diagnostics.error(rule, message, places[0], hint=hint)
