"""`python -m tests.helpers.kernels.widths ROW [--exhaustive] [NAME...]`: all subjects, or some, for
a row of `nnefc.kernels.target.isa`.

If the row is that of this process (see `NNEFC_ISA`), results are compared with the reference, which
computes in float64.  Kernels for another row are compiled and linked.  Prints line by line what is
wrong, then the families of kernels that were reached, last what was done.

Every result of a document is a program of its own, so that few kernels come with a new one.
Programs whose kernels have nothing new are left out, see `Reached`.  A new family is new.  For
float32 programs that are compiled as usual, a new argument of a family is new too.  If a row before
has vectors of the same length, only new families with shuffles are new.

With `--exhaustive` documents are compiled as a whole.  A new family is new for every row, and a new
argument in every program if the row can be executed.  No float32 program that is compiled as usual
is left out if no row before has vectors of the same length, and the row of the host has all
programs.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from nnefc.ir import Graph, TensorType
from nnefc.ir.convolution_algorithm import ConvolutionAlgorithm
from nnefc.kernels.family import Kernel
from nnefc.kernels.target.isa import TABLE, Isa
from nnefc.ops.tools.sample import Instance
from nnefc.options.arguments import Scalar
from nnefc.options.import_config import ImportConfig
from nnefc.program.program import Program
from tests.helpers.kernels.width_graphs import graphs
from tests.helpers.kernels.width_subjects import ANY, NARROW

Array = np.ndarray[Any, Any]

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
"""Tolerance relative to the largest item of a result."""
WINOGRAD_TOLERANCE = 2e-4


def document(body: str) -> str:
    """The whole document: `W(shape)` becomes a variable, names that begin with y are results."""
    labels = iter(range(1000))

    def variable(match: re.Match[str]) -> str:
        return f"variable(shape = [{match[1]}], label = 'w{next(labels)}')"

    body = re.sub(r"\bW\(([\d, ]+)\)", variable, body)
    inputs = re.findall(r"(\w+) = external", body)
    outputs = dict.fromkeys(re.findall(r"\b(y\w*)(?=[\]),]| =)", body))
    head = f"graph g( {', '.join(inputs)} ) -> ( {', '.join(outputs)} )"
    return f"version 1.0; extension KHR_enable_operator_expressions; {head} {{ {body} }}"


def data(name: str, type_: TensorType) -> Array:
    """Items that float32 represents exactly; the first letter of a name gives their kind."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    match name[0]:
        case "l":
            return random.random(type_.dims) < 0.5
        case "i":
            return random.integers(0, 4, type_.dims).astype(type_.dtype.numpy)
        case "p":
            items = random.uniform(0.05, 0.95, type_.dims)
        case "q":
            items = random.uniform(1.05, 4, type_.dims)
        case "r":
            low = random.uniform(0, 8, (type_.dims[0], 2))
            items = np.concatenate([low, low + random.uniform(4, 9, low.shape)], 1)
        case _:
            items = random.standard_normal(type_.dims)
    return items.astype(np.float32).astype(type_.dtype.numpy)


