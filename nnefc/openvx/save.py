"""Artifacts of graphs: the compiled layers, with a description of the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnefc.artifacts.content import content_of_graph
from nnefc.artifacts.model_origin import native_target
from nnefc.artifacts.save import write_content
from nnefc.formats.files import require_path
from nnefc.options.compile_config import CompileConfig

if TYPE_CHECKING:
    from nnefc.formats.files import FilePath
    from nnefc.frontends.openvx.describe import Description
    from nnefc.ir import Graph


def save_layers(
    path: FilePath,
    graph: Graph,
    targets: Sequence[str] | None,
    threads: int | None,
    description: Description,
) -> None:
    """Write an artifact whose options have the description under `openvx`."""
    require_path("the artifact", path)
    chosen = native_target() if targets is None else targets
    notes = {"openvx": description._asdict()}
    write_content(path, content_of_graph(graph, CompileConfig.of(threads), chosen, notes=notes))
