"""`nnefc compile`: compile a model, show its plan and costs, and save it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from nnefc.cli.compile.dynamic import compile_dynamic, print_dynamic
from nnefc.cli.compile.emit_c import check_fraction_bits, write_folder
from nnefc.cli.compile.explain import PassRecorder
from nnefc.cli.compile.generated_code import CompileResult, CrossCompiled, NativeModel
from nnefc.cli.compile.options import (
    CodeOptions,
    Destination,
    Dynamic,
    Emit,
    Explain,
    FixedPointPosition,
    Name,
    Output,
    Plan,
    StateCapacity,
    Targets,
    Tune,
)
from nnefc.cli.compile.report import CompileReport, graph_facts, print_report, save_artifact
from nnefc.cli.compile.run_tuning import run_tuning, tuning_facts
from nnefc.cli.support.artifacts import check_results
from nnefc.cli.support.import_and_compile import compile_graph, load
from nnefc.cli.support.option_groups import CompileOptions, DocumentOptions
from nnefc.cli.support.options import Json, Model, Strict, Threads, usage
from nnefc.cli.support.printing import print_json

if TYPE_CHECKING:
    from nnefc.driver.tuning import Tuning
    from nnefc.ir import Graph


def compile_(
    model: Model,
    output: Output = None,
    target: Targets = None,
    emit: Emit = None,
    name: Name = None,
    dynamic: Dynamic = False,
    state_capacity: StateCapacity = None,
    fixed_point_position: FixedPointPosition = None,
    plan: Plan = False,
    explain: Explain = False,
    tune: Tune = False,
    threads: Threads = None,
    json: Json = False,
    strict: Strict = False,
    *,
    compiling: CompileOptions,
    document: DocumentOptions,
) -> None:
    """Compile a model and show its plan: launches, kernels, memory, time; -o saves it.

    If native is not among the targets, the plan is that of the first target: nothing is compiled
    for this processor, except with --explain or --tune.

    --explain also shows the passes over the graph: the operations before and after each pass, the
    multiply-adds and the bytes between operations after it, and the estimated time of a call.

    --tune also shows where the measured algorithm differs from the estimated one, and the gain. Use
    the number of threads and the shapes that the model will run with.

    Set NNEFC_DUMP=FOLDER to write the graph after every pass.

    Examples:

        nnefc compile net.nnef.tgz -o net.nnefc

        nnefc compile net.nnef.tgz -o net.nnefc --target native,x86-64-v3,aarch64

        nnefc compile net.nnef.tgz --emit c -o net

        nnefc compile net.nnef.tgz --explain

        nnefc compile net.nnef.tgz --tune --threads 2

        nnefc compile graph.nnef --random-weights 1 --batch 8 --plan

        nnefc compile text.nnef.tgz --symbol S=128 -o text128.nnefc

        nnefc compile text.nnef.tgz --dynamic --symbol S=64 --symbol S=1 -o text.nnefc

        nnefc compile llm.tgz --dynamic --symbol S=64 --emit c --state-capacity 2048 -o llm
    """
    options = CodeOptions.of(compiling.config(threads), tune, explain)
    destination = Destination.of(output, target, emit, name, state_capacity, fixed_point_position)
    if dynamic:
        facts = compile_dynamic(model, document, strict, options, destination, plan=plan)
        print_json(facts) if json else print_dynamic(facts)
    else:
        report = compile_document(model, document, strict, options, destination)
        _report(report, plan, json)


def _report(report: CompileReport, plan: bool, json: bool) -> None:
    """Print a report as tables or as JSON; `plan`: list the launches."""
    if json:
        print_json({**report.facts, "plan": report.plan} if plan else report.facts)
    else:
        print_report(report, plan=plan)


def compile_document(
    model: str,
    document: DocumentOptions,
    strict: bool,
    options: CodeOptions,
    destination: Destination,
) -> CompileReport:
    """Import and compile a document, and write the result to its destination."""
    emitted = destination.emit_options
    if emitted is not None and emitted.state_capacity is not None:
        raise usage(f"--state-capacity {emitted.state_capacity} needs --dynamic", "add --dynamic")
    openvx = emitted is not None and emitted.fixed_point_position is not None
    start = time.perf_counter()
    why = "a plan is made for known shapes; --dynamic keeps symbols, and plans for these values"
    if openvx:
        why = "a kernel of OpenVX is made for known shapes"
    graph = load(model, document.config_of(model, strict=strict), why)
    import_seconds = time.perf_counter() - start
    if destination.targets:
        check_results(graph, openvx=openvx)
    if emitted is not None:
        check_fraction_bits(graph, emitted)
    tuning = run_tuning(graph, options.config) if options.tune else None
    recorder = PassRecorder.of(options.config) if options.explain else None
    start = time.perf_counter()
    result = _generate_code(graph, options, destination, tuning, recorder)
    facts = {
        **graph_facts(graph, result),
        "import_seconds": import_seconds,
        "compile_seconds": time.perf_counter() - start,
    }
    if destination.emit_options is not None:
        facts["emitted"] = write_folder(result, destination.emit_options)
    elif destination.artifact is not None:
        facts["artifact"] = save_artifact(result, destination.artifact)
    if recorder is not None:
        facts["passes"] = recorder.facts()
        facts["codes_in_floats"] = recorder.float_facts()
        facts["bits_of_processor"] = recorder.varying_facts()
        facts["precisions"] = recorder.precision_facts()
        facts["copies"] = recorder.copy_facts()
    if tuning is not None:
        facts["tuning"] = tuning_facts(tuning)
    return CompileReport(facts, result.launches, recorder, tuning)


def _generate_code(
    graph: Graph,
    options: CodeOptions,
    destination: Destination,
    tuning: Tuning | None,
    recorder: PassRecorder | None,
) -> CompileResult:
    """Compile for this processor, unless all requested targets are other processors."""
    from nnefc.kernels.target.isa import NATIVE

    targets = destination.targets
    if targets and NATIVE not in targets and tuning is None and recorder is None:
        return CrossCompiled.of(graph, targets, options.config)
    config = options.config
    if tuning is not None:
        config = config._replace(algorithms=tuning.algorithms)
    return NativeModel(compile_graph(graph, config, hook=recorder), targets)
