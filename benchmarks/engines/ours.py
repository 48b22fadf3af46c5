"""nnefc."""

from __future__ import annotations

from typing import Any

from benchmarks.artifacts import Network, import_graph
from benchmarks.engines.base import Array, Call, Engine


class Nnefc(Engine):
    """Our own compiler."""

    name = "nnefc"
    title = "nnefc"
    modules = ("nnefc", "nnefc.api", "numba", "llvmlite")

    def convert(self, network: Network) -> None:
        pass  # the container is what it reads

    def load(self, network: Network, threads: int, arrays: dict[str, Array]) -> Call:
        import nnefc

        model = nnefc.compile(import_graph(network), threads=threads)
        inputs = list(arrays.values())
        self.arena = model.arena_bytes
        return lambda: model(*inputs)

    def results(self, network: Network, returned: Any) -> dict[str, Array]:
        values = returned if len(network.outputs) > 1 else [returned]
        return dict(zip(network.outputs, values))
