"""`InferenceSession`: run ONNX models through the names of onnxruntime.

Source: the Python API of onnxruntime.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from nnefc.formats.files import map_file, open_regular
from nnefc.formats.onnx.metadata import ModelMetadata, model_metadata
from nnefc.formats.onnx.value_types import ValueType, ValueTypes, value_types
from nnefc.formats.onnx.wire_format import WireError
from nnefc.formats.paths import is_onnx
from nnefc.onnx.call_values import given_values, has_sequences, has_strings, returned_value
from nnefc.onnx.counting_model import CountingModel
from nnefc.onnx.library import CPU
from nnefc.onnx.options import SessionOptions
from nnefc.options.arguments import check_threads
from nnefc.support.errors import Diagnostic, NnefError

if TYPE_CHECKING:
    from mmap import mmap

    import numpy as np
    from onnx import ModelProto

    from nnefc.onnx.overridden_models import OverriddenModels
    from nnefc.onnx.ranked_models import RankedModels
    from nnefc.onnx.specialized_models import SpecializedModels
    from nnefc.runtime.memory.caller_arrays import TensorSpec
    from nnefc.runtime.run.model_interface import Model

    Array = np.ndarray[Any, Any]

_TYPES: Final = {
    "float32": "float",
    "float64": "double",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "bool": "bool",
    **{name: name for bits in (8, 16, 32, 64) for name in (f"int{bits}", f"uint{bits}")},
}
"""onnxruntime's names of item types."""


_ELSEWHERE: Final = {
    "end_profiling": "session.model.profile(x) measures each operation",
    "get_profiling_start_time_ns": "session.model.profile(x) measures each operation",
    "io_binding": "session.model(x, out=y) writes the results to arrays",
    "run_async": "threads may call run of one session at the same time",
    "run_with_iobinding": "session.model(x, out=y) writes the results to arrays",
    "run_with_ort_values": "run takes and returns arrays of NumPy",
    "run_with_ortvaluevector": "run takes and returns arrays of NumPy",
}
"""Methods of onnxruntime that sessions lack, and what does the same."""


@dataclass(frozen=True)
class NodeArg:
    """An input or an output of a session."""

    name: str
    type: str
    """The item type in onnxruntime's form, such as `tensor(float)`."""
    shape: list[int | str | None]
    """Extents: numbers, names of dimensions, None for dimensions without a name."""


