"""Facts of a model, its weights and its artifact, as data for JSON and tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nnefc.cli.inspect.extents import shape_facts
from nnefc.cli.support.artifacts import file_facts

if TYPE_CHECKING:
    from nnefc.frontends.common.symbolic_graph import Extents
    from nnefc.ir import Graph, Op, TensorType, Value
    from nnefc.runtime.artifact.read_dynamic import DynamicArtifact
    from nnefc.runtime.artifact.read_static import Artifact


def describe(graph: Graph, varying: Mapping[Value, Extents] | None = None) -> dict[str, Any]:
    """Inputs, outputs, operations and sizes of a graph.

    `varying`: shapes that depend on symbols; the numbers are those of sample values.
    """
    from nnefc.ops.tools.cost import is_data, largest_live_bytes, parameter_bytes, parameters

    known = all(v.type.shape is not None for op in graph.ops for v in op.outputs)
    of = varying or {}
    operations = [_operation(op, of) for op in graph.ops if not is_data(op)]
    return {
        "name": graph.name,
        "inputs": [_tensor(v.name, v.type, of.get(v)) for v in graph.inputs],
        "outputs": [
            _tensor(name, v.type, of.get(v))
            for name, v in zip(graph.output_names, graph.outputs, strict=True)
        ],
        "operations": operations,
        "parameters": parameters(graph),
        "parameter_bytes": parameter_bytes(graph),
        "macs": sum(row["macs"] or 0 for row in operations),
        "activation_bytes": largest_live_bytes(graph) if known else None,
    }


def describe_artifact(artifact: Artifact | DynamicArtifact, verified: bool) -> dict[str, Any]:
    """Facts of an artifact beside its graph; `verified`: its checksums were compared."""
    import numpy as np

    if artifact.is_dynamic is True:
        return {**file_facts(artifact), "states": [], "verified": verified}
    present = artifact.current_values()
    states = [
        {
            **_tensor(variable.label, variable.type),
            "changed": not np.array_equal(
                np.asarray(variable.data), present[variable.label], equal_nan=True
            ),
        }
        for variable in artifact.variables().values()
    ]
    return {**file_facts(artifact), "states": states, "verified": verified}


def describe_layers(artifact: Artifact | DynamicArtifact) -> dict[str, Any]:
    """The nodes of the OpenVX graph that an artifact was compiled from, if it was, and the launches
    that run them on this processor.
    """
    if "openvx" not in artifact.notes:
        return {}
    best = artifact.best_target()
    launches = () if best is None else artifact.launches(artifact.targets[best])
    with artifact.reading():
        return {
            "openvx": {
                **artifact.notes["openvx"],
                "launches": [
                    {"launch": each.label, "kernel": each.kernel, "times": each.times}
                    for each in launches
                ],
            }
        }


def _tensor(name: str, type_: TensorType, extents: Extents | None = None) -> dict[str, Any]:
    return {"name": name, "dtype": str(type_.dtype), **shape_facts(type_.shape, extents)}


def _operation(op: Op, varying: Mapping[Value, Extents]) -> dict[str, Any]:
    from nnefc.ops.tools.cost import macs

    known = all(v.type.shape is not None for v in (*op.inputs, *op.outputs))
    stored = [v for v in op.inputs if v.op is not None and v.op.name == "variable"]
    return {
        "name": ", ".join(v.name for v in op.outputs if v.name),
        "operation": op.name,
        "inputs": [v.name for v in op.inputs if v.name],
        "outputs": [_tensor(v.name, v.type, varying.get(v)) for v in op.outputs],
        "parameters": sum(v.type.volume for v in stored),
        "macs": macs(op) if known else None,
        "line": op.location.place.line if op.location else None,
    }


def describe_weights(graph: Graph) -> list[dict[str, Any]]:
    """Label, type, size and statistics of each variable."""
    import numpy as np

    rows: list[dict[str, Any]] = []
    for variable in graph.variables.values():
        row: dict[str, Any] = {
            **_tensor(variable.label, variable.type),
            "parameters": variable.type.volume,
            "bytes": variable.type.nbytes,
        }
        if variable.data is not None:
            data = variable.data
            with np.errstate(all="ignore"):
                row |= {
                    "min": float(data.min()),
                    "max": float(data.max()),
                    "mean": float(data.mean(dtype=np.float64)),
                    "std": float(data.std(dtype=np.float64)),
                    "zeros": int(data.size - np.count_nonzero(data)),
                    "not_finite": int(data.size - np.isfinite(data).sum()),
                }
        rows.append(row)
    return rows
