"""The content of an artifact: a model without code, and its code for each target.

See docs/design/artifacts.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnefc.support.package import VERSION

if TYPE_CHECKING:
    import numpy as np

    from nnefc.ir import Graph
    from nnefc.options.compile_config import CompileConfig
    from nnefc.runtime.artifact.build_static import TargetBuild
    from nnefc.runtime.artifact.write_static import PortableModel
    from nnefc.runtime.run.compiled_model import CompiledModel
    from nnefc.support.progress import Progress

    Array = np.ndarray[Any, Any]
    Values = Mapping[str, Array]
    """Current values of the variables that a model updates, by label in lower case."""
    Content = tuple[PortableModel, list[TargetBuild]]
    """The model without code, and the code for each target."""


def content_of_graph(
    graph: Graph,
    config: CompileConfig,
    targets: Sequence[str],
    progress: Progress | None = None,
    notes: Mapping[str, Any] | None = None,
) -> Content:
    """The content of an artifact for an imported graph, with code for the targets only.

    `notes` are stored among the options of the artifact.
    """
    from nnefc.support.memory_errors import memory_errors

    with memory_errors("compile the model"):
        return content_of_prepared(
            prepared_graph(graph, config), config, {}, targets, progress, notes
        )


def content_of_prepared(
    graph: Graph,
    config: CompileConfig,
    values: Values,
    targets: Sequence[str],
    progress: Progress | None = None,
    notes: Mapping[str, Any] | None = None,
) -> Content:
    """The content of an artifact for a prepared graph; `values`: of the variables it updates."""
    from nnefc.driver.targets import build_targets, check_targets, graph_task

    checked = check_targets(targets)
    options = {**config.stored, **(notes or {})}
    portable = _portable(graph, options, values)
    return portable, build_targets(checked, graph_task(graph, portable, config), config, progress)


def prepared_graph(graph: Graph, config: CompileConfig) -> Graph:
    """The prepared copy of a graph, without variables that no operation reads."""
    from nnefc.driver.lower_graph import prepare
    from nnefc.ir.graph import walk

    prepared = prepare(graph, config)
    read = {op.attributes["label"].lower() for op in walk(prepared) if op.name == "variable"}
    prepared.variables = {key: data for key, data in prepared.variables.items() if key in read}
    return prepared


def updated_values(model: CompiledModel) -> Values:
    """The current values of the variables that a model updates."""
    return {key: model.variables[key] for key in model.state_keys}


def _portable(graph: Graph, options: Mapping[str, Any], values: Values) -> PortableModel:
    """The model without code; `values`: of the variables that it updates."""
    import numpy as np

    from nnefc.ir import print_graph
    from nnefc.runtime.artifact.write_static import PortableModel, StateVariable
    from nnefc.runtime.compile.compiled_program import tensor_specs

    inputs, outputs = tensor_specs(graph)
    updated = set(graph.updated_labels)
    states: list[StateVariable] = []
    large: dict[str, Array] = {}
    text = print_graph(graph, data=large)
    arrays = {f"@{key}": data for key, data in large.items()}
    for key, variable in graph.variables.items():
        initial = variable.data
        assert initial is not None
        if key in updated:
            states.append(StateVariable(variable.label, initial, values.get(key, initial)))
        else:
            arrays[f"={key}"] = initial
    for name, array in arrays.items():
        if not array.flags.c_contiguous:
            arrays[name] = np.ascontiguousarray(array)
    return PortableModel(
        name=graph.name,
        version=VERSION,
        inputs=inputs,
        outputs=outputs,
        ir=text,
        arrays=arrays,
        states=states,
        options=options,
    )