class InferenceSession:
    """A compiled ONNX model with the methods of `onnxruntime.InferenceSession`.

    It holds no state of a call, so threads may share it.  A model in a file is opened from the
    model cache if it was compiled before.

    Args:
        path_or_bytes: The path of an ONNX file, or a serialized model without external data, which
            is compiled each time.
        sess_options: Number of threads, and values of named dimensions; of onnxruntime's own class,
            which keeps the dimensions to itself, the number of threads.
        providers: None, or `CPUExecutionProvider`, with or without options.
        provider_options: No effect.
        ignored: Other arguments of onnxruntime; no effect.

    Raises:
        NnefError: With all errors of the model; `input/argument` for another provider, and for
            arguments of other types.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **ignored: Any,
    ) -> None:
        _check_model(path_or_bytes)
        _check_providers(providers or ())
        self._options = sess_options or SessionOptions()
        threads: object = getattr(self._options, "intra_op_num_threads", self._options)
        count = check_threads(threads or None)
        symbols = getattr(self._options, "free_dimensions", {})
        (self._inputs, self._outputs, self._overridable), self._metadata = _facts_of(path_or_bytes)
        self._specialized: SpecializedModels | RankedModels | None = None
        if has_sequences(self._inputs, self._outputs) or has_strings(self._inputs):
            from nnefc.onnx.specialized_models import SpecializedModels, whole_model

            self._specialized = SpecializedModels(whole_model(path_or_bytes), count)
            return
        if shapeless := [name for name, type_ in self._inputs.items() if not type_.ranked]:
            from nnefc.onnx.ranked_models import RankedModels
            from nnefc.onnx.specialized_models import whole_model

            proto = whole_model(path_or_bytes)
            self._specialized = RankedModels(proto, shapeless, count, symbols)
            return

        def whole() -> ModelProto:
            from nnefc.onnx.specialized_models import whole_model

            return whole_model(path_or_bytes)

        compiled = partial(_compiled, path_or_bytes, count, symbols)
        self._model = CountingModel(compiled, whole, count, symbols)

        def overridden() -> OverriddenModels:
            from nnefc.onnx.overridden_models import OverriddenModels

            return OverriddenModels(whole(), count, symbols)

        self._make_overridden = cache(overridden)

    @property
    def model(self) -> Model:
        """The compiled model.

        Raises NnefError `input/argument` if inputs or outputs are sequences or optionals, or if
        inputs are strings or have no shape: such a model is compiled for the lengths, strings or
        ranks of each call.  Also if loops have stacked results without a bound, whose turns a model
        of its own counts.
        """
        if self._specialized is not None:
            message = "a model with sequences, strings or inputs without a shape is compiled for "
            raise NnefError.of("input/argument", message + "those of each call")
        if self._model.whole is None:
            message = "a model that counts the turns of its loops is compiled in parts"
            raise NnefError.of("input/argument", message)
        return self._model.whole

    def get_inputs(self) -> list[NodeArg]:
        """Names, shapes and types of the inputs, in order.

        The shapes are empty if an input or output is a sequence or an optional, or holds strings,
        or if an input has no shape.
        """
        if self._specialized is not None:
            return [NodeArg(name, str(type_), []) for name, type_ in self._inputs.items()]
        shapes = _symbolic(self._model.whole, "input_shapes")
        return [_argument(spec, shapes, self._inputs, self._unnamed) for spec in self._model.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Names, shapes and types of the outputs, in order, as `get_inputs` has them."""
        if self._specialized is not None:
            return [NodeArg(name, str(type_), []) for name, type_ in self._outputs.items()]
        shapes = _symbolic(self._model.whole, "output_shapes")
        return [
            _argument(spec, shapes, self._outputs, self._unnamed) for spec in self._model.outputs
        ]

    @property
    def _unnamed(self) -> set[str]:
        """The symbols of dimensions without a name, and the numbers that stand for no extent."""
        axes = ((each.name, axis) for each in self._model.inputs for axis in range(len(each.shape)))
        return {"?", "-1", *(f"{name}_{axis}" for name, axis in axes)}

    def get_modelmeta(self) -> ModelMetadata:
        """Who made the model, and what it says about itself; empty for other formats than ONNX."""
        return self._metadata

    def get_providers(self) -> list[str]:
        """`["CPUExecutionProvider"]`."""
        return [CPU]

    def set_providers(
        self,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Accept `CPUExecutionProvider`; raises NnefError `input/argument` for another one."""
        _check_providers(providers or ())

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """`{"CPUExecutionProvider": {}}`."""
        return {CPU: {}}

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Names, shapes and types of initializers that are inputs, too: `run` takes others.

        Empty where `get_inputs` has no shapes.
        """
        if self._specialized is not None or not self._overridable:
            return []
        shapes = self._make_overridden().shapes
        return [NodeArg(name, str(t), shapes[name]) for name, t in self._overridable.items()]

    def disable_fallback(self) -> None:
        """Do nothing: there is no other provider."""

    def enable_fallback(self) -> None:
        """Do nothing: there is no other provider."""

    def __getattr__(self, name: str) -> Any:
        message = f"'InferenceSession' object has no attribute '{name}'"
        if name in _ELSEWHERE:
            message += f": {_ELSEWHERE[name]}"
        raise AttributeError(message)

    def get_session_options(self) -> SessionOptions:
        """The options that the session was made with."""
        return self._options

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Array]:
        """Run the model on arrays by name.

        Args:
            output_names: The outputs to return, in this order; None or empty: all of them.
            input_feed: An array for each input, or a list of numbers, which becomes one of the item
                type of the input; a list of arrays for a sequence, None for an optional without an
                element; arrays of `ml_dtypes` for float8 and the like; arrays or lists of strings.
                Initializers that are inputs, too, may be given; the first call with other names of
                these compiles a model for them.
            run_options: No effect.

        Returns:
            The arrays of the outputs, lists of arrays and None, in the same form.

        Raises:
            NnefError: `input/...` with all errors of the arrays; `input/argument` for an output
                that the model does not have.
        """
        feed: object = input_feed
        if not isinstance(feed, Mapping):
            message = f"input_feed is a {type(feed).__name__}, expected arrays by name"
            raise NnefError.of("input/argument", message, hint="run(None, {'x': x})")
        if isinstance(output_names, str):
            message = f"output_names = {output_names!r}: expected a list of names, or None"
            raise NnefError.of("input/argument", message, hint=f"run([{output_names!r}], ...)")
        model = self._specialized or self._model
        if self._specialized is None and not self._overridable.keys().isdisjoint(feed):
            model = self._make_overridden()
        results = model.run(given_values(input_feed, {**self._inputs, **self._overridable}))
        wanted = list(results) if not output_names else list(output_names)
        if unknown := [name for name in wanted if name not in results]:
            listed = ", ".join(results)
            raise NnefError(
                Diagnostic("input/argument", f"there is no output '{name}'; there are {listed}")
                for name in unknown
            )
        return [returned_value(results[name], self._outputs.get(name)) for name in wanted]


