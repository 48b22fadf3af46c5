"""Writes artifacts of models for known shapes: builds the manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from nnefc.runtime.artifact.artifact_file_writer import Writer
from nnefc.runtime.artifact.build_static import Array, CodeBuild, TargetBuild
from nnefc.runtime.artifact.stored_arrays import StoredArrays
from nnefc.runtime.memory.caller_arrays import TensorSpec
from nnefc.runtime.plan.launch_info import LaunchInfo, total_work
from nnefc.support.package import PACKING_VERSION

if TYPE_CHECKING:
    from nnefc.runtime.plan.plan import Plan


@dataclass(frozen=True, slots=True, eq=False)
class StateVariable:
    """A variable that the graph updates."""

    label: str
    initial: Array
    current: Array


@dataclass(frozen=True, slots=True, eq=False)
class PortableModel:
    """The parts of a model that do not depend on the processor."""

    name: str
    version: str
    """The version of nnefc."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    ir: str
    """The text of the graph; large constants are named, not included."""
    arrays: Mapping[str, Array]
    """The arrays that the graph names, each contiguous."""
    states: Sequence[StateVariable]
    options: Mapping[str, Any]
    """Options of lowering."""

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays: the least size of the file."""
        return sum(array.nbytes for array in self.arrays.values())


def write_artifact(file: BinaryIO, model: PortableModel, builds: Sequence[TargetBuild]) -> None:
    """Write an artifact.

    Arrays are stored as the packings of the first build where possible.  Other packings, and those
    of further builds, are computed when the artifact is loaded (`weight_cache`).
    """
    writer = Writer(file)
    stored = StoredArrays(writer, list(model.arrays.values()), builds)
    targets = [_target(writer, build, stored) for build in builds]
    content: dict[str, Any] = {
        "name": model.name,
        "nnefc": model.version,
        "packing": PACKING_VERSION,
        "inputs": [tensor_facts(spec) for spec in model.inputs],
        "outputs": [tensor_facts(spec) for spec in model.outputs],
        "options": dict(model.options),
        "states": [
            {
                "label": state.label,
                "dtype": state.initial.dtype.name,
                "shape": state.initial.shape,
                "initial": writer.head(state.initial),
                "now": writer.head(state.current),
            }
            for state in model.states
        ],
        "targets": targets,
        "arrays": stored.facts(model.arrays),
    }
    content["ir"] = writer.head(model.ir.encode())
    writer.finish(content)


def tensor_facts(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "dtype": spec.dtype.name, "shape": spec.shape}


def _target(writer: Writer, build: TargetBuild, stored: StoredArrays) -> dict[str, Any]:
    return {
        **code_facts(writer, build, stored),
        **plan_facts(writer, build.plan, build.launches),
        "states": build.states,
    }


def code_facts(writer: Writer, build: CodeBuild, stored: StoredArrays) -> dict[str, Any]:
    """The manifest's entries for code and constants."""
    return {
        "isa": build.isa,
        "extensions": build.extensions,
        "cpu": build.cpu,
        "interface": build.interface,
        "code": writer.head(build.image.code),
        "native": [
            {"code": writer.head(image.code), "symbols": image.symbols} for image in build.native
        ],
        "constants": [stored.constant(constant) for constant in build.constants],
        "constant_bytes": sum(constant.nbytes for constant in build.constants),
    }


def plan_facts(writer: Writer, plan: Plan, launches: Sequence[LaunchInfo]) -> dict[str, Any]:
    """The manifest's entries for a plan."""
    infos = [
        (label, kernel, tiles, work.flops, work.read, work.written, times, indices)
        for label, kernel, tiles, work, times, indices in launches
    ]
    return {
        "launches": writer.head(plan.launches),
        "launch_of": writer.head(plan.launch_of),
        "params": writer.head(plan.params),
        "table": plan.table,
        "arena": (plan.arena_bytes, plan.arena_lower_bound),
        "parallel": plan.parallel,
        "infos": writer.head(json.dumps(infos).encode()),
        "work": total_work(launches),
    }
