"""The interface `onnx.backend.base.Backend`: `prepare`, `run_model`, `run_node`.

>>> import nnefc.onnx.backend as backend                        # doctest: +SKIP
>>> y = backend.prepare(onnx.load("net.onnx")).run([x])         # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from onnx import ModelProto, NodeProto, defs, helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from nnefc.formats.onnx.value_types import ValueType, value_types
from nnefc.frontends.onnx.model import initializers_of
from nnefc.onnx.call_values import given_values, has_sequences, has_strings, returned_value
from nnefc.onnx.compile_bytes import check_operators_of
from nnefc.onnx.counting_model import CountingModel
from nnefc.onnx.specialized_models import SpecializedModels, whole_model
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

ModelOrPath = ModelProto | str | os.PathLike[str] | bytes

__all__ = [
    "NnefcBackend",
    "NnefcBackendRep",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]


class NnefcBackendRep(BackendRep):
    """A prepared model.

    Sequences are lists of arrays, optionals without an element None; such a model is compiled for
    their lengths.  A model with strings, or with inputs of any rank, is compiled for each call.
    """

    def __init__(self, proto: ModelProto, threads: int | None = None) -> None:
        """Raises NnefError with all errors."""
        self._proto = proto
        self._threads = threads
        self._inputs, self._outputs, _ = value_types(proto.SerializeToString())
        self._names = [each.name for each in proto.graph.output]
        self._model: CountingModel | SpecializedModels
        if has_sequences(self._inputs, self._outputs) or _needs_values(proto, self._inputs):
            self._model = SpecializedModels(proto, threads)
        else:
            self._model = CountingModel.of_proto(proto, threads)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, as a tuple that can be indexed by name.

        Args:
            inputs: An array, a sequence of arrays in the order of the inputs, or arrays by name.
            kwargs: Other arguments of backends; no effect.

        Raises:
            NnefError: With all errors of the arrays.
        """
        results = self._model.run(given_values(self._named(inputs), self._inputs))
        values = [returned_value(results[name], self._outputs[name]) for name in self._names]
        make: Any = cast(Any, namedtupledict)("Outputs", self._names)
        return make(*values)

    def _named(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, Mapping):
            return dict(cast(Mapping[str, Any], inputs))
        single = isinstance(inputs, np.ndarray | np.generic)
        return _by_name([cast(Any, inputs)] if single else inputs, list(self._inputs))


def _by_name(inputs: Any, names: Sequence[str]) -> dict[str, Any]:
    """Arrays in the order of `names`; raises NnefError for others, and for another number."""
    if isinstance(inputs, str | bytes) or not isinstance(inputs, Iterable):
        message = f"the inputs are a {type(inputs).__name__}, expected a sequence of arrays, or "
        raise NnefError([Diagnostic("input/argument", message + "arrays by name")])
    every: list[Any] = list(cast(Iterable[Any], inputs))
    if len(every) != len(names):
        message = f"{len(every)} arrays for {len(names)} inputs: "
        raise NnefError([Diagnostic("input/count", message + ", ".join(names))])
    return dict(zip(names, every, strict=True))


def _proto_of(model: ModelOrPath) -> ModelProto:
    """A model, or that of a file; raises NnefError for other objects and unreadable files."""
    if isinstance(model, ModelProto):
        return model
    if isinstance(model, str | os.PathLike | bytes):
        return whole_model(model)
    message = f"the model is a {type(model).__name__}, expected a ModelProto, a path or bytes"
    raise NnefError([Diagnostic("input/argument", message)])


def _needs_values(proto: ModelProto, types: Mapping[str, ValueType]) -> bool:
    """Whether inputs have no rank, or hold strings, by their `types`."""
    given = initializers_of(proto.graph)
    tensors = [each.type.tensor_type for each in proto.graph.input if each.name not in given]
    return has_strings(types) or any(not each.HasField("shape") for each in tensors)


class NnefcBackend(Backend):
    """nnefc as a backend of ONNX."""

    @classmethod
    def is_compatible(cls, model: ModelOrPath, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether nnefc has all operators and types of a model."""
        from nnefc.frontends.read_model import read_onnx_bytes
        from nnefc.options.import_config import DEFAULT

        try:
            model = _proto_of(model)
            content = model.SerializeToString()
            types = value_types(content)
            if has_sequences(*types) or _needs_values(model, types[0]):
                check_operators_of(content)
            else:
                read_onnx_bytes(content, DEFAULT, Diagnostics())
        except NnefError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: ModelOrPath, device: str = "CPU", **kwargs: Any) -> NnefcBackendRep:
        """Compile a model.

        Args:
            model: The model, without external data, or the path or the bytes of a file, which may
                have such data.
            device: `CPU`.
            kwargs: `threads`: the threads of a call; others have no effect.

        Raises:
            NnefError: With all errors; `input/argument` for another device.
        """
        if not cls.supports_device(device):
            message = f"device '{device}' is not available: nnefc runs models on the CPU"
            raise NnefError([Diagnostic("input/argument", message, hint="device='CPU'")])
        return NnefcBackendRep(_proto_of(model), kwargs.get("threads"))

    @classmethod
    def run_model(
        cls, model: ModelOrPath, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """The outputs of a model: `prepare` and `run`."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Any = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs of one node for arrays in the order of its inputs, or by name.

        `opset_version=`: of its domain; the newest one by default.  Raises NnefError.
        """
        present = [name for name in node.input if name]
        if isinstance(inputs, Mapping):
            named = dict(cast(Mapping[str, Any], inputs))
            if missing := [name for name in present if name not in named]:
                message = f"there is no array for {', '.join(missing)}"
                raise NnefError([Diagnostic("input/count", message)])
            inputs = [named[name] for name in present]
        given = {name: np.asarray(x) for name, x in _by_name(inputs, present).items()}
        declared = [_declared(name, x) for name, x in given.items()]
        results = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], "node", declared, results)
        version = int(kwargs.get("opset_version") or defs.onnx_opset_version())
        opsets = [helper.make_opsetid(node.domain, version)]
        made = helper.make_model(graph, opset_imports=opsets)
        return cls.prepare(made, device, **kwargs).run(given)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether this is `CPU`, with or without a number."""
        return device.partition(":")[0] == "CPU"


def _declared(name: str, x: Array) -> Any:
    elem_type = helper.np_dtype_to_tensor_dtype(x.dtype)
    return helper.make_tensor_value_info(name, elem_type, x.shape)


is_compatible = NnefcBackend.is_compatible
prepare = NnefcBackend.prepare
run_model = NnefcBackend.run_model
run_node = NnefcBackend.run_node
supports_device = NnefcBackend.supports_device
