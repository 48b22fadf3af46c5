"""Records of operators of TensorFlow Lite, which `nnefc convert` adds to models in QDQ form.

    DequantizeLinear ── the operator on reals ── QuantizeLinear      a group of nodes
    metadata_props["nnefc.tflite"]: the records

`frontends/common/operators/recorded.py` describes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from onnx import GraphProto, NodeProto

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operators.recorded import KEY, GroupNode, Records
from nnefc.frontends.common.values import Array, KnownTensor, Operand, operand
from nnefc.frontends.onnx.model import OnnxModel, initializers_of
from nnefc.support.errors import Diagnostic

LAST: Final = "QuantizeLinear"
"""The operator of the last node of a group."""


class OnnxNodes:
    """The nodes of a graph; implements `RecordedModel`."""

    def __init__(self, graph: GraphProto, items: Callable[[str], Array | None]) -> None:
        """`items`: the items of an initializer, None for other names."""
        self.makers: Mapping[str, NodeProto] = {
            name: node for node in graph.node for name in node.output
        }
        """Nodes by results."""
        self.items = items

    def node(self, name: str) -> GroupNode | None:
        node = self.makers.get(name)
        if node is None:
            return None
        attributes = sorted(each.SerializeToString(deterministic=True) for each in node.attribute)
        text = b"|".join([f"{node.domain} {node.op_type}".encode(), *attributes])
        return GroupNode(text, node.input)


class OnnxRecords:
    """The records of a model, by the last nodes of their groups."""

    def __init__(self, nodes: OnnxNodes, records: Records) -> None:
        self._nodes = nodes
        self._records = records

    @staticmethod
    def of(model: OnnxModel) -> OnnxRecords | None:
        """The records of a model; None if it has none, or if nothing evaluates them."""
        texts = [each.value for each in model.proto.metadata_props if each.key == KEY]
        evaluate = model.evaluate_record
        if not texts or evaluate is None:
            return None
        initializers = initializers_of(model.graph)

        def items(name: str) -> Array | None:
            proto = initializers.get(name)
            known = None if proto is None else model.initializer(proto)
            return known.array if isinstance(known, KnownTensor) else None

        nodes = OnnxNodes(model.graph, items)
        return OnnxRecords(nodes, Records(nodes, texts, evaluate, model.place))

    def result(
        self, make: OpBuilder, node: NodeProto, find: Callable[[str], Any], inputs: Sequence[Any]
    ) -> Operand | None:
        """The codes of a group whose last node is `node`; None if no record fits it.

        `find`: the value of a name.  `inputs`: those of the node.
        """
        output = node.output[0]
        is_last = self._nodes.makers.get(output) is node and len(inputs) == 3
        if not is_last or not self._records.fits(output):
            return None
        reals, zero_point = operand(inputs[0]), operand(inputs[2])
        type_ = reals.type.with_dtype(zero_point.type.dtype)
        return self._records.evaluated(make, output, find, type_)

    def warning(self) -> Diagnostic | None:
        """A warning about records that are ignored."""
        return self._records.warning("onnx/record")
