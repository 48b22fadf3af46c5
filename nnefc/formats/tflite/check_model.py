"""Check that the parts of a model fit together: indices, shapes, sizes of buffers, order."""

from __future__ import annotations

import math

from nnefc.formats.files import printable
from nnefc.formats.tflite.enumerations import ITEM_BITS
from nnefc.formats.tflite.model import Model, Operator, Subgraph, Tensor
from nnefc.support.errors import Diagnostics, Place
from nnefc.support.limits import Limits, how_to_raise


def check_model(model: Model, limits: Limits, diagnostics: Diagnostics) -> None:
    """Report all errors, each with its subgraph and its tensor or operator."""
    for subgraph in model.subgraphs:
        check = _SubgraphCheck(model, subgraph, limits, diagnostics)
        for tensor in subgraph.tensors:
            check.tensor(tensor)
        check.order()
    check_signatures(model, diagnostics)


def check_signatures(model: Model, diagnostics: Diagnostics) -> None:
    """Report signatures of subgraphs or tensors that do not exist."""
    for each in model.signatures:
        what = f"signature '{printable(each.key)}'"
        if each.subgraph >= len(model.subgraphs):
            message = f"{what} is of subgraph {each.subgraph}, of {len(model.subgraphs)}"
            diagnostics.error("tflite/model", message, Place(model.file))
            continue
        count = len(model.subgraphs[each.subgraph].tensors)
        for tensor in (*each.inputs, *each.outputs):
            if tensor >= count:
                message = f"{what} names tensor {tensor} of {count}"
                diagnostics.error("tflite/model", message, Place(model.file))


class _SubgraphCheck:
    """Checks one subgraph."""

    def __init__(
        self, model: Model, subgraph: Subgraph, limits: Limits, diagnostics: Diagnostics
    ) -> None:
        self._place = Place(model.file)
        self._subgraph = subgraph
        self._limits = limits
        self._diagnostics = diagnostics

    def _error(
        self, what: object, message: str, rule: str = "tflite/model", hint: str = ""
    ) -> None:
        text = f"{self._subgraph}, {what}: {message}" if what else f"{self._subgraph}: {message}"
        self._diagnostics.error(rule, text, self._place, hint=hint)

    # -- tensors

    def tensor(self, tensor: Tensor) -> None:
        """Check shape, size of the buffer and quantization."""
        shape = tensor.shape
        if any(extent < 0 for extent in shape):
            self._error(tensor, f"its shape {list(shape)} has a negative extent")
            return
        if len(shape) > self._limits.rank:
            message = f"its rank is {len(shape)}, more than {self._limits.rank}"
            self._error(tensor, message, "limit/rank", how_to_raise("rank"))
            return
        if tensor.signature and len(tensor.signature) != len(shape):
            self._error(tensor, f"its shape signature has {len(tensor.signature)} extents")
        bits = ITEM_BITS.get(tensor.type)
        if bits is None:
            return
        nbytes = -(-math.prod(extent or 1 for extent in shape) * bits // 8)
        if nbytes > self._limits.tensor_bytes:
            message = f"its shape {list(shape)} takes {nbytes:,} bytes, more than "
            message += f"{self._limits.tensor_bytes:,}"
            self._error(tensor, message, "limit/tensor", how_to_raise("tensor_bytes"))
            return
        self._buffer(tensor, bits)
        self._quantization(tensor)

    def _buffer(self, tensor: Tensor, bits: int) -> None:
        """Check that the buffer of a constant has the bytes of its shape."""
        if tensor.data is None or tensor.sparsity is not None:
            return
        wanted = -(-math.prod(tensor.shape) * bits // 8)
        if len(tensor.data) != wanted:
            message = f"its shape {list(tensor.shape)} of {tensor.type} has {wanted:,} bytes, "
            self._error(tensor, f"{message}but its buffer {len(tensor.data):,}")

    def _quantization(self, tensor: Tensor) -> None:
        """Check scales and their number."""
        codes = tensor.quantization
        if codes is None or not codes.scale:
            return
        wrong = [scale for scale in codes.scale if not 0 <= scale < math.inf]
        if wrong:
            self._error(
                tensor, f"its scale is {wrong[0]}; scales are numbers that are not negative"
            )
        if len(codes.scale) == 1:
            return
        if not 0 <= codes.axis < len(tensor.shape):
            self._error(tensor, f"it is quantized along dimension {codes.axis} of {tensor.shape}")
        elif len(codes.scale) != tensor.shape[codes.axis]:
            message = f"it has {len(codes.scale)} scales along dimension {codes.axis}, "
            self._error(tensor, f"{message}which has {tensor.shape[codes.axis]} items")

    # -- operators

    def order(self) -> None:
        """Check that every tensor that is read is there before, and is computed once."""
        subgraph = self._subgraph
        if not self._indices("", "inputs", subgraph.inputs, may_be_absent=False):
            return
        known = {
            each.index
            for each in subgraph.tensors
            if each.data is not None or each.is_variable or each.external_buffer or 0 in each.shape
        }
        known |= set(subgraph.inputs)
        for operator in subgraph.operators:
            self._operator(operator, known)
        if self._indices("", "outputs", subgraph.outputs, may_be_absent=False):
            for index in subgraph.outputs:
                if index not in known:
                    message = "it is an output, but no operator computes it"
                    self._error(subgraph.tensors[index], message)

    def _operator(self, operator: Operator, known: set[int]) -> None:
        """Check one operator, and add what it computes to `known`."""
        good = self._indices(operator, "inputs", operator.inputs, may_be_absent=True)
        good &= self._indices(operator, "outputs", operator.outputs, may_be_absent=True)
        between = operator.intermediates
        good &= self._indices(operator, "intermediates", between, may_be_absent=True)
        if not good:
            return
        tensors = self._subgraph.tensors
        for index in operator.inputs:
            if index >= 0 and index not in known:
                message = f"it reads {tensors[index]}, which nothing before it computes"
                self._error(operator, message)
        for index in operator.outputs:
            if index < 0:
                continue
            if tensors[index].data is not None:
                self._error(operator, f"it computes {tensors[index]}, which is a constant")
            elif index in self._subgraph.inputs or (
                index in known and not tensors[index].is_variable and 0 not in tensors[index].shape
            ):
                self._error(operator, f"it computes {tensors[index]}, which has a value already")
            known.add(index)

    def _indices(
        self, what: object, name: str, indices: tuple[int, ...], *, may_be_absent: bool
    ) -> bool:
        """Whether indices are those of tensors; reports others."""
        count = len(self._subgraph.tensors)
        least = -1 if may_be_absent else 0
        wrong = [each for each in indices if not least <= each < count]
        if wrong:
            self._error(what, f"its {name} name tensor {wrong[0]}, but there are {count}")
        return not wrong
