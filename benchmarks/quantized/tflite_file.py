"""Write .tflite files with the schema that comes with LiteRT."""

# pyright: reportMissingImports=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# (ai_edge_litert and flatbuffers are not typed)

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

_TYPES: Final = {"float32": "FLOAT32", "int8": "INT8", "int32": "INT32"}


class TfliteFile:
    """Tensors and operators of a file under construction; tensors are known by their numbers."""

    def __init__(self) -> None:
        self._schema: Any = import_module("ai_edge_litert.schema_py_generated")
        self._codes: dict[str, int] = {}
        self._tensors: list[Any] = []
        self._operators: list[Any] = []
        self._buffers: list[Any] = [self._schema.BufferT()]
        self._small: dict[tuple[str, tuple[int, ...], bytes], int] = {}

    def tensor(
        self,
        shape: Sequence[int],
        dtype: str,
        scales: Sequence[float] = (),
        zero: int = 0,
        axis: int = 0,
        data: Array | None = None,
    ) -> int:
        """The number of a new tensor; with `data`, of a constant."""
        made = self._schema.TensorT()
        made.name, made.shape = f"t{len(self._tensors)}", [int(extent) for extent in shape]
        made.type = getattr(self._schema.TensorType, _TYPES[dtype])
        made.buffer = 0
        if data is not None:
            buffer = self._schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            made.buffer = len(self._buffers)
            self._buffers.append(buffer)
        if scales:
            made.quantization = self._schema.QuantizationParametersT()
            made.quantization.scale = np.array(scales, np.float32)
            made.quantization.zeroPoint = np.full(len(scales), zero, np.int64)
            made.quantization.quantizedDimension = axis
        self._tensors.append(made)
        return len(self._tensors) - 1

    def constant(self, values: Any, dtype: str = "int32") -> int:
        """The number of a constant without scale."""
        array = np.asarray(values, dtype)
        key = (dtype, array.shape, array.tobytes() if array.size < 100 else b"")
        if array.size >= 100 or key not in self._small:
            self._small[key] = self.tensor(array.shape, dtype, data=array)
        return self._small[key]

    def operator(
        self,
        name: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        kind: str = "",
        **options: Any,
    ) -> None:
        """Append an operator; `kind`: the table of its options."""
        made = self._schema.OperatorT()
        made.opcodeIndex = self._codes.setdefault(name, len(self._codes))
        made.inputs, made.outputs = list(inputs), list(outputs)
        if kind:
            made.builtinOptionsType = getattr(self._schema.BuiltinOptions, kind)
            made.builtinOptions = getattr(self._schema, f"{kind}T")()
            for key, value in options.items():
                assert hasattr(made.builtinOptions, key), key
                setattr(made.builtinOptions, key, value)
        self._operators.append(made)

    def write(self, path: Path, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        schema = self._schema
        graph = schema.SubGraphT()
        graph.tensors, graph.operators, graph.name = self._tensors, self._operators, "main"
        graph.inputs, graph.outputs = list(inputs), list(outputs)
        model = schema.ModelT()
        model.version, model.subgraphs, model.buffers = 3, [graph], self._buffers
        model.operatorCodes = []
        for name in self._codes:
            code = schema.OperatorCodeT()
            code.builtinCode = getattr(schema.BuiltinOperator, name)
            code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
            model.operatorCodes.append(code)
        builder: Any = import_module("flatbuffers").Builder(1 << 20)
        builder.Finish(model.Pack(builder), b"TFL3")
        path.write_bytes(bytes(builder.Output()))