def programs(graph: Graph) -> Iterator[tuple[str, Program]]:
    """(how, program): lowered as it is, compiled, item by item, by every method of convolutions."""
    from nnefc.kernels.vector.lane_builder import lanes_of
    from nnefc.lower import lower
    from nnefc.ops.tools.convolution import is_blocked_convolution
    from nnefc.passes.canonicalise.expand_compounds import ExpandCompounds
    from nnefc.passes.cost.convolution import algorithms, operation_key
    from nnefc.passes.machine.choose_convolution_algorithms import ChooseConvolutionAlgorithms
    from nnefc.passes.machine.split_batch import SplitBatch, batch_of, computing, rows_of
    from nnefc.passes.pipeline import DEFAULT, for_batch, for_machine, run_pipeline

    block = lanes_of("float32")

    def compiled(chosen: Mapping[str, ConvolutionAlgorithm]) -> Graph:
        working = graph.clone()
        choose = ChooseConvolutionAlgorithms(block, tuned=chosen)
        run_pipeline(working, (*DEFAULT, *for_machine(block, choose)))
        return working

    alone = graph.clone()
    ExpandCompounds().run(alone)
    yield "alone", lower(alone)
    usual = compiled({})
    convolutions = list(filter(is_blocked_convolution, usual.ops))
    every = {operation_key(op): algorithms(op, block) for op in convolutions}
    if (batch := batch_of(usual)) > 1:
        steps = computing(usual)
        items = [1 if apart else batch for apart in rows_of(usual, steps, batch)[1]]
        split, choose = SplitBatch(items=items), ChooseConvolutionAlgorithms(block)
        stages = run_pipeline(usual.clone(), for_batch(split, choose))
        yield "item by item", lower(stages)
    yield "compiled", lower(usual)
    for i in range(max(map(len, every.values()), default=1)):
        chosen = {key: names[i] for key, names in every.items() if 1 < len(names) > i}
        if chosen:
            words = map(str, dict.fromkeys(chosen.values()))
            yield f"by {', '.join(words)}", lower(compiled(chosen))


def differ(made: Instance, program: Program) -> Iterator[str]:
    """The results of a graph that differ from the reference."""
    from nnefc.ops.tools.reference import evaluate
    from nnefc.runtime.run.compiled_model import CompiledModel

    got = CompiledModel.of(program, made.graph, threads=1).run(made.inputs)
    for name, want in evaluate(made.graph, made.inputs).outputs.items():
        have = got[name].astype(want.dtype)
        # halves and float32 of wide integers are rounded
        size = np.nanmax(np.abs(np.where(np.isfinite(want), want, 0)), initial=1)
        near = size * (0 if want.dtype.kind in "biu" else 4e-3 if "float16" in name else 2e-5)
        if not np.allclose(have, want, 0, near, equal_nan=True):
            yield f"{name} {want.shape}"


def compare(graph: Graph, program: Program, scalar: str) -> Iterator[str]:
    """The errors in the results of a program."""
    from nnefc.ops.tools.reference import evaluate
    from nnefc.runtime.run.compiled_model import CompiledModel

    inputs = {value.name: data(value.name, value.type) for value in graph.inputs}
    expected = evaluate(graph, inputs).outputs
    got = CompiledModel.of(program, graph, threads=1).run(inputs)
    winograd = any("winograd" in kernel.family for kernel in program.kernels)
    tolerance = WINOGRAD_TOLERANCE if winograd else TOLERANCE[scalar]
    for name, want in expected.items():
        have = got[name]
        if have.shape != want.shape:
            yield f"{name}: shape {have.shape}, expected {want.shape}"
        elif have.dtype.kind != "f":
            if not np.array_equal(have, want):
                yield f"{name} {want.shape}: {(have != want).sum()} items differ"
        else:
            error = np.abs(have - want).max() / np.abs(want).max()
            if not error <= tolerance:  # nor are NaNs right
                yield f"{name} {want.shape}: error {error:.3g}"


class Reached:
    """The kernels of all programs of a row so far."""

    def __init__(self) -> None:
        self.families: set[str] = set()
        self._arguments: set[tuple[str, int, str]] = set()

    def add(self, kernels: Iterable[Kernel]) -> tuple[set[str], bool]:
        """Add kernels; the new families, and whether there is a new argument of a family.

        An argument is a value at a position.
        """
        families = {kernel.family for kernel in kernels}
        arguments = {
            (kernel.family, i, repr(argument))
            for kernel in kernels
            for i, argument in enumerate(kernel.arguments)
        }
        new = families - self.families, bool(arguments - self._arguments)
        self.families |= families
        self._arguments |= arguments
        return new


