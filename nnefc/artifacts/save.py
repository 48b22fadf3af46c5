"""What is written of models, and where to: see docs/design/artifacts.md."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from nnefc import __version__
from nnefc.formats.files import FilePath
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    import numpy as np

    from nnefc.driver.targets import LoweringOptions
    from nnefc.ir import Graph
    from nnefc.runtime.artifact.build import Build
    from nnefc.runtime.artifact.write import Portable
    from nnefc.runtime.compile.kernel_compiler import Progress
    from nnefc.runtime.run.model import CompiledModel

    Array = np.ndarray[Any, Any]
    Values = Mapping[str, Array]
    """Present values of the variables that a model updates, by label in lower case."""
    Content = tuple[Portable, list[Build]]
    """The model without code, and the code for each target."""


def content_of(
    graph: Graph,
    how: LoweringOptions,
    values: Values,
    targets: Sequence[str],
    progress: Progress | None = None,
    notes: Mapping[str, Any] | None = None,
) -> Content:
    """What a file holds of a graph that is prepared."""
    from nnefc.driver.targets import build_for, check_targets

    wanted = check_targets(targets)
    portable = _portable(graph, {**how.options, **(notes or {})}, values)
    return portable, build_for(wanted, graph, portable, how, progress)


def new_content(
    graph: Graph,
    how: LoweringOptions,
    targets: Sequence[str],
    progress: Progress | None = None,
    notes: Mapping[str, Any] | None = None,
) -> Content:
    """What a file holds of a graph that has just been imported, and what else is noted there.

    Nothing is compiled but for the targets.
    """
    from nnefc.options.arguments import memory_for

    with memory_for("compile the model"):
        return content_of(prepared_graph(graph), how, {}, targets, progress, notes)


def write_content(path: FilePath, content: Content) -> None:
    """Write an artifact."""
    from nnefc.runtime.artifact.write import write_artifact

    portable, builds = content
    replace_artifact(path, lambda file: write_artifact(file, portable, builds), portable.nbytes)
    _make_derived_weights(path)


def bytes_of(content: Content) -> bytes:
    """An artifact in memory."""
    from nnefc.runtime.artifact.write import write_artifact

    file = io.BytesIO()
    write_artifact(file, *content)
    return file.getvalue()


def write_c_content(path: FilePath, content: Content, name: str | None) -> list[str]:
    """Write a folder for programs in C, of the code for one target: the names of its files."""
    from nnefc.emit.folder import write_c

    portable, (build,) = content
    return write_c(path, portable, build, name)


def prepared_graph(graph: Graph) -> Graph:
    """The graph that is in a file, without variables that no operation is left to read."""
    from nnefc.driver.compile import prepared

    working = prepared(graph)
    read = {op.attributes["label"].lower() for op in working.ops if op.name == "variable"}
    working.variables = {key: data for key, data in working.variables.items() if key in read}
    return working


def states_of(model: CompiledModel) -> Values:
    """The variables that a model updates, as they are."""
    return {key: model.variables[key] for key in model.state_keys}


def replace_artifact(path: FilePath, write: Callable[[BinaryIO], None], at_least: int) -> None:
    """Write a file of so many bytes or more, whole and on the disk, or not at all."""
    from nnefc.formats.atomic import replace_file

    with replace_file(path, at_least) as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())  # large weights are read without comparing them


def _make_derived_weights(path: FilePath) -> None:
    """Let the first call of a loaded model find here what it would have to make."""
    from nnefc.runtime.artifact.file import open_file
    from nnefc.runtime.artifact.read import Artifact
    from nnefc.runtime.cache import cache

    if cache.weights() is None:
        return
    with suppress(NnefError):  # the file may be gone again, or replaced
        artifact = Artifact(open_file(path))
        number = artifact.best_target()
        if number is not None:
            artifact.compiled(number).constants()


def _portable(graph: Graph, options: Mapping[str, Any], values: Values) -> Portable:
    """What a file holds of a graph that is prepared, and of the state of a model: its `values`."""
    import numpy as np

    from nnefc.ir import print_graph
    from nnefc.runtime.artifact.write import Portable, State
    from nnefc.runtime.compile.assemble import tensors

    inputs, outputs = tensors(graph)
    updates = (op.inputs[0] for op in graph.ops if op.name == "update")
    updated = {value.op.attributes["label"].lower() for value in updates if value.op is not None}
    states: list[State] = []
    large: dict[str, Array] = {}
    text = print_graph(graph, data=large)
    arrays = {f"@{key}": data for key, data in large.items()}
    for key, variable in graph.variables.items():
        initial = variable.data
        assert initial is not None
        if key in updated:
            states.append(State(variable.label, initial, values.get(key, initial)))
        else:
            arrays[f"={key}"] = initial
    for name, array in arrays.items():
        if not array.flags.c_contiguous:
            arrays[name] = np.ascontiguousarray(array)
    return Portable(
        name=graph.name,
        version=__version__,
        inputs=inputs,
        outputs=outputs,
        ir=text,
        arrays=arrays,
        states=states,
        options=options,
    )
