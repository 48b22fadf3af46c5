"""Records of operators of TensorFlow Lite, which `nnefc convert` adds to documents.

    y = conv(x, filter, bias);     "x": zero_point_linear_quantize(..);     a group of operations
    nnefc.tflite.json: the records

A tensor of the quantization file is one of codes, which are quantized where they are computed and
dequantized where they are read.  `frontends/common/operators/recorded.py` describes the records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from nnefc.frontends.common.budget import Budget, Exhausted
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.recorded import EvaluateRecord, GroupNode, Records
from nnefc.frontends.common.values import Array, KnownTensor, Operand, OperatorError, operand
from nnefc.frontends.nnef.build_graph import Elaboration
from nnefc.frontends.nnef.quantization import Quantization
from nnefc.ir import DType, Graph, Op, Value
from nnefc.ops.extended.quantized import code_limits
from nnefc.support.errors import Diagnostic, NnefError, Place
from nnefc.support.limits import Limits, how_to_raise

_REALS: Final = " reals"
"""What follows the name of a tensor of codes in that of the reals that they stand for."""
_ROUNDED: Final = " rounded"
"""What follows the name of a tensor of codes in that of the reals that are rounded to them."""
_ALGORITHM: Final = "zero_point_linear_quantize"
_TYPES: Final = {
    (8, True): DType.INT8,
    (8, False): DType.UINT8,
    (16, True): DType.INT16,
    (16, False): DType.UINT16,
}
"""Item types by the arguments `bits` and `signed` of an entry."""


class DocumentNodes:
    """The operations of a document before it is quantized; implements `RecordedModel`."""

    def __init__(self, elaboration: Elaboration, entries: Sequence[Quantization]) -> None:
        self.graph = elaboration.graph
        self.entries = {entry.tensor: entry for entry in entries}
        """The entries of the quantization file by tensor."""
        self.values = {
            name: value for name, value in elaboration.names.items() if isinstance(value, Value)
        }
        """Tensors by name; those within expressions are called %0, %1 and so on."""
        self._names: dict[Value, str] = {}
        for name, value in self.values.items():
            if name in self.entries or value not in self._names:
                self._names[value] = name

    def node(self, name: str) -> GroupNode | None:
        base, space, form = name.partition(" ")
        value, entry = self.values.get(base), self.entries.get(base)
        if value is None:
            return None
        if entry is not None and space + form != _ROUNDED:
            text = f"{entry.algorithm} {sorted(entry.arguments.items())}".encode()
            if form:
                return GroupNode(text, [base])
            is_stored = _data_of(self.graph, value) is not None
            return None if is_stored else GroupNode(text, [base + _ROUNDED])
        op = value.op
        if op is None or op.name == "variable":
            return None
        literals = [
            (i, str(x.type), x.op.attributes["value"])
            for i, x in enumerate(op.inputs)
            if x.op is not None and x.op.name == "constant"
        ]
        text = f"{op.name} {value.index} {sorted(op.attributes.items())} {literals}"
        inputs = [x for x in op.inputs if x.op is None or x.op.name != "constant"]
        return GroupNode(text.encode(), [self._read(x) for x in inputs])

    def items(self, name: str) -> Array | None:
        """The data of a variable; None for other names."""
        value = self.values.get(name)
        return None if value is None else _data_of(self.graph, value)

    def is_computed(self, name: str) -> bool:
        """Whether a name is that of a tensor that a run knows."""
        return name.removesuffix(_ROUNDED) in self.values

    def is_last(self, name: str) -> bool:
        """Whether a tensor is rounded to codes, as the last one of a group is."""
        entry = self.entries.get(name)
        return entry is not None and self.items(name) is None and has_parameters(entry)

    def rounded(self, name: str) -> str:
        """The name of the reals that are rounded to codes."""
        return name + _ROUNDED

    def _read(self, value: Value) -> str:
        """The name under which operations read a tensor."""
        name = self._names.get(value)
        if name is None:
            name = f"%{len(self._names)}"
            self._names[value], self.values[name] = name, value
        return name + _REALS if name in self.entries else name


class DocumentRecords:
    """The records of a document that are those of its operations."""

    def __init__(self, nodes: DocumentNodes, records: Records) -> None:
        self._nodes = nodes
        self._records = records
        self._fitting = [
            name for name in records.outputs if records.fits(name) and nodes.is_last(name)
        ]
        self._codes: dict[str, Operand] = {}
        """The codes of tensors by name."""

    @staticmethod
    def of(
        elaboration: Elaboration,
        entries: Sequence[Quantization],
        text: bytes,
        place: Place,
        evaluate: EvaluateRecord,
    ) -> DocumentRecords:
        """The records in a text, before the quantization is applied.

        `place`: of the document.
        """
        nodes = DocumentNodes(elaboration, entries)
        return DocumentRecords(nodes, Records(nodes, [text], evaluate, place))

    def apply(self, graph: Graph, quantized: Mapping[str, Value], limits: Limits) -> None:
        """Replace the results of groups by those of the recorded operators.

        `quantized`: the results of quantizations by tensor.  Raises NnefError `limit/...`.
        """
        budget = Budget(limits)
        names = {quantized[name].op: name for name in self._fitting if name in quantized}
        for op in list(graph.ops):
            name = names.get(op)
            if name is None:
                continue
            last = next(graph.reversed_ops)
            try:
                reals = self._evaluated(OpBuilder(graph, budget), name, quantized)
            except Exhausted as exhausted:
                rule, hint = f"limit/{exhausted.limit}", how_to_raise(exhausted.limit)
                raise NnefError.of(rule, exhausted.message, None, hint) from None
            except OperatorError as wrong:
                raise NnefError.of(wrong.rule, wrong.message, None, wrong.hint) from None
            made = _behind(graph, last)
            if reals is None:
                for each in reversed(made):
                    graph.erase(each)
                continue
            for each in made:
                graph.move(each, op)
            graph.replace_value(op.output, reals)
            _erase_unused(graph, op)
        used = {op.attributes["label"].lower() for op in graph.ops if op.name == "variable"}
        graph.variables = {key: each for key, each in graph.variables.items() if key in used}

    def _evaluated(
        self, make: OpBuilder, name: str, quantized: Mapping[str, Value]
    ) -> Value | None:
        """The reals of the codes that a recorded operator computes; None if it does not fit."""
        dtype, scale, zero = _parameters(self._nodes.entries[name])

        def find(each: str) -> Operand:
            return self._codes.get(each) or self._input(make, each, quantized)

        type_ = quantized[name].type.with_dtype(dtype)
        codes = self._records.evaluated(make, name, find, type_)
        if codes is None:
            return None
        self._codes[name] = codes
        return make.value(operand(make("dequantize", codes, scale, zero)))

    def _input(self, make: OpBuilder, name: str, quantized: Mapping[str, Value]) -> Operand:
        """The codes of a tensor, or a tensor without codes; raises LookupError, ValueError."""
        base = name.removesuffix(_ROUNDED)
        value = quantized.get(base) or self._nodes.values[base]
        if value.op is not None and value.op.graph is not make.graph:
            raise LookupError(f"'{name}' belongs to another group")
        if base not in quantized:
            data = _data_of(make.graph, value)
            return value if data is None else KnownTensor(data, value.type.dtype)
        if value.op is not None and (name != base or value.op.name == "dequantize"):
            return value.op.inputs[0]
        _, scale, zero = _parameters(self._nodes.entries[base])
        return operand(make("quantize", value, scale, zero))

    def warning(self) -> Diagnostic | None:
        """A warning about records that are ignored."""
        return self._records.warning("quantization/record")


def has_parameters(entry: Quantization) -> bool:
    """Whether an entry has one scale and one zero point of codes with an item type."""
    arguments = entry.arguments
    if entry.algorithm != _ALGORITHM or arguments["symmetric"]:
        return False
    scale, zero = arguments["scale"], arguments["zero_point"]
    dtype = _TYPES.get((arguments["bits"], arguments["signed"]))
    if dtype is None or isinstance(scale, tuple) or isinstance(zero, tuple):
        return False
    low, high = code_limits(dtype)
    return low <= zero <= high


def _parameters(entry: Quantization) -> tuple[DType, KnownTensor, KnownTensor]:
    """The item type of codes, their scale and zero point; raises ValueError if there are none."""
    if not has_parameters(entry):
        raise ValueError(f"'{entry.tensor}' has other codes")
    arguments = entry.arguments
    dtype = _TYPES[arguments["bits"], arguments["signed"]]
    scale = np.array(arguments["scale"], np.float32)
    zero = np.array(arguments["zero_point"], dtype.numpy)
    return dtype, KnownTensor(scale, DType.FLOAT32), KnownTensor(zero, dtype)


def _data_of(graph: Graph, value: Value) -> Array | None:
    """The data of a variable; None for other tensors."""
    if value.op is None or value.op.name != "variable":
        return None
    return graph.variables[str(value.op.attributes["label"]).lower()].data


def _behind(graph: Graph, last: Op) -> list[Op]:
    """The operations behind one, in order."""
    found: list[Op] = []
    for op in graph.reversed_ops:
        if op is last:
            break
        found.append(op)
    return found[::-1]


def _erase_unused(graph: Graph, op: Op) -> None:
    """Remove an operation without users, and those that nothing else reads."""
    pending = [op]
    while pending:
        each = pending.pop()
        is_used = any(value.users or graph.is_output(value) for value in each.outputs)
        if each.graph is not None and not is_used:
            graph.erase(each)
            pending += [value.op for value in each.inputs if value.op is not None]