SHUFFLES = ("kernels/vector/byte_table.py", "kernels/vector/permute.py")
"""The sources that read fields in which repeated rows differ."""


def has_shuffles(family: str, isa: Isa) -> bool:
    """Whether the sources of a family include one of `SHUFFLES`."""
    from nnefc.runtime.cache.key import module_dependencies

    dependencies = module_dependencies(family.rpartition(".")[0], isa)
    assert dependencies
    return any(fact.endswith(SHUFFLES) for fact in dependencies.facts)


def is_repeated(isa: Isa) -> bool:
    """Whether a row before has vectors as long, so that only shuffles of float32 differ."""
    names = list(TABLE)
    before = [TABLE[name] for name in names[: names.index(isa.name)]]
    return (isa.triple, isa.vector_bits) in {(each.triple, each.vector_bits) for each in before}


def results_alone(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """(name of a result, what computes it)"""
    from nnefc.passes.cleanup.eliminate_dead_code import EliminateDeadCode

    for i, name in enumerate(graph.output_names):
        alone = graph.clone()
        alone.outputs, alone.output_names = [alone.outputs[i]], [name]
        EliminateDeadCode().run(alone)
        alone.inputs = [value for value in alone.inputs if value.users]
        yield name, alone


def subjects(
    wanted: list[str], *, exhaustive: bool
) -> Iterator[tuple[str, str, Graph | Instance, Program]]:
    """(name, item type, subject, program): the documents, then other graphs with item type ""."""
    from nnefc.frontends.nnef.import_model import import_text
    from nnefc.lower import lower

    documents: list[tuple[str, str, Scalar]] = [
        (name, body, "float32") for name, body in (NARROW | ANY).items()
    ]
    for name, body in ANY.items():
        documents.append((name, body, "float64"))
    for name, body, scalar in documents:
        if not wanted or name in wanted:
            config = ImportConfig(scalar=scalar, random_weights=1)
            whole = import_text(document(body), name, config)
            for result, graph in [("all", whole)] if exhaustive else results_alone(whole):
                for how, program in programs(graph):
                    yield f"{name}, {result}, {scalar}, {how}", scalar, graph, program
    for name, made in graphs():
        if not wanted or name in wanted:
            yield name, "", made, lower(made.graph)


def main(row: str, wanted: list[str], *, exhaustive: bool) -> int:
    """The exit status: 1 after any error."""
    from nnefc.kernels.target import isa

    executes = isa.host().name == row
    if not executes:
        chosen = isa.TABLE[row]
        isa.host = lambda: chosen
    from nnefc.kernels.codegen.linker import link
    from nnefc.runtime.compile.kernel_compiler import object_code

    everything = exhaustive and executes and isa.host().cpu == isa.NATIVE
    repeated = is_repeated(isa.TABLE[row])
    wrong: list[str] = []
    reached = Reached()
    done = 0
    for name, scalar, subject, program in subjects(wanted, exhaustive=exhaustive):
        families, new_argument = reached.add(program.kernels)
        usual = not repeated and scalar == "float32" and not name.endswith("alone")
        if exhaustive:
            new = families or usual or (new_argument and executes and not repeated)
        elif repeated:
            new = any(has_shuffles(family, isa.host()) for family in families)
        else:
            new = families or (usual and new_argument)
        if not (new or everything):
            continue
        done += 1
        if not executes:
            link(map(object_code, program.kernels))
        elif isinstance(subject, Instance):
            wrong += [f"{name}, {text}" for text in differ(subject, program)]
        else:
            wrong += [f"{name}: {text}" for text in compare(subject, program, scalar)]
    print(*wrong, *sorted(reached.families), sep="\n")
    print(f"{'executed' if executes else 'linked'} {done} programs")
    return int(bool(wrong))


if __name__ == "__main__":
    _, chosen, *names = sys.argv
    option = "--exhaustive"
    sys.exit(main(chosen, [n for n in names if n != option], exhaustive=option in names))
