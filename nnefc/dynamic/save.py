"""Save dynamic models as artifacts, and as bytes for pickles."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from nnefc.artifacts.model_origin import native_target
from nnefc.artifacts.save import replace_artifact
from nnefc.dynamic.artifact_content import content_of, requests_in
from nnefc.dynamic.named_shapes import shapes_named
from nnefc.dynamic.planner import Request, fixed_memory_requests, requests_for
from nnefc.dynamic.stored_planner import StoredPlanner
from nnefc.options.arguments import check_progress
from nnefc.runtime.artifact.write_dynamic import write_dynamic
from nnefc.support.errors import Diagnostic, NnefError, warn
from nnefc.support.wording import wording

if TYPE_CHECKING:
    from nnefc.dynamic.artifact_content import Content
    from nnefc.dynamic.plan_cache import PlanCache, PlanMaker
    from nnefc.formats.files import FilePath
    from nnefc.runtime.memory.caller_arrays import TensorSpec
    from nnefc.runtime.plan.plan_conditions import PlanConditions
    from nnefc.support.progress import Progress

Shapes = Mapping[str, Sequence[int]]


class ModelParts(NamedTuple):
    """What is saved of a `DynamicModel`."""

    planner: PlanMaker
    plans: PlanCache
    fixed: Shapes
    """The shapes of inputs that the model was compiled with."""
    results: Callable[[], Sequence[TensorSpec]]
    """Returns the results, with -1 for extents that vary."""

    def named(self, shapes: Any) -> list[Request]:
        """The requests for `NamedShapes`."""
        source = self.planner.document
        return requests_for(source, shapes_named(shapes, source, self.fixed))

    def content(
        self,
        requests: Sequence[Request],
        targets: Sequence[str],
        progress: Progress | None = None,
        *,
        for_c: bool = False,
    ) -> Content:
        """The content of an artifact; see `content_of`."""
        planner = self.planner
        return content_of(
            planner.document,
            planner.config,
            self.fixed,
            requests,
            targets,
            progress,
            self.results(),
            planner.programs,
            for_c=for_c,
        )


def save(
    model: ModelParts,
    path: FilePath,
    targets: Sequence[str] | None,
    shapes: Any,
    progress: Progress | None,
) -> None:
    """Write an artifact: see `DynamicModel.save`."""
    check_progress(progress)
    planner, plans, _, _ = model
    artifact = planner.whole if isinstance(planner, StoredPlanner) else None
    if artifact is not None and shapes is None and targets is None and not plans.requests:
        nbytes = artifact.file.sizes["bytes"]
        replace_artifact(path, lambda file: file.writelines(artifact.copied()), nbytes)
        return
    if shapes is None:
        requests = _requests(planner, plans)
        if not requests:
            raise _no_shapes(planner, model.fixed)
    else:
        requests = model.named(shapes)
    chosen = targets if targets is not None else _targets(planner)
    portable, builds = model.content(requests, chosen, progress)

    def write(file: BinaryIO) -> None:
        write_dynamic(file, portable, builds)

    replace_artifact(path, write, portable.nbytes)


def emit_c(
    model: ModelParts,
    folder: FilePath,
    target: str,
    shapes: Any,
    tensors: tuple[Sequence[TensorSpec], Sequence[TensorSpec]],
    name: str | None,
    capacity: int | None,
    progress: Progress | None,
) -> list[str]:
    """Write a folder for C programs: see `DynamicModel.emit_c`.

    `tensors`: the inputs and outputs of the model; `capacity`: the most items of growing states.
    """
    from nnefc.emit.folder import write_c_patterns

    check_progress(progress)
    source = model.planner.document
    every = shapes_named(shapes, source, model.fixed)
    requests = fixed_memory_requests(source, every, capacity)
    portable, (build,) = model.content(requests, [target], progress, for_c=True)
    _warn_of_exact_plans([pattern.conditions for pattern in build.patterns])
    return write_c_patterns(folder, portable, build, source.linear_shapes(), tensors, name)


def _warn_of_exact_plans(plans: Sequence[PlanConditions]) -> None:
    """Warn if plans of a C program serve no other values of the symbols than the named ones."""
    exact = [
        ", ".join(f"{name} = {value}" for name, value in zip(plan.symbols, plan.values))
        for plan in plans
        if plan.symbols and len(plan.fixed) == len(plan.traced.extents)
    ]
    if exact:
        warn(
            Diagnostic(
                "artifact/c-shape",
                f"{wording('emit_c', '--emit c')}: plans for {'; '.join(exact)} serve exactly "
                "these values: they depend on tables or turns of loops, which C does not compute",
                hint="name every value that the program needs: "
                + wording("shapes=[{...}, {...}]", "repeat --symbol or --shape"),
                severity="warning",
            )
        )


def bytes_of(model: ModelParts) -> bytes:
    """The artifact with the plans so far, in memory."""
    planner, plans, _, _ = model
    artifact = planner.whole if isinstance(planner, StoredPlanner) else None
    if artifact is not None and not plans.requests:
        return b"".join(artifact.copied())
    file = io.BytesIO()
    write_dynamic(file, *model.content(_requests(planner, plans), native_target()))
    return file.getvalue()


def _requests(planner: PlanMaker, plans: PlanCache) -> list[Request]:
    """The requests of the file and of the calls so far."""
    stored = requests_in(planner.artifact) if isinstance(planner, StoredPlanner) else []
    return [*stored, *(each for each in plans.requests if each not in stored)]


def _targets(planner: PlanMaker) -> Sequence[str]:
    """The targets of a loaded file, or this processor."""
    if not isinstance(planner, StoredPlanner):
        return native_target()
    native, infos = native_target(), planner.artifact.target_infos()
    return [native[0] if info.cpu else info.name for info in infos] or native


def _no_shapes(planner: PlanMaker, fixed: Shapes) -> NnefError:
    source = planner.document
    values = source.symbol_values(fixed)
    free = [name for name in source.free if name not in values]
    example = dict.fromkeys(free, 16) if free else dict(next(source.sample_shapes(fixed))[0])
    return NnefError.of(
        "input/shape",
        "save: no call has made a plan yet, so the shapes to save are not known",
        hint=wording(
            f"name them, as save(path, shapes={example}), or call the model first",
            "name them with --shape or --symbol",
        ),
    )
