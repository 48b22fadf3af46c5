"""The networks whose kernels a wheel ships, and the kernels that they need.

Kernels are generic in shape.  The choice between kernels depends a little on the number of threads
and on the size of the cache, so networks are lowered for several machines.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from benchmarks.zoo import ZOO
from kernel_packs.layers import layers
from kernel_packs.similar import similar
from nnefc.api.importing import import_model
from nnefc.driver import typical_graphs
from nnefc.driver.lower_graph import lower_prepared, prepare
from nnefc.frontends.common.graph_source import sample_graph
from nnefc.frontends.read_model import read_model
from nnefc.ir import Graph
from nnefc.kernels.family import Kernel
from nnefc.kernels.target.isa import TABLE, Isa, executable_variants, host, variants
from nnefc.options.compile_config import Accuracy, CompileConfig
from nnefc.options.import_config import import_config


class Selection(NamedTuple):
    """A value of the setting `kernels` of a build."""

    networks: Sequence[str]
    """Names of `NETWORKS`."""
    complete: bool
    """Whether to add kernels for other shapes and item types: `similar` and `usual_kernels`; and
    whether to compile for all rows of the ISA table and their variants, not only for those of the
    machine."""

    @property
    def rows(self) -> Sequence[Isa]:
        """The rows to compile for."""
        return tuple(TABLE.values()) if self.complete else (TABLE[host().name],)

    def variants(self, row: Isa) -> dict[str, Isa]:
        """The variants of a row to compile for: all, or the row itself and that of the machine."""
        every = variants(row)
        if self.complete:
            return every
        here = [name for name in executable_variants() if name in every]
        return {name: every[name] for name in (row.name, *here[-1:])}


class Machine(NamedTuple):
    """A machine and options that networks are lowered for."""

    threads: int
    cache_bytes: int
    accuracy: Accuracy = "fast"
    dynamic_shapes: bool = False


MACHINES: Final = (
    Machine(1, 32 << 20),
    Machine(1, 1 << 20),
    Machine(2, 32 << 20),
    Machine(4, 8 << 20),
    Machine(8, 256 << 20),
    Machine(16, 32 << 20),
    Machine(2, 32 << 20, accuracy="strict"),
    Machine(2, 32 << 20, dynamic_shapes=True),
)


def _of_zoo(name: str, batch: int) -> Graph:
    with TemporaryDirectory(prefix="nnefc-network-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # converters write them like this
        path = Path(folder, "graph.nnef")
        path.write_text(ZOO[name].document(name, batch).text)
        return import_model(path, random_weights=1)


def _exported(path: Path) -> Graph:
    """A network that torch_to_nnef has exported, with random weights; its symbols are small."""
    config = import_config(path, {"random_weights": 1})
    diagnostics = config.diagnostics()
    with TemporaryDirectory(prefix="nnefc-network-") as folder:
        document = Path(folder, "graph.nnef")
        document.write_bytes(path.read_bytes())
        source = read_model(document, config, diagnostics, dynamic=True)
    if isinstance(source, Graph):
        return source
    return sample_graph(source, config.shapes, diagnostics).graph


_EXPORTS: Final = sorted(Path(__file__).parent.joinpath("exports").glob("*.nnef"))
"""Documents of the networks in `benchmarks/exported` without weights, with fewer layers."""
NETWORKS: Final[Mapping[str, Callable[[], Graph]]] = {
    **{f"{name}, batch {n}": partial(_of_zoo, name, n) for name in ZOO for n in (1, 4)},
    **{f"exported {path.stem}": partial(_exported, path) for path in _EXPORTS},
    **{f"typical {number}": make for number, make in enumerate(typical_graphs.MAKERS)},
}
"""Functions that return a network, by its name."""
_WHOLE: Final = frozenset(name for name in NETWORKS if not name.endswith("batch 4"))
"""Networks that are lowered for every machine; a batch changes little."""
LAYERS: Final[Mapping[str, Callable[[], Graph]]] = layers()
"""Functions that return a graph of layers, by its name; one machine is sufficient for them."""
SETS: Final[Mapping[str, Selection]] = {
    "small": Selection(("mobilenet_v2, batch 1",), complete=False),
    "release": Selection((*NETWORKS, *LAYERS), complete=True),
}
"""The values that the setting `kernels` of a build may have."""


def prepared(network: str) -> Graph:
    """The prepared graph of a network of a `Selection`."""
    return prepare((LAYERS.get(network) or NETWORKS[network])())


def kernels_of(
    network: str, *, complete: bool = False, brief: bool = False, graph: Graph | None = None
) -> list[Kernel]:
    """The kernels to ship for a network and the instruction set of this process.

    Those with substitutes are replaced by the first, which many networks share.  `complete`: see
    `Selection`.  `brief`: for one machine only.  `graph`: the network, if it is `prepared` already.
    """
    machines = MACHINES if network in _WHOLE else MACHINES[::3]
    if network in LAYERS or brief:
        machines = MACHINES[:1]
    graph = graph or prepared(network)
    kernels: dict[Kernel, None] = {}
    for machine in machines:
        program = lower_prepared(
            graph.clone(),
            CompileConfig(machine.threads, machine.accuracy, algorithms={}),
            dynamic_shapes=machine.dynamic_shapes,
            keep_sources=True,
            cache_bytes=machine.cache_bytes,
        )
        for kernel in program.kernels:
            found = [kernel, *kernel.relatives(), *(similar(kernel) if complete else ())]
            kernels.update(dict.fromkeys(found))
    return list(dict.fromkeys((kernel.substitutes() or [kernel])[0] for kernel in kernels))