def _compiled(
    path_or_bytes: str | os.PathLike[str] | bytes, threads: int | None, symbols: Mapping[str, int]
) -> Model:
    if isinstance(path_or_bytes, bytes):
        from nnefc.onnx.compile_bytes import compile_bytes

        return compile_bytes(path_or_bytes, threads, symbols=symbols)
    from nnefc.api.compile import compile

    return compile(path_or_bytes, threads=threads, symbols=symbols)


def _check_model(given: object) -> None:
    """Raise NnefError `input/argument` unless a model is given by a path or as bytes."""
    if not isinstance(given, str | os.PathLike | bytes):
        message = f"the model is a {type(given).__name__}, expected a path or bytes"
        hint = "model.SerializeToString()" if hasattr(given, "SerializeToString") else ""
        raise NnefError.of("input/argument", message, hint=hint)


def _check_providers(providers: Sequence[str | tuple[str, Mapping[str, Any]]]) -> None:
    """Raise NnefError `input/argument` for providers other than `CPU`, and for other objects."""
    hint = f"leave providers out, or pass ['{CPU}']"
    given: object = providers
    if isinstance(given, str) or not isinstance(given, Sequence):
        message = f"providers = {given!r}: expected a list of names"
        raise NnefError.of("input/argument", message, hint=hint)
    names = [each[0] if isinstance(each, tuple) and each else each for each in providers]
    if unknown := [name for name in names if name != CPU]:
        raise NnefError(
            Diagnostic(
                "input/argument",
                f"provider '{name}' is not available: nnefc runs models on the CPU",
                hint=hint,
            )
            for name in unknown
        )


def _symbolic(model: Model | None, name: str) -> Mapping[str, Sequence[str]]:
    """The symbolic shapes of a dynamic model by name; empty for other models."""
    found: Any = getattr(model, name, ())
    return {each.name: each.extents for each in found}


def _argument(
    spec: TensorSpec,
    shapes: Mapping[str, Sequence[str]],
    types: Mapping[str, ValueType],
    unnamed: Container[str],
) -> NodeArg:
    """An input or output; the extents `unnamed` are None."""
    written = shapes.get(spec.name, [str(extent) for extent in spec.shape])
    known = [
        None if text in unnamed else int(text) if text.isdecimal() else text for text in written
    ]
    type_ = types.get(spec.name)
    text = str(type_) if type_ else f"tensor({_TYPES.get(spec.dtype.name, spec.dtype.name)})"
    return NodeArg(spec.name, text, known)


def _facts_of(
    path_or_bytes: str | os.PathLike[str] | bytes,
) -> tuple[ValueTypes, ModelMetadata]:
    """The types of inputs and outputs of an ONNX model, and its metadata; empty if unreadable."""
    content: mmap | bytes = b""
    try:
        if isinstance(path_or_bytes, bytes):
            content = path_or_bytes
        elif is_onnx(path_or_bytes):
            with open_regular(path_or_bytes, "container/file") as file:
                content = map_file(file) or file.read()
        return value_types(content), model_metadata(content)
    except (WireError, UnicodeDecodeError, OSError):
        return ValueTypes({}, {}, {}), ModelMetadata()  # the front end reports the error
