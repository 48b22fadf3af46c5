"""`Interpreter`: run TensorFlow Lite models through the names of LiteRT.

Source: the Python API of LiteRT (`ai_edge_litert.interpreter`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from nnefc.options.arguments import as_integer, check_threads
from nnefc.support.errors import NnefError
from nnefc.tflite.compile_subgraph import ModelContent
from nnefc.tflite.signature_runner import SignatureRunner
from nnefc.tflite.tensors import SubgraphTensors

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_WITHOUT_EFFECT: Final = frozenset(
    {
        "experimental_compress_quantization_zero_points",
        "experimental_default_delegate_latest_features",
        "experimental_disable_delegate_clustering",
        "experimental_disable_delegate_node_fusion",
        "experimental_force_delegate_node_profiling",
        "experimental_op_resolver_type",
    }
)
"""Arguments of LiteRT that have no effect."""
_REFUSED: Final = {
    "experimental_delegates": "nnefc compiles the whole model",
    "experimental_preserve_all_tensors": "intermediate tensors are not kept",
}
"""Arguments of LiteRT that must be empty, and why."""


class Interpreter:
    """A TensorFlow Lite model with the methods of LiteRT's `Interpreter`.

    Errors are NnefError where LiteRT raises ValueError or RuntimeError; it is neither of these.
    An interpreter serves one caller at a time, and keeps variable tensors from call to call.

    Args:
        model_path: The path of a file, which is opened from the model cache if it was compiled
            before.
        model_content: The bytes of a model, which is compiled each time.
        experimental_delegates: None or empty.
        num_threads: Threads of a call; None: all usable CPUs, where LiteRT has one.
        ignored: Other arguments of LiteRT; no effect, but `experimental_preserve_all_tensors` must
            be False.

    Raises:
        NnefError: With all errors in the structure of the model; `input/argument` for delegates,
            for unknown arguments, and unless one of path and content is given.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None = None,
        model_content: bytes | bytearray | memoryview | None = None,
        experimental_delegates: Sequence[object] | None = None,
        num_threads: int | None = None,
        **ignored: Any,
    ) -> None:
        _check_options({"experimental_delegates": experimental_delegates, **ignored})
        self._threads = check_threads(num_threads)
        self._content = _content_of(model_path, model_content)
        self._subgraphs: dict[int, SubgraphTensors] = {}
        self._main = self._tensors(0)

    def allocate_tensors(self) -> None:
        """Compile the model for the shapes of its inputs, unless it is ready.

        Inputs are zero afterwards, and variable tensors have their first values.  Raises NnefError
        with all errors of the model.
        """
        self._main.allocate()

    def get_input_details(self) -> list[dict[str, Any]]:
        """What is known of each input, in order.

        Keys are those of LiteRT: `name`, `index`, `shape`, `shape_signature` with -1 for extents
        that may change, `dtype`, `quantization` (scale and zero point, or zeros),
        `quantization_parameters` (`scales`, `zero_points`, `quantized_dimension`, `block_size`)
        and `sparsity_parameters`, which is empty.
        """
        return [self._main.details(i) for i in self._main.subgraph.inputs]

    def get_output_details(self) -> list[dict[str, Any]]:
        """What is known of each output, in order, as `get_input_details` has it."""
        return [self._main.details(i) for i in self._main.subgraph.outputs]

    def get_tensor_details(self, subgraph_index: int = 0) -> list[dict[str, Any]]:
        """What is known of each tensor; intermediate tensors have the shapes of the file."""
        return self._tensors(subgraph_index).every()

    def num_subgraphs(self) -> int:
        """The number of subgraphs in the model."""
        return len(self._content.file.subgraphs)

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Copy an array of the right shape and item type into an input; raises NnefError."""
        self._main.set(tensor_index, value)

    def invoke(self) -> None:
        """Compute the outputs; raises NnefError before `allocate_tensors`."""
        self._main.invoke()

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> Array:
        """A copy of an input, an output or a constant.

        Raises NnefError `input/argument` for others, as intermediate tensors are not kept.
        """
        return self._tensors(subgraph_index).value(tensor_index).copy()

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        """A function that returns an input, an output or a constant without a copy.

        Arrays of inputs may be written until the next `allocate_tensors`; `invoke` makes new ones
        for outputs.
        """
        self._main.checked(tensor_index)
        return lambda: self._main.value(tensor_index)

    def resize_tensor_input(
        self, input_index: int, tensor_size: Sequence[int], strict: bool = False
    ) -> None:
        """Replace the shape of an input, for which `allocate_tensors` then compiles the model.

        `strict`: only extents that are -1 in `shape_signature` may change.  Raises NnefError.
        """
        self._main.resize(input_index, tensor_size, strict=strict)

    def reset_all_variables(self) -> None:
        """Restore the first values of variable tensors."""
        for each in self._subgraphs.values():
            each.reset()

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """The sorted names of `inputs` and `outputs` of each signature, by its key."""
        return {
            each.key: {
                "inputs": sorted(each.inputs.values()),
                "outputs": sorted(each.outputs.values()),
            }
            for each in self._content.file.signatures
        }

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """A function of the inputs of a signature by name.

        None stands for the only signature.  Raises NnefError `input/argument` for an unknown one.
        """
        signatures = {each.key: each for each in self._content.file.signatures}
        if signature_key is None and len(signatures) == 1:
            (signature_key,) = signatures
        if signature_key not in signatures:
            listed = ", ".join(signatures) or "none"
            message = f"signature_key = {signature_key!r}; the signatures are {listed}"
            raise NnefError.of("input/argument", message)
        signature = signatures[signature_key]
        return SignatureRunner(self._tensors(signature.subgraph), signature)

    def _tensors(self, subgraph: int) -> SubgraphTensors:
        """The tensors of a subgraph; raises NnefError `input/argument` if there is none."""
        count = self.num_subgraphs()
        if as_integer(subgraph) is None or not 0 <= subgraph < count:
            message = f"there is no subgraph {subgraph!r}: the model has {count}"
            raise NnefError.of("input/argument", message)
        if subgraph not in self._subgraphs:
            made = SubgraphTensors(self._content, subgraph, self._threads)
            self._subgraphs[subgraph] = made
        return self._subgraphs[subgraph]


def _check_options(options: dict[str, Any]) -> None:
    """Raise NnefError `input/argument` for options that nnefc has not, and for unknown ones."""
    for name, value in options.items():
        if name in _REFUSED and value:
            raise NnefError.of("input/argument", f"{name} = {value!r}: {_REFUSED[name]}")
        if name not in _REFUSED and name not in _WITHOUT_EFFECT:
            raise NnefError.of("input/argument", f"there is no argument '{name}'")


def _content_of(path: object, content: object) -> ModelContent:
    """The model of a path or of bytes; raises NnefError unless one of them is given."""
    if bool(path) == bool(content):
        message = "expected either model_path or model_content"
        raise NnefError.of("input/argument", message)
    given: Any = path or content
    if isinstance(path, str | os.PathLike):
        return ModelContent.of_path(given)
    if isinstance(content, bytes | bytearray | memoryview):
        return ModelContent.of_bytes(given)
    message = f"the model is a {type(given).__name__}, expected a path or bytes"
    raise NnefError.of("input/argument", message)
