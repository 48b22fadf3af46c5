"""`CountingModel`: a model that is split into several where loops have no bound of their turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from onnx import ModelProto

    from nnefc.onnx.counted_loops import CountedLoops
    from nnefc.runtime.memory.caller_arrays import TensorSpec
    from nnefc.runtime.run.model_interface import Model


class CountingModel:
    """A compiled model; or, if it cannot be compiled for its loops, `CountedLoops`.

    For a model with symbols, only the shapes of a call may tell.
    """

    def __init__(
        self,
        compiled: Callable[[], Model],
        proto: Callable[[], ModelProto],
        threads: int | None,
        symbols: Mapping[str, int] | None = None,
    ) -> None:
        """`compiled`: compiles the model `proto`.  Raises NnefError with all errors."""
        self._proto, self._threads, self._symbols = proto, threads, symbols
        self.whole: Model | None = None
        """The compiled model; None if it is split."""
        self._split: CountedLoops | None = None
        try:
            self.whole = compiled()
        except NnefError as error:
            self._split = self._counted(error)

    @classmethod
    def of_proto(
        cls, proto: ModelProto, threads: int | None, symbols: Mapping[str, int] | None = None
    ) -> CountingModel:
        """The model of a message without external data; raises NnefError with all errors."""
        from nnefc.onnx.compile_bytes import compile_bytes

        content = proto.SerializeToString()
        compiled = partial(compile_bytes, content, threads, symbols=symbols or {})
        return cls(compiled, lambda: proto, threads, symbols)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Names, shapes and types of the inputs; -1 for a symbolic extent."""
        return self._current.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The same of the results."""
        return self._current.outputs

    @property
    def _current(self) -> Model | CountedLoops:
        current = self._split or self.whole
        assert current is not None
        return current

    def run(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """The results by name; raises NnefError with all errors."""
        try:
            return self._current.run(named)
        except NnefError as error:
            if self._split is not None:
                raise
            self._split = self._counted(error)
            self.whole = None
        return self._split.run(named)

    def _counted(self, error: NnefError) -> CountedLoops:
        """The split model; raises the error if loops without a bound are not the only one."""
        from nnefc.frontends.common.graph_source import TURNS_RULE

        if any(each.rule != TURNS_RULE for each in error.errors):
            raise error
        from nnefc.onnx.counted_loops import CountedLoops, can_count

        proto = self._proto()
        if not can_count(proto):
            raise error
        return CountedLoops(proto, self._threads, self._symbols)
