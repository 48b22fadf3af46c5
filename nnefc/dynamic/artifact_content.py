"""The content of the artifact of a dynamic model: its document, and patterns for each target.

See docs/design/artifacts.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from nnefc.driver.targets import Task, build_targets, check_targets, serve
from nnefc.dynamic.output_shapes import output_specs
from nnefc.dynamic.planner import Request, concrete, traced_or_concrete
from nnefc.formats.source_files import SourceFiles
from nnefc.formats.tensor_file import StoredTensor
from nnefc.options.compile_config import CompileConfig
from nnefc.runtime.artifact.build_dynamic import DynamicBuild, build_patterns
from nnefc.runtime.artifact.write_dynamic import PortableSource, write_dynamic
from nnefc.runtime.memory.caller_arrays import TensorSpec
from nnefc.support import value_inputs
from nnefc.support.limits import Limits
from nnefc.support.memory_errors import memory_errors
from nnefc.support.package import VERSION
from nnefc.symbolic import linear_shapes

if TYPE_CHECKING:
    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.runtime.artifact.read_dynamic import DynamicArtifact
    from nnefc.runtime.plan.trace_template import TracedProgram
    from nnefc.support.progress import Progress

    Array = np.ndarray[Any, Any]
    Programs = Sequence[tuple[Request, TracedProgram]]
    Content = tuple[PortableSource, list[DynamicBuild]]
    Shapes = Mapping[str, Sequence[int]]


def content_of(
    source: GraphSource,
    config: CompileConfig,
    fixed: Shapes,
    requests: Sequence[Request],
    targets: Sequence[str],
    progress: Progress | None = None,
    results: Sequence[TensorSpec] | None = None,
    programs: Programs = (),
    *,
    for_c: bool = False,
) -> Content:
    """The document, and the patterns of the requests for each target.

    Args:
        source: The document.
        config: How it was compiled.
        fixed: The shapes of inputs that the model was compiled with.
        requests: The shapes of calls.
        targets: Instruction sets.
        progress: Called while kernels are compiled.
        results: The results, with -1 for extents that vary; None: they are computed.
        programs: Programs for this processor that exist already, with their requests.
        for_c: A plan that cannot be computed in C is made for exactly the shapes of its request.

    Raises NnefError, also for shapes that contradict the document.
    """
    checked = check_targets(targets)
    with memory_errors("compile the model"):
        for request in requests:
            if _program_of(request, programs) is None:  # read all tensors, and report errors
                source.graph(request.shapes, states=request.states, capacity=request.capacity)
        portable = _portable(source, config, fixed, requests, results, for_c=for_c)
        arrays = list(portable.arrays.values())
        task = Task(
            lambda advance: build_native(
                source, config, requests, arrays, advance, programs, for_c=for_c
            ),
            lambda file: write_dynamic(file, portable, []),
            portable.nbytes,
            "nnefc.dynamic.artifact_content",
        )
        return portable, build_targets(checked, task, config, progress)


def build_native(
    source: GraphSource,
    config: CompileConfig,
    requests: Sequence[Request],
    arrays: Sequence[Array],
    progress: Progress | None,
    programs: Programs = (),
    *,
    for_c: bool = False,
) -> DynamicBuild:
    """The patterns of the requests for this processor; see `content_of`.

    `arrays`: the arrays of the document, each contiguous.
    """
    every = [
        _program_of(request, programs) or traced_or_concrete(source, config, request)
        for request in requests
    ]
    build = build_patterns(every, arrays, progress)
    # growing states change their lengths in each call, so plans for one length would be useless
    if not for_c or any(request.dynamic_axes for request in requests):
        return build
    from nnefc.emit.shape_code import is_writable

    writable = list(map(is_writable, build.patterns))
    if all(writable):
        return build
    every = [
        program if fits else concrete(source, config, request)
        for program, request, fits in zip(every, requests, writable, strict=True)
    ]
    return build_patterns(every, arrays, progress)


def _program_of(request: Request, programs: Programs) -> TracedProgram | None:
    return next((program for known, program in programs if known == request), None)


# -- to data


def _portable(
    source: GraphSource,
    config: CompileConfig,
    fixed: Shapes,
    requests: Sequence[Request],
    results: Sequence[TensorSpec] | None,
    *,
    for_c: bool,
) -> PortableSource:
    files = source.files()
    arrays = {
        path: np.ascontiguousarray(stored.array)
        for path, stored in files.tensors.items()
        if stored.array.dtype.kind != "O"
    }
    numbers = {path: i for i, path in enumerate(arrays)}
    tensors = [
        {
            "path": path,
            "shape": stored.shape,
            "array": numbers.get(path),
            "texts": None if path in numbers else stored.array.reshape(-1).tolist(),
            "blocks": stored.blocks,
            "complex": stored.is_complex,
        }
        for path, stored in files.tensors.items()
    ]
    document = {
        "file": files.file,
        "kind": files.kind,
        "random_weights": files.random_weights,
        "symbols": dict(files.symbols),
        "limits": asdict(files.limits),
        "values": value_inputs.to_data(list(files.value_inputs.items())),
        "tensors": tensors,
    }
    facts = {
        "source": facts_of_source(
            source, fixed, output_specs(source, fixed) if results is None else results
        ),
        "document": document,
        "requests": facts_of_requests(requests),
        **({"for_c": True} if for_c else {}),
    }
    return PortableSource(source.name, VERSION, config.stored, arrays, files.texts, facts)


def facts_of_requests(requests: Sequence[Request]) -> list[Any]:
    """Requests as JSON data."""
    return [
        [list(shapes.items()), list(states.items()), list(axes.items()), capacity]
        for shapes, states, axes, capacity in requests
    ]


def facts_of_source(
    source: GraphSource, fixed: Shapes, results: Sequence[TensorSpec] | None
) -> dict[str, Any]:
    """Facts of a source that calls need, as JSON data; `results`: None where they are unknown."""
    values = source.symbol_values(fixed)
    linear = source.linear_shapes()
    inputs = [TensorSpec.of(*each) for each in source.types(values).items()]
    return {
        "inputs": list(map(_spec, inputs)),
        "results": None if results is None else list(map(_spec, results)),
        **({"outputs": list(source.outputs)} if results is None else {}),
        "free": [name for name in source.free if name not in values],
        "fixed": list(fixed.items()),
        "values": value_inputs.to_data(list(source.value_inputs.items())),
        "linear": None if linear is None else linear_shapes.to_data(linear),
        "growing": list(source.growing_axes.items()),
    }


def _spec(spec: TensorSpec) -> tuple[str, str, tuple[int, ...]]:
    return spec.name, spec.dtype.name, spec.shape


# -- from data


def source_in(artifact: DynamicArtifact) -> GraphSource:
    """The source of the document in an artifact, whose tensors are those of the file."""
    from nnefc.frontends.read_model import source_of

    return source_of(_files_in(artifact))


def _files_in(artifact: DynamicArtifact) -> SourceFiles:
    texts, arrays = artifact.texts(), list(artifact.tensors().values())
    with artifact.reading():
        facts: Any = artifact.facts["document"]
        seed = facts["random_weights"]
        return SourceFiles(
            str(facts["file"]),
            texts,
            {str(each["path"]): _tensor(each, arrays) for each in facts["tensors"]},
            None if seed is None else int(seed),
            {str(name): int(value) for name, value in facts["symbols"].items()},
            Limits(**facts["limits"]),
            str(facts.get("kind", "tract")),
            value_inputs.from_data(facts.get("values", ())),
        )


def _tensor(facts: Mapping[str, Any], arrays: Sequence[Array]) -> StoredTensor:
    shape, number, blocks = tuple(facts["shape"]), facts["array"], facts["blocks"]
    array: Array = arrays[int(number)] if number is not None else _texts(facts["texts"], shape)
    return StoredTensor(shape, array, None if blocks is None else str(blocks), facts["complex"])


def _texts(texts: Sequence[str], shape: tuple[int, ...]) -> Array:
    array = np.empty(len(texts), object)
    array[:] = texts
    return array.reshape(shape)


def requests_in(artifact: DynamicArtifact) -> list[Request]:
    """The requests of the patterns in an artifact."""
    with artifact.reading():
        return [
            Request(
                *({str(name): tuple(each) for name, each in part} for part in parts[:3]),
                capacity=next(iter(parts[3:]), None),
            )
            for parts in artifact.facts["requests"]
        ]


def _build(path: str, config: CompileConfig, progress: Progress) -> DynamicBuild:
    """The build of the document in a file."""
    from nnefc.runtime.artifact.artifact_file import open_file
    from nnefc.runtime.artifact.read_dynamic import DynamicArtifact

    artifact = DynamicArtifact(open_file(path))
    source, arrays = source_in(artifact), list(artifact.tensors().values())
    for_c = artifact.facts.get("for_c") is True
    return build_native(source, config, requests_in(artifact), arrays, progress, for_c=for_c)


if __name__ == "__main__":
    serve(_build)
