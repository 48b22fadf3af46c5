"""Networks on disk: an NNEF container, and its conversions for other engines.

The folder of a network is named by a digest of everything that its files depend on, so files are
written once and are never out of date.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.zoo import ZOO, inputs_of
from benchmarks.zoo.nnef import Document

Array = np.ndarray[Any, Any]

ROOT = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Network:
    """A network whose container has been written.

    `inputs` are shapes by name, `outputs` the names of the results, in order.  `reals`: the folder
    of the network in float32, if this is a quantized one.  `precision`: the items that engines
    multiply, float32 or bfloat16.
    """

    name: str
    title: str
    batch: int
    folder: Path
    archive: Path
    inputs: dict[str, tuple[int, ...]]
    outputs: tuple[str, ...]
    reals: Path | None = None
    precision: Literal["float32", "bfloat16"] = "float32"

    def file(self, name: str) -> Path:
        """The path of a file that is converted from the container."""
        return self.folder / name

    def arrays(self, seed: int = 1) -> dict[str, Array]:
        """Normally distributed float32 inputs by name."""
        return inputs_of(self.inputs, seed)


def default_folder() -> Path:
    """The default folder for network files, in the user's cache folder."""
    platformdirs: Any = import_module("platformdirs")
    return Path(platformdirs.user_cache_dir("nnefc")) / "benchmarks"


def prepare(source: str, folder: Path, batch: int | None = None, *, small: bool = False) -> Network:
    """The network of the zoo named `source`, or that of the container at this path.

    `batch`: the first extent of all inputs; None: as in the document (1 in the zoo).  `small`: the
    reduced size of a network of the zoo.
    """
    if source in ZOO:
        return _from_zoo(source, folder, batch or 1, small=small)
    return _from_container(Path(source), folder, batch)


def import_graph(network: Network, *, data: bool = True) -> Any:
    """The graph of a network; `data`: with values for all variables, random ones where needed."""
    import nnefc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nnefc.NnefWarning)
        shapes = {name: list(dims) for name, dims in network.inputs.items()}
        seed = 1 if data else None
        return nnefc.import_model(
            network.archive, shapes=shapes, random_weights=seed, load_data=data
        )


def _from_zoo(name: str, folder: Path, batch: int, *, small: bool) -> Network:
    entry = ZOO[name]
    document = entry.document(name, batch, small=small)
    return store(document, name, entry.title, folder, batch)


def store(document: Document, name: str, title: str, folder: Path, batch: int = 1) -> Network:
    """Write a network unless its container exists."""
    digest = _digest(document.text, *map(repr, document.variables.values()))
    directory = folder / f"{name}-b{batch}-{digest}"
    archive = directory / f"{name}.nnef.tar"
    if not archive.exists():
        directory.mkdir(parents=True, exist_ok=True)
        document.write(archive)
    return _described(name, title, batch, directory, archive, document.inputs)


def _from_container(path: Path, folder: Path, batch: int | None) -> Network:
    import nnefc

    graph = nnefc.import_model(path, load_data=False)
    inputs = {
        v.name: (batch or v.type.dims[0], *v.type.dims[1:]) if v.type.dims else ()
        for v in graph.inputs
    }
    stamp = path.stat()
    digest = _digest(str(path.resolve()), str(stamp.st_mtime_ns), str(stamp.st_size), repr(inputs))
    directory = folder / f"{path.name.partition('.')[0]}-{digest}"
    directory.mkdir(parents=True, exist_ok=True)
    first = next(iter(inputs.values()), (1,))
    return _described(path.name, path.name, first[0] if first else 1, directory, path, inputs)


def _described(
    name: str, title: str, batch: int, folder: Path, archive: Path, inputs: dict[str, Any]
) -> Network:
    import nnefc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nnefc.NnefWarning)
        graph = nnefc.import_model(archive, load_data=False)
    return Network(name, title, batch, folder, archive, inputs, tuple(graph.output_names))


def _digest(*texts: str) -> str:
    """A digest of texts and of the source of the converters."""
    total = hashlib.sha256()
    for text in texts:
        total.update(text.encode() + b"\0")
    product = ROOT.parent / "nnefc" / "emit" / "convert"
    for path in sorted((*(ROOT / "convert").glob("*.py"), *product.rglob("onnx/*.py"))):
        total.update(path.read_bytes())
    return total.hexdigest()[:12]


# -- files of other formats

ONNX = "model.onnx"
ONNX_FUSED = "model-fused.onnx"
"""Uses newer operators (Gelu, Attention); written if the network has patterns for them."""
TORCH_SCRIPT = "model.pt"


def _write_onnx(network: Network) -> None:
    from benchmarks.convert.onnx_file import has_fused_form, write_onnx

    graph = import_graph(network)
    if has_fused_form(graph):
        write_onnx(graph, network.file(ONNX_FUSED), fused=True)
    write_onnx(graph, network.file(ONNX))


def _write_torch_script(network: Network) -> None:
    from benchmarks.convert.torch_module import write_torch_script

    write_torch_script(import_graph(network), network.file(TORCH_SCRIPT))


_WRITERS: dict[str, Callable[[Network], None]] = {
    ONNX: _write_onnx,
    TORCH_SCRIPT: _write_torch_script,
}


def require(network: Network, name: str) -> Path:
    """The path of a converted file, which is written unless it exists."""
    path = network.file(name)
    if not path.exists():
        _WRITERS[name](network)
    return path
