"""Records of operators of TensorFlow Lite, which `nnefc convert` adds to models in QDQ form.

    DequantizeLinear ── the operator on reals ── QuantizeLinear      a group of nodes
    metadata_props["nnefc.tflite"] = '[{"operator": "CONV_2D", "options": .., "group": ..}, ..]'

Other readers ignore them and round in floats.  Here the last node of a group is the operator's
function of codes, in fixed point, if the nodes are still those that the record was written for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from onnx import NodeProto

from nnefc.frontends.common.operators.recorded import EvaluateRecord, OpBuilder
from nnefc.frontends.common.values import Array, KnownTensor, Operand, OperatorError, operand
from nnefc.frontends.onnx.model import OnnxModel, initializers_of
from nnefc.support.errors import Diagnostic, NnefError

KEY: Final = "nnefc.tflite"
"""The key of the records among the metadata of a model."""
LAST: Final = "QuantizeLinear"
"""The operator of the last node of a group."""
MAX_NODES: Final = 64
"""Nodes of a group."""

_WRONG: Final = (OperatorError, NnefError, ArithmeticError, LookupError, TypeError, ValueError)
_WRONG_TOO: Final = (AssertionError, AttributeError, RecursionError)


class Group:
    """The nodes from the inputs of an operator to its result."""

    def __init__(
        self,
        makers: Mapping[str, NodeProto],
        output: str,
        inputs: Sequence[str],
        items: Callable[[str], Array | None],
    ) -> None:
        """`makers`: nodes by results.  `items`: the items of an initializer, None for others.

        Raises ValueError if there are too many nodes.
        """
        self.stored: dict[str, Array] = {}
        """The initializers that the nodes read beside the inputs."""
        self._numbers = {name: i for i, name in enumerate(dict.fromkeys(["", *inputs]))}
        lines: list[bytes] = []
        pending = [output]
        while pending:
            name = pending.pop()
            node = makers.get(name)
            if node is None:
                known = items(name)
                if known is None:
                    raise ValueError(f"'{name}' is computed outside of the group")
                self.stored[name] = known
                lines.append(f"{known.dtype}{known.shape}".encode() + known.tobytes())
                continue
            if len(lines) >= 4 * MAX_NODES:
                raise ValueError("the group has too many nodes")
            new = [each for each in dict.fromkeys(node.input) if each not in self._numbers]
            self._numbers.update({each: len(self._numbers) + i for i, each in enumerate(new)})
            pending += new
            lines.append(self._line(node))
        self.digest = hashlib.sha256(b"\n".join(lines)).hexdigest()[:32]
        """A text that differs for other nodes, attributes and initializers."""

    def _line(self, node: NodeProto) -> bytes:
        numbers = [self._numbers[each] for each in node.input]
        attributes = sorted(each.SerializeToString(deterministic=True) for each in node.attribute)
        return b"|".join([f"{node.domain} {node.op_type} {numbers}".encode(), *attributes])


class Records:
    """The records of a model, by the results of their groups."""

    def __init__(self, model: OnnxModel, texts: Sequence[str], evaluate: EvaluateRecord) -> None:
        """`texts`: lists of records as JSON."""
        self._model = model
        self._evaluate = evaluate
        self._records: dict[str, Any] = {}
        self._wrong: list[str] = []
        """Why records are ignored."""
        for text in texts:
            try:
                self._records.update({each["output"]["name"]: each for each in json.loads(text)})
            except (*_WRONG, *_WRONG_TOO) as error:
                self._wrong.append(f"they cannot be read: {error}")
        self._makers = {name: node for node in model.graph.node for name in node.output}
        self._initializers = initializers_of(model.graph)

    @staticmethod
    def of(model: OnnxModel) -> Records | None:
        """The records of a model; None if it has none, or if nothing evaluates them."""
        texts = [each.value for each in model.proto.metadata_props if each.key == KEY]
        evaluate = model.evaluate_record
        return Records(model, texts, evaluate) if texts and evaluate is not None else None

    def result(
        self, make: OpBuilder, node: NodeProto, find: Callable[[str], Any], reals: Operand
    ) -> Operand | None:
        """The codes of a group whose last node is `node`; None if no record fits it.

        `find`: the value of a name.  `reals`: what the node rounds to codes.
        """
        record = self._records.get(node.output[0])
        if record is None or self._makers.get(node.output[0]) is not node:
            return None
        try:
            return self._evaluated(make, record, find, reals)
        except (*_WRONG, *_WRONG_TOO) as error:
            message = error.message if isinstance(error, OperatorError) else str(error)
            self._wrong.append(f"'{node.output[0]}': {message}")
            return None

    def warning(self) -> Diagnostic | None:
        """A warning about records that are ignored."""
        if not self._wrong:
            return None
        count = len(self._wrong)
        message = f"{count} {'records' if count > 1 else 'record'} of operators of TensorFlow Lite "
        message += f"that nnefc wrote do not fit the model and are ignored: {self._wrong[0]}"
        return Diagnostic("onnx/record", message, self._model.place, "warning")

    def _items(self, name: str) -> Array | None:
        """The items of an initializer; None for other names."""
        proto = self._initializers.get(name)
        known = None if proto is None else self._model.initializer(proto)
        return known.array if isinstance(known, KnownTensor) else None

    def _evaluated(
        self, make: OpBuilder, record: Any, find: Callable[[str], Any], reals: Operand
    ) -> Operand:
        """The codes of a record's operator; raises one of `_WRONG` if the record does not fit."""
        given: list[Any] = record["inputs"]
        names = [each["name"] for each in given if each is not None and "name" in each]
        group = Group(self._makers, record["output"]["name"], names, self._items)
        if group.digest != record["group"]:
            raise ValueError("its nodes, or what they read, are others")
        inputs = [operand(find(name)) for name in names]
        codes = self._evaluate(make, record, inputs)
        if codes.type.dims != reals.type.dims:
            raise ValueError(f"it computes {codes.type}")
        return codes
