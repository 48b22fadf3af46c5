"""The engine nnefc."""

from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.artifacts import Network, import_graph
from benchmarks.engines.engine_interface import Array, Call, Engine

if TYPE_CHECKING:
    from nnefc.runtime.run.compiled_model import CompiledModel
    from nnefc.runtime.run.model_interface import Model

_DOCUMENT: Final = "model.nnef.tgz"


class Nnefc(Engine):
    """nnefc itself."""

    name = "nnefc"
    title = "nnefc"
    modules = ("nnefc", "nnefc.api.compile", "nnefc.runtime.run.compiled_model")

    def convert(self, network: Network) -> None:
        pass  # it reads the container

    def warm(self, network: Network, threads: int, arrays: dict[str, Array]) -> None:
        self.load(network, threads, arrays)()  # stores the kernels in the cache

    def load(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        import nnefc

        inputs = list(arrays.values())
        call: Model
        if network.archive.suffix in (".onnx", ".tflite"):
            call, self._model = _of_file(network, threads, arrays)
        else:
            graph, precision = import_graph(network), network.precision
            call = self._model = nnefc.compile(graph, threads=threads, precision=precision)
        self.arena = self._model.arena_bytes
        return lambda: call(*inputs)

    def load_profiled(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        self.load(network, threads, arrays)
        inputs = list(arrays.values())
        # layers within a network change no layout, but they write zero borders
        changes = ("layout_block", "layout_unblock")
        counted = [not launch.kernel.startswith(changes) for launch in self._model.launches]
        self._seconds: list[float] = []

        def call() -> None:
            wall = self._model.profile(*inputs, seconds=0).wall
            self._seconds.append(float(np.median(wall[:, counted].sum(axis=1))))

        return call

    def convolution_seconds(self) -> list[float]:
        return self._seconds

    def results(self, network: Network, returned: Any) -> dict[str, Array]:
        values = returned if len(network.outputs) > 1 else [returned]
        return dict(zip(network.outputs, values))


def _of_file(
    network: Network, threads: int, arrays: dict[str, Array]
) -> tuple[Model, CompiledModel]:
    """(model of an ONNX or TensorFlow Lite file, the one that it runs for `arrays`).

    Results whose extent a run tells have their full room in the model of a graph.
    """
    import nnefc
    from nnefc.dynamic.dynamic_model import DynamicModel
    from nnefc.runtime.run.compiled_model import CompiledModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nnefc.NnefWarning)
        model = nnefc.compile(network.archive, threads=threads, precision=network.precision)
    if isinstance(model, DynamicModel):
        return model, model.for_shapes({name: array.shape for name, array in arrays.items()})
    assert isinstance(model, CompiledModel)
    return model, model


class NnefcOfNnef(Nnefc):
    """nnefc with the NNEF document that it writes of a network in another format."""

    name = "nnefc_nnef"
    title = "nnefc, NNEF"

    def convert(self, network: Network) -> None:
        target = network.file(_DOCUMENT)
        if not target.exists():
            made = network.file(f"made_{_DOCUMENT}")
            command = [sys.executable, "-m", "nnefc", "convert", network.archive, "-o", made]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(done.stderr.strip())
            made.replace(target)

    def load(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        return super().load(replace(network, archive=network.file(_DOCUMENT)), threads, arrays)
