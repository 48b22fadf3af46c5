"""Records of operators that converted models have beside the standard operators.

    dequantize ── the operator on reals ── quantize      a group of nodes
    [{"operator": "CONV_2D", "options": .., "group": ..}, ..]

Other readers ignore them and round in floats.  Here the last node of a group is the operator's
function of codes, in fixed point, if the nodes are still those that the record was written for.
Front ends take the function that evaluates records as an argument: they do not import each other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import Array, Operand, OperatorError, operand
from nnefc.ir import TensorType
from nnefc.support.errors import Diagnostic, NnefError, Place

EvaluateRecord = Callable[[OpBuilder, Any, Sequence[Operand]], Operand]
"""The result of an operator, from its record (values as in JSON) and the inputs that it names.

Raises ValueError, or what reading a malformed record raises, if the record does not fit.
"""

KEY: Final = "nnefc.tflite"
"""The name of the records among the metadata of an ONNX model and the files of a container."""
MAX_LINES: Final = 256
"""Nodes and stored tensors of a group."""

_WRONG: Final = (OperatorError, NnefError, ArithmeticError, LookupError, TypeError, ValueError)
_WRONG_TOO: Final = (AssertionError, AttributeError, RecursionError)


class GroupNode(NamedTuple):
    """A node: a text of its operator and attributes, and the names of its inputs."""

    text: bytes
    inputs: Sequence[str]


class RecordedModel(Protocol):
    """A converted model, as groups see it."""

    def node(self, name: str, /) -> GroupNode | None:
        """The node that computes a value; None for others."""
        ...

    def items(self, name: str, /) -> Array | None:
        """The items of a stored tensor; None for other names."""
        ...


class Group:
    """The nodes from the inputs of an operator to its result."""

    def __init__(
        self,
        model: RecordedModel,
        output: str,
        inputs: Sequence[str],
        digests: dict[str, bytes] | None = None,
    ) -> None:
        """`digests`: those of stored tensors, by name; further ones are added.

        Raises ValueError if there are too many nodes, nodes that need other inputs, or inputs
        that no node reads.
        """
        digests = {} if digests is None else digests
        self.stored: dict[str, Array] = {}
        """The stored tensors that the nodes read beside the inputs."""
        numbers = {name: i for i, name in enumerate(dict.fromkeys(["", *inputs]))}
        unread = set(inputs)
        lines: list[bytes] = []
        pending = [output]
        while pending:
            name = pending.pop()
            if len(lines) + len(pending) >= MAX_LINES:
                raise ValueError("the group has too many nodes")
            node = model.node(name)
            if node is None:
                known = model.items(name)
                if known is None:
                    raise ValueError(f"'{name}' is computed outside of the group")
                self.stored[name] = known
                if name not in digests:
                    digests[name] = _digest_of(known)
                lines.append(digests[name])
                continue
            new = [each for each in dict.fromkeys(node.inputs) if each not in numbers]
            numbers.update({each: len(numbers) + i for i, each in enumerate(new)})
            pending += new
            unread.difference_update(node.inputs)
            read = [numbers[each] for each in node.inputs]
            lines.append(b"%s|%s" % (str(read).encode(), node.text))
        if unread:
            raise ValueError(f"nothing reads '{unread.pop()}'")
        self.digest = hashlib.sha256(b"\n".join(lines)).hexdigest()[:32]
        """A text that differs for other nodes, attributes and stored tensors."""


def _digest_of(array: Array) -> bytes:
    described = f"{array.dtype}{array.shape}".encode()
    return hashlib.sha256(described + array.tobytes()).hexdigest().encode()


class Records:
    """The records of a model, by the results of their groups."""

    def __init__(
        self,
        model: RecordedModel,
        texts: Sequence[str | bytes],
        evaluate: EvaluateRecord,
        place: Place,
    ) -> None:
        """`texts`: lists of records as JSON."""
        self._model = model
        self._evaluate = evaluate
        self._place = place
        self._records: dict[str, Any] = {}
        self._digests: dict[str, bytes] = {}
        self._wrong: list[str] = []
        """Why records are ignored."""
        for text in texts:
            with self._noting("they cannot be read"):
                self._records.update({each["output"]["name"]: each for each in json.loads(text)})

    @property
    def outputs(self) -> Sequence[str]:
        """The results of the groups."""
        return list(self._records)

    def fits(self, output: str) -> bool:
        """Whether there is a record of this result, and its group is that of the model."""
        record = self._records.get(output)
        if record is None:
            return False
        with self._noting(f"'{output}'"):
            names = input_names(record)
            if Group(self._model, output, names, self._digests).digest == record["group"]:
                return True
            raise ValueError("its nodes, or what they read, are others")
        return False

    def evaluated(
        self, make: OpBuilder, output: str, find: Callable[[str], Any], type_: TensorType
    ) -> Operand | None:
        """The codes of a group, of that type; None if the record does not fit.

        `find`: the value of a name.
        """
        record = self._records[output]
        with self._noting(f"'{output}'"):
            inputs = [operand(find(name)) for name in input_names(record)]
            codes = self._evaluate(make, record, inputs)
            if codes.type != type_:
                raise ValueError(f"it computes {codes.type}")
            return codes
        return None

    def warning(self, rule: str) -> Diagnostic | None:
        """A warning about records that are ignored."""
        if not self._wrong:
            return None
        count = len(self._wrong)
        message = f"{count} {'records' if count > 1 else 'record'} of operators of TensorFlow Lite "
        message += f"that nnefc wrote do not fit the model and are ignored: {self._wrong[0]}"
        return Diagnostic(rule, message, self._place, "warning")

    @contextmanager
    def _noting(self, what: str) -> Generator[None]:
        """Note what is wrong with a record that the block reads."""
        try:
            yield
        except (*_WRONG, *_WRONG_TOO) as error:
            message = error.message if isinstance(error, OperatorError) else str(error)
            self._wrong.append(f"{what}: {message}")


def input_names(record: Mapping[str, Any]) -> list[str]:
    """The names of the inputs of a record that the model has."""
    inputs: Sequence[Any] = record["inputs"]
    return [each["name"] for each in inputs if each is not None and "name" in each]
