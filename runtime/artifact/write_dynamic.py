"""Writes artifacts of dynamic models: the document, and patterns with their code."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from nnefc.program.packed_weight import PackedWeight
from nnefc.runtime.artifact.artifact_file import DYNAMIC_FORMAT
from nnefc.runtime.artifact.artifact_file_writer import Writer
from nnefc.runtime.artifact.build_dynamic import DynamicBuild, PatternBuild
from nnefc.runtime.artifact.build_static import Array
from nnefc.runtime.artifact.stored_arrays import StoredArrays
from nnefc.runtime.artifact.write_static import code_facts, plan_facts, tensor_facts
from nnefc.support.package import PACKING_VERSION
from nnefc.symbolic import captured_values


@dataclass(frozen=True, slots=True, eq=False)
class PortableSource:
    """The parts of a dynamic model that do not depend on the processor."""

    name: str
    version: str
    """The version of nnefc."""
    options: Mapping[str, Any]
    """Options of lowering."""
    arrays: Mapping[str, Array]
    """The tensors of the document by path, each contiguous."""
    texts: Mapping[str, bytes]
    """The texts of the document by path."""
    facts: Mapping[str, Any]
    """Facts about the document, as JSON data."""
    has_document: bool = True
    """Whether the file has the arrays and texts; False: only what the code reads of the arrays."""

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays: the least size of the file."""
        return sum(array.nbytes for array in self.arrays.values())


def write_dynamic(
    file: BinaryIO,
    model: PortableSource,
    builds: Sequence[DynamicBuild],
    packed: Callable[[PackedWeight], Array] = PackedWeight.array,
) -> None:
    """Write an artifact; arrays are stored as the packings of the first build where possible.

    `packed`: returns the items of a packed weight.
    """
    writer = Writer(file, DYNAMIC_FORMAT)
    stored = StoredArrays(
        writer,
        list(model.arrays.values()),
        builds,
        packed=packed,
        only_constants=not model.has_document,
    )
    content: dict[str, Any] = {
        "name": model.name,
        "nnefc": model.version,
        "packing": PACKING_VERSION,
        "options": dict(model.options),
        "targets": [
            {
                **code_facts(writer, build, stored),
                "patterns": [_pattern(writer, each) for each in build.patterns],
            }
            for build in builds
        ],
        "arrays": stored.facts(model.arrays),
        "texts": [(path, writer.head(text)) for path, text in model.texts.items()],
        **model.facts,
    }
    writer.finish(content)


def _pattern(writer: Writer, build: PatternBuild) -> dict[str, Any]:
    template = build.template
    program = {
        "captured": list(map(captured_values.to_data, template.program.captured)),
        **template.program.to_data(),
    }
    launches = template.launches
    return {
        **plan_facts(writer, template.plan, build.launches),
        "conditions": build.conditions,
        "inputs": [tensor_facts(spec) for spec in build.inputs],
        "outputs": [tensor_facts(spec) for spec in build.outputs],
        "session": build.session,
        "constants": build.constants,
        "function": writer.head(json.dumps(program).encode()),
        "kernels": launches.kernels,
        "starts": launches.params,
        "marks": launches.marks,
        "repeated": launches.repeated,
        "slots": writer.head(template.slots),
        "bases": template.bases,
        "varying": (template.inputs, template.outputs),
        "sections": [writer.head(section) for section in template.sections],
    }
