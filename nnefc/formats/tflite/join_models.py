"""Join models by the connections of a manifest: one main subgraph has all operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from nnefc.formats.nnpackage.manifest import RULE, End, Manifest
from nnefc.formats.tflite.model import Model, Operator, Signature, Subgraph, Tensor
from nnefc.support.errors import Diagnostics, Place

Side = Literal["inputs", "outputs"]
_SUBGRAPH: Final = "subgraph"
"""The end of the names of options that are numbers of subgraphs, without `_index`."""
_REALS: Final = "FLOAT32"
_CODES: Final = ("UINT8", "INT8", "INT16")
"""Item types that are converted between models."""


def join_models(
    models: Sequence[Model], manifest: Manifest, name: str, diagnostics: Diagnostics
) -> Model:
    """The network of all models, with the name `name` in messages.

    Raises NnefError with all inputs that have no value or two, and all ends that do not exist or
    do not fit.
    """
    checks = _Connections(models, manifest, diagnostics)
    checks.check()
    diagnostics.raise_errors()
    order = checks.order()
    diagnostics.raise_errors()
    return _Joiner(models, manifest, name).model(order)


class _Connections:
    """Checks the ends of connections."""

    def __init__(
        self, models: Sequence[Model], manifest: Manifest, diagnostics: Diagnostics
    ) -> None:
        self._models = models
        self._manifest = manifest
        self._diagnostics = diagnostics

    def _error(self, message: str, hint: str = "") -> None:
        self._diagnostics.error(RULE, message, Place(self._manifest.file), hint=hint)

    def check(self) -> None:
        manifest = self._manifest
        if not manifest.outputs:
            self._error("models are connected, but 'pkg-outputs' is missing or empty")
        for i, end in enumerate(manifest.inputs):
            self._exists(f"'pkg-inputs'[{i}]", end, "inputs")
        for i, end in enumerate(manifest.outputs):
            self._exists(f"'pkg-outputs'[{i}]", end, "outputs")
        fed = list(manifest.inputs)
        for source, target in manifest.connections:
            fed.append(target)
            known = self._exists("'from' of 'model-connect'", source, "outputs")
            if self._exists("'to' of 'model-connect'", target, "inputs") and known:
                self._check_pair(source, target)
        for m, model in enumerate(self._models):
            for i in range(len(model.subgraphs[0].inputs)):
                self._check_fed(End(m, 0, i), fed.count(End(m, 0, i)))

    def _exists(self, where: str, end: End, side: Side) -> bool:
        """Whether an end exists; reports it otherwise."""
        count = len(self._models)
        if end.model >= count:
            self._error(f"{where} is '{end}', but the package has {count} models, from 0")
            return False
        if end.subgraph:
            self._error(f"{where} is '{end}', but only subgraph 0 of a model can be connected")
            return False
        ends = len(_tensors_at(self._models[end.model], side))
        if end.position >= ends:
            self._error(f"{where} is '{end}', but model {end.model} has {ends} {side}, from 0")
            return False
        return True

    def _check_fed(self, end: End, count: int) -> None:
        if count == 1:
            return
        name = _tensor(self._models, end, "inputs")
        how = f"is given {count} times" if count else "has no value"
        self._error(
            f"input '{end}' ({name}) {how}", "'pkg-inputs' or 'model-connect' gives it once"
        )

    def _check_pair(self, source: End, target: End) -> None:
        """Report an output that the input it is connected to cannot take."""
        a, b = _tensor(self._models, source, "outputs"), _tensor(self._models, target, "inputs")
        fits = _is_same(a, b) or _conversion(a, b)
        if not fits or (a.shape != b.shape and not (a.signature or b.signature)):
            ends = f"output '{source}' is {_described(a)}, input '{target}' is {_described(b)}"
            hint = "shapes must be equal, and types and scales unless float32 and codes meet"
            self._error(f"'model-connect': {ends}", hint)

    def order(self) -> list[int]:
        """The models so that each follows those whose outputs it takes; reports a cycle."""
        needs: dict[int, set[int]] = {m: set() for m in range(len(self._models))}
        for source, target in self._manifest.connections:
            needs[target.model].add(source.model)
        order: list[int] = []
        while needs:
            ready = [m for m, before in needs.items() if before <= set(order)]
            if not ready:
                listed = ", ".join(str(m) for m in needs)
                self._error(f"'model-connect': the connections of models {listed} form a cycle")
                return []
            order += ready
            for m in ready:
                del needs[m]
        return order


def _tensor(models: Sequence[Model], end: End, side: Side) -> Tensor:
    model = models[end.model]
    return model.subgraphs[0].tensors[_tensors_at(model, side)[end.position]]


def _tensors_at(model: Model, side: Side) -> tuple[int, ...]:
    """The tensors of the inputs or outputs of a model."""
    main = model.subgraphs[0]
    return main.inputs if side == "inputs" else main.outputs


def _is_same(a: Tensor, b: Tensor) -> bool:
    return a.type == b.type and a.quantization == b.quantization


def _conversion(a: Tensor, b: Tensor) -> str:
    """The operator between an output `a` and an input `b` as onert has it, or ""."""
    if a.type == _REALS and b.type in _CODES and b.quantization:
        return "QUANTIZE"
    if a.type in _CODES and b.type == _REALS and a.quantization:
        return "DEQUANTIZE"
    return ""


def _described(tensor: Tensor) -> str:
    scale = tensor.quantization
    codes = f" (scale {scale.scale}, zero point {scale.zero_point})" if scale else ""
    return f"{tensor.type} {list(tensor.shape)}{codes}"


class _Joiner:
    """Renumbers tensors, operators and subgraphs of several models."""

    def __init__(self, models: Sequence[Model], manifest: Manifest, name: str) -> None:
        self._models = models
        self._manifest = manifest
        self._name = name
        self._tensors: list[Tensor] = []
        self._operators: list[Operator] = []
        self._first: dict[int, int] = {}
        """Of each model, the number of its first tensor."""
        self._joined: dict[int, int] = {}
        """For tensors that are connected inputs, the tensor that they take."""
        self._subgraphs: list[tuple[int, Subgraph]] = []
        """Models with their further subgraphs, which follow the main one."""

    def model(self, order: Sequence[int]) -> Model:
        for m, model in enumerate(self._models):
            self._first[m] = len(self._tensors)
            for tensor in model.subgraphs[0].tensors:
                self._tensors.append(replace(tensor, index=len(self._tensors)))
            self._subgraphs += [(m, each) for each in model.subgraphs[1:]]
        sources = {target: source for source, target in self._manifest.connections}
        for m in order:
            main = self._models[m].subgraphs[0]
            for i, index in enumerate(main.inputs):
                source = sources.get(End(m, 0, i))
                if source is not None:
                    self._connect(self._place(source, "outputs"), self._first[m] + index)
            self._operators += [
                self._operator(m, each, len(self._operators) + i)
                for i, each in enumerate(main.operators)
            ]
        inputs = tuple(self._place(end, "inputs") for end in self._manifest.inputs)
        outputs = tuple(self._place(end, "outputs") for end in self._manifest.outputs)
        main = Subgraph(0, "", self._tensors, inputs, outputs, self._operators)
        others = [self._other(m, each, 1 + i) for i, (m, each) in enumerate(self._subgraphs)]
        return Model(self._name, "", [main, *others], (self._signature(),), {})

    def _connect(self, source: int, target: int) -> None:
        """Make the tensor `target` that of `source`, or its codes or reals."""
        name = _conversion(self._tensors[source], self._tensors[target])
        if not name:
            self._joined[target] = source
            return
        number = len(self._operators)
        self._operators.append(Operator(number, name, "", 1, (source,), (target,), "", {}))

    def _place(self, end: End, side: Side) -> int:
        """The joined number of the tensor at an end."""
        number = self._first[end.model] + _tensors_at(self._models[end.model], side)[end.position]
        return self._joined.get(number, number)

    def _operator(self, m: int, operator: Operator, index: int) -> Operator:
        def place(tensor: int) -> int:
            number = self._first[m] + tensor
            return tensor if tensor < 0 else self._joined.get(number, number)

        inputs = tuple(place(each) for each in operator.inputs)
        outputs = tuple(place(each) for each in operator.outputs)
        between = tuple(place(each) for each in operator.intermediates)
        options = self._options(m, operator.options)
        return replace(
            operator,
            index=index,
            inputs=inputs,
            outputs=outputs,
            options=options,
            intermediates=between,
        )

    def _other(self, m: int, subgraph: Subgraph, index: int) -> Subgraph:
        operators = [
            replace(each, options=self._options(m, each.options)) for each in subgraph.operators
        ]
        return replace(subgraph, index=index, operators=operators)

    def _options(self, m: int, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Options in which subgraphs have joined numbers, and variables a name of their model."""
        changed = dict(options)
        places = [i for i, (other, _) in enumerate(self._subgraphs) if other == m]

        def joined(subgraph: int) -> int:
            known = 0 < subgraph <= len(places)
            return 1 + places[subgraph - 1] if known else subgraph

        for name, value in options.items():
            if name.removesuffix("_index").endswith(_SUBGRAPH):
                changed[name] = joined(value)
            elif name.removesuffix("_indices").endswith(_SUBGRAPH):
                changed[name] = tuple(map(joined, value))
            elif name == "shared_name":
                changed[name] = f"{m}:{value}"
        return changed

    def _signature(self) -> Signature:
        """The names of the ends of the package, as the models have them."""

        def names(ends: Sequence[End], side: Side) -> dict[int, str]:
            named: dict[int, str] = {}
            for end in ends:
                tensor = _tensor(self._models, end, side)
                own = self._models[end.model].names(0)
                known: Mapping[int, str] = {}
                if own is not None:
                    known = own.inputs if side == "inputs" else own.outputs
                named[self._place(end, side)] = known.get(tensor.index) or tensor.name
            return named

        manifest = self._manifest
        inputs, outputs = names(manifest.inputs, "inputs"), names(manifest.outputs, "outputs")
        return Signature("package", 0, inputs, outputs)
