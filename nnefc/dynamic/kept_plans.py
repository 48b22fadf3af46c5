"""The plans of a dynamic model as the model cache keeps them: without its document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from nnefc.dynamic.artifact_content import build_native, facts_of_requests, facts_of_source
from nnefc.runtime.artifact.write_dynamic import PortableSource, write_dynamic
from nnefc.support.package import VERSION

if TYPE_CHECKING:
    from nnefc.dynamic.planner import Planner, Request


def write_kept(
    file: BinaryIO,
    planner: Planner,
    fixed: Mapping[str, Sequence[int]],
    earlier: Sequence[Request],
    notes: Mapping[str, Any],
) -> None:
    """Write the plans of a planner, and of `earlier` requests, which are traced again.

    `fixed`: the shapes of inputs that the model was compiled with; `notes`: stored among the
    options.
    """
    source, config, programs = planner.document, planner.config, planner.programs
    requests = list(earlier)
    requests += [request for request, _ in programs if request not in earlier]
    tensors = source.files().tensors
    arrays = {path: stored.array for path, stored in tensors.items()}
    arrays = {path: a for path, a in arrays.items() if a.dtype.kind != "O" and a.flags.c_contiguous}
    options = {**config.stored, **notes}
    facts = {
        "source": facts_of_source(source, fixed, None),
        "requests": facts_of_requests(requests),
    }
    portable = PortableSource(source.name, VERSION, options, arrays, {}, facts, has_document=False)
    build = build_native(source, config, requests, list(arrays.values()), None, programs)
    write_dynamic(file, portable, [build], planner.packed)
