"""Artifacts that commands write: their targets, their facts, and the checks before writing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnefc.cli.support.diagnostics import report
from nnefc.cli.support.options import usage
from nnefc.cli.support.printing import print_table, size, table
from nnefc.formats.files import is_folder, printable
from nnefc.formats.recognise_artifact import SUFFIX
from nnefc.support.errors import Diagnostic, NnefError, Place

if TYPE_CHECKING:
    from rich.console import Console

    from nnefc.ir import Graph
    from nnefc.runtime.artifact.read_dynamic import DynamicArtifact
    from nnefc.runtime.artifact.read_static import Artifact


def complete_targets(incomplete: str) -> list[str]:
    """Shell completions of a comma-separated list of targets."""
    from nnefc.kernels.target.target_name import completed

    before, comma, begun = incomplete.rpartition(",")
    chosen = before.split(",")
    return [f"{before}{comma}{name}" for name in completed(begun) if name not in chosen]


def check_output(output: Path | None, targets: Sequence[str] | None) -> list[str]:
    """The checked targets of the artifact to write; empty without `output`.

    Raises NnefError for a wrong path or target, before anything is compiled.
    """
    from nnefc.driver.targets import check_targets
    from nnefc.formats.atomic import require_writable
    from nnefc.kernels.target.isa import NATIVE

    if output is None:
        if targets:
            raise usage(
                f"--target {','.join(targets)} needs an artifact to write",
                f"add -o net{SUFFIX}",
            )
        return []
    require_suffix("-o", output)
    if not is_folder(output.absolute().parent):
        place = Place(printable(str(output)))
        raise NnefError.of("data/write", "the folder does not exist", place, "create it first")
    require_writable(output)
    return check_targets([name for each in targets or [NATIVE] for name in each.split(",")])


def check_results(graph: Graph, *, openvx: bool = False) -> None:
    """Raise NnefError if operators keep states, which only sessions hold; report the outputs that
    count items of others.

    `openvx`: whether a kernel of OpenVX is written.
    """
    if states := graph.state_shapes:
        what, hint = "-o", "add --dynamic: the artifact then keeps them from call to call"
        if openvx:
            what = "--emit openvx"
            hint = "--dynamic --emit c: a C program keeps them from call to call"
        raise NnefError.of(
            "input/state",
            f"{what}: operators of this model keep states ({', '.join(states)}), which only "
            "sessions can hold",
            hint=hint,
        )
    report_counts(graph)


def report_counts(graph: Graph) -> None:
    """Report each output that counts the valid items of another one (as NonZero has)."""
    report(
        Diagnostic(
            "artifact/count",
            f"result '{result}' has room for all items; result '{name}' counts the valid ones",
            severity="note",
        )
        for count in graph.counts
        for name, result in [(graph.output_names[count.output], graph.output_names[count.of])]
    )


def require_suffix(option: str, path: Path) -> None:
    """Raise NnefError unless a path has the suffix of artifacts."""
    if path.suffix != SUFFIX:
        is_device = path.exists() and not path.is_file() and not path.is_dir()
        name = path.parent / (path.name.partition(".")[0] or "net")
        raise usage(
            f"{option} {path}: the name of an artifact must end in {SUFFIX}",
            f"without {option} nothing is written" if is_device else f"{option} {name}{SUFFIX}",
        )


def written_facts(path: Path) -> dict[str, Any]:
    """`file_facts` of the artifact at a path."""
    from nnefc.runtime.artifact.artifact_file import open_file
    from nnefc.runtime.artifact.read_artifact import artifact_in

    return file_facts(artifact_in(open_file(path)))


def plan_facts(artifact: Artifact | DynamicArtifact) -> dict[str, Any]:
    """The lengths of the plans of a model with symbols, for JSON."""
    if artifact.is_dynamic is False:
        return {}
    from nnefc.dynamic.coverage import coverage_of_file

    return {"plans": coverage_of_file(artifact)}


def print_plans(out: Console, facts: Mapping[str, Any]) -> None:
    """Print the lengths of `plan_facts`."""
    for text in facts.get("plans", ()):
        out.print(f"plan    {text}")


def file_facts(artifact: Artifact | DynamicArtifact) -> dict[str, Any]:
    """Sizes, digest and targets of an artifact, for JSON."""
    best = artifact.best_target()
    return {
        "digest": artifact.file.digest,
        "nnefc": artifact.version,
        "format": artifact.file.format,
        "accuracy": artifact.accuracy,
        "precision": artifact.precision,
        **artifact.file.sizes,
        "targets": [
            {
                "isa": target.isa,
                "extensions": target.extensions,
                "cpu": _processor(target.cpu),
                "code_bytes": target.code_bytes,
                "constant_bytes": target.constant_bytes,
                "arena_bytes": target.arena_bytes,
                "launches": target.launches,
                "fits": not target.obstacle,
                "obstacle": target.obstacle,
                "chosen": i == best,
            }
            for i, target in enumerate(artifact.target_infos())
        ],
        **plan_facts(artifact),
    }


def print_targets(out: Console, targets: Sequence[Mapping[str, Any]]) -> None:
    """Print a table of the targets of `file_facts`."""
    numeric = ["code", "weights", "arena", "launches"]
    view = table("target", "processor", *numeric, "here", numeric=numeric, fold=["processor"])
    for target in targets:
        fits = "used" if target["chosen"] else "yes" if target["fits"] else "no: "
        view.add_row(
            "+".join((target["isa"], *target["extensions"])),
            target["cpu"] or "any",
            size(target["code_bytes"]),
            size(target["constant_bytes"]),
            size(target["arena_bytes"]),
            str(target["launches"]),
            fits + target["obstacle"],
        )
    print_table(out, view, optional=["launches", "arena", "code"])


def _processor(cpu: str) -> str:
    """The name of a processor, without the list of its features."""
    return cpu.rpartition("; ")[0] or cpu.partition(" ")[0]
