"""Write a model as an NNEF archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnefc.ir import Graph
from nnefc.options.import_config import Path
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from nnefc.runtime.run.model_interface import Model


def save_archive(path: Path, model: Model | Graph, *, overwrite: bool = False) -> None:
    """Write a model as an NNEF container: the flattened document and the data of its variables.

    Args:
        path: A name that ends in .tar, .tgz or .tar.gz; a folder if it has no suffix or ends
            in a slash.
        model: A graph, or a compiled model, whose variables are written with their current
            values.
        overwrite: Replace an existing file; a folder that is not empty is never replaced.

    Raises:
        NnefError: If a variable has no data, or the container cannot be written.
    """
    from nnefc.formats.container import write_container
    from nnefc.formats.files import require_path, require_unchanged
    from nnefc.frontends.nnef.flatten import flatten
    from nnefc.frontends.nnef.real_weights import with_real_weights

    require_path("the archive", path)
    if not hasattr(model, "graph") and not isinstance(model, Graph):
        raise NnefError.of(
            "input/argument",
            f"the model is given as {type(model).__name__}, expected a graph or a compiled model",
        )
    source = model if isinstance(model, Graph) else model.graph
    graph = with_real_weights(source)
    stored = {variable.label: variable.data for variable in graph.variables.values()}
    if not isinstance(model, Graph):
        for label, data in model.variables.items():
            if graph.variables[label.lower()] is source.variables[label.lower()]:
                stored[label] = data
    tensors = {label: data for label, data in stored.items() if data is not None}
    require_unchanged(tensors.values())
    missing = [label for label in stored if label not in tensors]
    if missing:
        raise NnefError.of("data/missing", f"variables without data: {', '.join(missing)}")
    write_container(path, graph_text=flatten(graph), tensors=tensors, overwrite=overwrite)
