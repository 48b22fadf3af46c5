"""`nnefc compile --dynamic`: artifacts and C programs that keep symbols and states."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnefc.cli.compile.emit_c import emit_facts, print_emitted
from nnefc.cli.compile.generated_code import others
from nnefc.cli.support.artifacts import print_plans, print_targets, written_facts
from nnefc.cli.support.import_and_compile import read
from nnefc.cli.support.options import parse_shapes, parse_symbols, usage
from nnefc.cli.support.printing import compiling, console, size
from nnefc.ir import Graph

if TYPE_CHECKING:
    from nnefc.cli.compile.options import CodeOptions, Destination
    from nnefc.cli.support.option_groups import DocumentOptions
    from nnefc.frontends.common.graph_source import GraphSource


def compile_dynamic(
    model: str,
    document: DocumentOptions,
    strict: bool,
    options: CodeOptions,
    destination: Destination,
    *,
    plan: bool,
) -> dict[str, Any]:
    """Write a model with its symbols and states; returns facts for JSON.

    `--symbol` and `--shape` name the shapes to plan for; repeated values are those of several
    calls.
    """
    if options.tune or options.explain:
        raise usage("--tune and --explain are for a model of known shapes: not with --dynamic")
    if plan:
        raise usage("--plan is for a model of known shapes: not with --dynamic")
    if not destination.targets:
        raise usage("--dynamic needs a file to write", "add -o net.nnefc")
    if document.batch is not None:
        raise usage("--batch does not apply with --dynamic", "name shapes: --symbol or --shape")
    emit_options = destination.emit_options
    if emit_options is not None and emit_options.fixed_point_position is not None:
        raise usage(
            "--emit openvx is for a model of known shapes: not with --dynamic",
            "name its shapes with --symbol or --shape, without --dynamic",
        )
    start = time.perf_counter()
    source = _source(model, document, strict)
    shapes = named_calls(document.symbol, document.shape) or [_only_shapes(source)]
    import_seconds, start = time.perf_counter() - start, time.perf_counter()
    facts: dict[str, Any] = {"name": source.name, "import_seconds": import_seconds}
    from nnefc.dynamic.dynamic_model import DynamicModel

    with compiling(others(destination.targets)) as advance:
        compiled = DynamicModel.of(source, {}, options.config, None)
        if destination.emit_options is not None:
            emit_options = destination.emit_options
            files = compiled.emit_c(
                emit_options.folder,
                name=emit_options.name,
                target=emit_options.target,
                shapes=shapes,
                state_capacity=emit_options.state_capacity,
                progress=advance,
            )
            facts["emitted"] = emit_facts(emit_options, files)
        else:
            assert destination.artifact is not None
            targets = destination.targets
            compiled.save(destination.artifact, targets=targets, shapes=shapes, progress=advance)
    facts["compile_seconds"] = time.perf_counter() - start
    if destination.artifact is not None and destination.emit_options is None:
        path: Path = destination.artifact
        facts["artifact"] = {"path": str(path), **written_facts(path)}
    return facts


def print_dynamic(facts: Mapping[str, Any]) -> None:
    """Print the facts of `compile_dynamic`."""
    out = console()
    out.print(f"import {facts['import_seconds']:.2f} s, compile {facts['compile_seconds']:.2f} s")
    if "emitted" in facts:
        print_emitted(out, facts["emitted"])
        return
    artifact = facts["artifact"]
    out.print(f"{artifact['path']}: {size(artifact['bytes'])}")
    out.print(f"digest {artifact['digest']}")
    print_plans(out, artifact)
    print_targets(out, artifact["targets"])


def named_calls(
    symbols: Sequence[str] | None, shapes: Sequence[str] | None
) -> list[dict[str, Any]]:
    """The shapes of several calls, from repeated options; an option given once is for all calls.

    Either values of symbols, or shapes of inputs.  Raises NnefError for wrong options.
    """
    if symbols and shapes:
        raise usage("--symbol and --shape both name shapes", "use one of them with --dynamic")
    each = [parse_symbols([option]) for option in symbols or ()]
    each += [parse_shapes([option]) or {} for option in shapes or ()]  # pyright: ignore
    values: dict[str, list[Any]] = {}
    for option in each:
        for name, value in option.items():
            values.setdefault(name, []).append(value)
    calls = max(map(len, values.values()), default=0)
    for name, several in values.items():
        if 1 < len(several) < calls:
            raise usage(
                f"{name} has {len(several)} values, others have {calls}",
                "give each as many values as calls, or one for all",
            )
    return [
        {name: several[min(i, len(several) - 1)] for name, several in values.items()}
        for i in range(calls)
    ]


def _source(model: str, document: DocumentOptions, strict: bool) -> GraphSource:
    source = read(model, replace(document, symbol=None).config_for(None, strict=strict))
    if isinstance(source, Graph):
        raise usage(f"{model} has neither symbols in its shapes nor states", "leave out --dynamic")
    return source


def _only_shapes(source: GraphSource) -> dict[str, Any]:
    """The shapes of the inputs of a document without symbols."""
    if free := source.unbound({}):
        example = shlex.join(word for name in free for word in ("--symbol", f"{name}=16"))
        raise usage("--dynamic needs the shapes to plan for", f"name them, as in {example}")
    return dict(source.determined())
