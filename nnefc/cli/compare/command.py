"""`nnefc compare`: compare a compiled model with the float64 reference, tensor by tensor."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from nnefc.cli.compare.against import read_against, results_of
from nnefc.cli.compare.call_inputs import CallInputs
from nnefc.cli.compare.comparison import Comparison
from nnefc.cli.compare.dump import dumping
from nnefc.cli.compare.float_noise import compare_with_float
from nnefc.cli.compare.report import report
from nnefc.cli.support.inputs import no_data, read_turns
from nnefc.cli.support.opened_model import DocumentModel, is_typed, open_model
from nnefc.cli.support.option_groups import CompileOptions, DocumentOptions, InputOptions
from nnefc.cli.support.options import Json, ModelOrArtifact, RandomInputs, Threads, usage
from nnefc.cli.support.symbols import naming_chosen, symbol_facts
from nnefc.cli.support.turns import turn_name
from nnefc.support.errors import NnefError
from nnefc.support.index_message import RULE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nnefc.cli.compare.against import Against
    from nnefc.cli.support.opened_model import OpenedModel
    from nnefc.cli.support.session_calls import SessionCalls
    from nnefc.ir import Graph, Value

T = TypeVar("T")

NOT_WITH_FLOAT: Final = frozenset(
    [
        "tolerance",
        "all",
        "steps",
        "against",
        "dump",
        *(each.name for each in fields(CompileOptions)),
    ]
)
"""Parameters of a comparison with the reference, and of compiling."""
SESSION_STEPS: Final = 3
"""Calls of a model with states that are compared by default: a first one, two with states."""


TOLERANCES: Final = {"float32": 1e-4, "bfloat16": 2e-2, "float16": 5e-3}
"""Tolerances by default, by precision.  bfloat16 has 8 bits: errors of networks are below 1e-2.
float16 has 11, and sums of float16 add as much."""

Tolerance = Annotated[
    float | None,
    typer.Option(
        help="Largest error relative to the largest magnitude of a tensor (default: 1e-4; 2e-2 "
        "with --precision bfloat16, 5e-3 with float16).",
    ),
]
All = Annotated[bool, typer.Option("--all", help="Show every tensor, not only outliers.")]
Steps = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Compare N calls of a model with states: the first one, and those that find the "
        "states of the one before (default: 3; 1 if variables are its states).",
    ),
]
AgainstFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--against",
        metavar="[NAME=]PATH",
        help="Compare the outputs with those of another engine instead of the reference: an .npz "
        "file or a folder of .npy and .dat files with arrays named like the outputs, or a .npy or "
        ".dat file for one output; repeatable. turn_1/y is y of the second call of a session; "
        "--input takes such names, too.",
    ),
]
DumpFolder = Annotated[
    Path | None,
    typer.Option(
        "--dump",
        metavar="FOLDER",
        readable=False,
        help="Write all values as .npy files to a new folder: the inputs of each call (inputs/), "
        "compiled tensors (tensors/), outputs (outputs/) and states (states/), the float64 "
        "reference of each (reference/), and index.json with their names, operations, shapes, "
        "types and differences. Weights are not written.",
    ),
]
FloatModel = Annotated[
    str | None,
    typer.Option(
        "--float",
        metavar="MODEL",
        help="The model of reals that MODEL was quantized from: show the ratio of signal to noise "
        "of every value that both name alike, instead of the comparison with the reference.",
    ),
]


def compare(
    context: typer.Context,
    model: ModelOrArtifact,
    inputs: InputOptions,
    tolerance: Tolerance = None,
    all: All = False,
    steps: Steps = None,
    against: AgainstFiles = None,
    dump: DumpFolder = None,
    float: FloatModel = None,
    random_inputs: RandomInputs = 0,
    threads: Threads = None,
    json: Json = False,
    *,
    compiling: CompileOptions,
    document: DocumentOptions,
) -> None:
    """Compare a compiled model with the float64 reference, tensor by tensor.

    The outputs come from the model as it is normally compiled, intermediate tensors from a second
    compilation that returns them all. Status 1 if a tensor differs by more than the tolerance, or
    if a NaN or an infinity is in one of the two only. NaN in both agrees; a line names the first
    operation that makes one. With --against, only outputs are compared, with those of an engine.

    For an artifact, the reference evaluates the graph in the file, after the passes.

    Of a model with states, the calls of a session are compared one by one: tensors, results and
    states. --symbol S=16,1 sets a symbol for the first call and for the others; by default, the
    others append the fewest items, such as one token. Symbols without a value get small ones.

    Examples:

        nnefc compare net.nnef.tgz -i input.npy --all --tolerance 1e-5

        nnefc compare net.nnef.tgz -i in.npz --against onnxruntime.npz

        nnefc compare decoder.nnef.tgz --symbol S=16,1 --steps 4

        nnefc compare --float net.nnef.tgz net-int8.nnef.tgz
    """
    if float is not None:
        _refuse_with_float(context)
        compare_with_float(model, float, inputs, document, random_inputs or 0, threads, json=json)
        return
    _check_tolerance(tolerance)
    opened = open_model(context, model, document, compiling, files=inputs.input, chooses=True)
    most = _tolerance_of(opened, threads) if tolerance is None else tolerance
    outputs = results_of(opened.graph) if against else ()
    turns = read_turns(opened.inputs, inputs.input, inputs.pictures(), outputs)
    seed = random_inputs if is_typed(context, "random_inputs") else None
    given = CallInputs(turns, seed, values=opened.value_arrays)

    def compared(given: CallInputs) -> tuple[Comparison, SessionCalls | None]:
        comparison = Comparison(against=_against(opened, against))
        with dumping(dump, most, opened.graph.name) as comparison.dump:
            return comparison, _compare(comparison, opened, given, steps, threads)

    comparison, calls = naming_chosen(opened)(_with_valid_indices)(compared, given)
    if not report(comparison, most, all, symbol_facts(opened, calls), json):
        raise typer.Exit(1)


def _refuse_with_float(context: typer.Context) -> None:
    """Raise NnefError for typed options that `--float` does not take."""
    typed = [
        max(each.opts, key=len)
        for each in context.command.params
        if each.name in NOT_WITH_FLOAT and is_typed(context, each.name)
    ]
    if typed:
        hint = "options of the comparison with the reference, which --float replaces"
        raise usage(f"--float does not take {', '.join(typed)}", hint)


def _check_tolerance(tolerance: float | None) -> None:
    if tolerance is not None and not (math.isfinite(tolerance) and tolerance >= 0):
        raise usage(f"--tolerance {tolerance:g}: must be finite and at least 0")


def _tolerance_of(opened: OpenedModel, threads: int | None) -> float:
    """The tolerance of the precision that a model is compiled in."""
    if isinstance(opened, DocumentModel):
        return TOLERANCES.get(opened.compiling.precision, 0.0)  # others are refused later
    return TOLERANCES[opened.config(threads).precision]


def _with_valid_indices(compared: Callable[[CallInputs], T], given: CallInputs) -> T:
    """The result of a comparison; if a random index is out of range, as 1 is for an embedding of a
    single row, of a second one with zeros.
    """
    try:
        return compared(given)
    except NnefError as error:
        if error.errors[0].rule != RULE or given.zero_integers:
            raise
    return compared(replace(given, zero_integers=True))


def _against(opened: OpenedModel, options: Sequence[str] | None) -> Against | None:
    """The results of another engine; None without `--against`."""
    if not options:
        return None
    inputs = [value.name for value in opened.inputs]
    return read_against(options, list(results_of(opened.graph)), inputs)


def _compare(
    comparison: Comparison,
    opened: OpenedModel,
    inputs: CallInputs,
    steps: int | None,
    threads: int | None,
) -> SessionCalls | None:
    """Compare the tensors of a call, or of each call of a session; return the latter."""
    from nnefc.cli.compare.cycles import compare_cycles
    from nnefc.cli.compare.sessions import compare_session

    against, graph, calls = comparison.against, opened.graph, opened.calls
    count = _number_of_calls(steps, inputs, against, opened.graph)
    if calls is None or not isinstance(opened, DocumentModel):
        _check_data([graph.inputs] * count, [graph] * count, inputs, against)
        arrays = [inputs.arrays(graph.inputs, step) for step in range(count)]
        compare_cycles(comparison, opened, arrays, threads)
        return None
    if inputs.turns[0] and not opened.later:
        calls = replace(calls, later=calls.first)
    calls = calls.with_inputs(inputs.turns[:count])
    graphs = list(calls.graphs(count))
    values = [[v for v in each.inputs if v.name in calls.source.inputs] for each in graphs]
    _check_data(values, graphs, inputs, against)
    arrays_of_calls = [inputs.arrays(each, step) for step, each in enumerate(values)]
    compare_session(comparison, opened, calls, arrays_of_calls, threads)
    return calls


def _number_of_calls(
    steps: int | None, inputs: CallInputs, against: Against | None, graph: Graph
) -> int:
    """The number of calls that are compared: that of `--steps`, or that of the calls in files."""
    of_files = {"--input": len(inputs.turns), "--against": len(against.turns) if against else 1}
    has_variables = bool(graph.updated_labels)
    if not graph.states and not has_variables:
        for option, number in {"--steps": steps or 1, **of_files}.items():
            if number > 1:
                raise usage(f"{option} has {number} calls: the model keeps no states", "give one")
        return 1
    count = steps or max(of_files.values())
    if steps is None and count == 1 and against is None and not has_variables:
        count = SESSION_STEPS
    if against and len(against.turns) < count:
        raise usage(
            f"--against has results of {len(against.turns)} of {count} calls",
            f"--steps {len(against.turns)} compares these; {turn_name(1, 'y')} is y of call 2",
        )
    return count


def _check_data(
    values: Sequence[Sequence[Value]],
    graphs: Sequence[Graph],
    inputs: CallInputs,
    against: Against | None,
) -> None:
    """Raise NnefError unless the files of another engine fit the results of `graphs`.

    `values`: the inputs of each call.  Results of another engine need given inputs, or random ones
    that the user has asked for.
    """
    if against is None:
        return
    if inputs.seed is None:
        missing = [
            f"{each} of call {step + 1}" if len(values) > 1 else each
            for step, of_call in enumerate(values)
            for each in inputs.missing(of_call, step)
        ]
        if missing:
            raise no_data(missing)
    against.check([results_of(graph) for graph in graphs])
