"""`python -m tests.helpers.kernels.widths ROW [--exhaustive] [NAME...]`: all subjects, or some, for
a row of `nnefc.kernels.target.isa`.

If the row is that of this process (see `NNEFC_ISA`), results are compared with the reference, which
computes in float64.  Kernels for another row are compiled and linked.  Prints line by line what is
wrong, then the families of kernels that were reached, last what was done.

Programs whose kernels have nothing new are left out, see `Reached`.  If no row before has vectors
of the same length, float32 programs that are compiled as usual are not left out; with
`--exhaustive` a new argument of a family is new too, if the row can be executed, and the row of the
host has all programs.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nnefc.ir import Blocked, DType, Graph, Op, TensorType, Value
from nnefc.ir.convolution_algorithm import ConvolutionAlgorithm, Winograd
from nnefc.kernels.family import Kernel
from nnefc.kernels.target.isa import TABLE, Isa
from nnefc.ops.tools.build import build
from nnefc.ops.tools.sample import Instance, instance
from nnefc.ops.tools.table import operations
from nnefc.options.arguments import Scalar
from nnefc.options.import_config import ImportConfig
from nnefc.program.program import Program
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


def graphs() -> Iterator[tuple[str, Instance]]:
    """Graphs beyond the standard: operations of tract's registries, loops, integers."""
    # imported now, because modules that lower a graph import the function `isa.host` that is set
    from tests.helpers.graphs.loops import halvings

    for name, spec in operations().items():
        if spec.section == "tract" and spec.expand is None:
            for sample in spec.samples:
                yield name, instance(spec, sample)
    left = {"go": np.ones(1, np.bool_), "n": np.zeros(1, np.int64)}
    left |= {"v": np.ones((1, 3), np.float32), "limit": np.full((1, 1), 0.3, np.float32)}
    yield "loop that is left", Instance(halvings(6, 4, stacked=False), left)
    yield "blocked codes", codes()
    for dtype in DType:
        if dtype is not DType.STRING:
            yield f"types {dtype}", arithmetic(dtype)
    yield "product of codes", product_of_codes()
    yield "products of computed codes", products_of_computed_codes()
    yield "functions of codes", functions_of_codes()
    yield "softmax of codes", softmax_of_codes()


def functions_of_codes() -> Instance:
    """A table, sums of windows and of planes, and a maximum, of codes in blocks."""
    from nnefc.kernels.vector.lane_builder import lanes_of

    x = np.random.default_rng(5).integers(0, 256, (1, 21, 9, 12)).astype(np.uint8)
    graph = Graph("functions of codes")
    given = graph.add_input(TensorType(DType.UINT8, x.shape), "x")
    layout = Blocked(lanes_of("int32"), ((0, 0), (0, 0)), 1)

    def blocked(
        name: str, value: Value, dtype: DType, extents: Sequence[int], **attributes: Any
    ) -> Value:
        reals = Blocked(layout.block, layout.halo, dtype.itemsize)
        type_ = TensorType(dtype, (1, 21, *extents), reals)
        return graph.insert(Op(name, [value], attributes, [type_])).output

    def result(name: str, value: Value) -> None:
        type_ = TensorType(value.type.dtype, value.type.dims)
        graph.add_output(graph.insert(Op("layout", [value], {}, [type_])).output, name)

    rest: dict[str, Any] = {"border": "ignore", "dilation": (1,) * 4}
    table = tuple((7 * i + 3) % 256 for i in range(256))
    codes = blocked("layout", given, DType.UINT8, (9, 12))
    codes = blocked("code_table", codes, DType.UINT8, (9, 12), table=table)
    result("table", codes)
    for size, stride, extents in ((3, 2, (5, 6)), (5, 1, (9, 12))):
        window: dict[str, Any] = {
            "size": (1, 1, size, size),
            "stride": (1, 1, stride, stride),
            **rest,
        }
        window["padding"] = ((0, 0), (0, 0), (size // 2,) * 2, (size // 2, size // 2 - stride + 1))
        result(f"max {size}", blocked("max_pool", codes, DType.UINT8, extents, **window))
        sums = {**window, "normalize": True, "zero": 9}
        result(f"mean {size}", blocked("code_box", codes, DType.FLOAT32, extents, **sums))
    whole: dict[str, Any] = {"axes": (2, 3), "normalize": True, "zero": 9}
    result("planes", blocked("code_sum_reduce", codes, DType.FLOAT32, (1, 1), **whole))
    return Instance(graph, {"x": x})


def codes() -> Instance:
    """Convolutions of codes in blocks: of one group, directly and by Winograd's algorithm, and
    depthwise with a halo of zero points.
    """
    from nnefc.kernels.target.isa import host
    from nnefc.kernels.vector.lane_builder import lanes_of

    lanes, item = lanes_of("int32"), DType(host().codes)
    rng = np.random.default_rng(4)
    x = rng.integers(0, 100, (1, 21, 5, 6)).astype(item.numpy)
    graph = Graph("codes")
    given = graph.add_input(TensorType(item, x.shape), "x")
    blocked = given.type.with_layout(Blocked(lanes, ((1, 1), (0, 2)), 1, fill=7))
    source = graph.insert(Op("layout", [given], {}, [blocked])).output
    for name, outputs, groups in (("y", 3 * lanes + 1, 1), ("z", 21, 21), ("winograd", 9, 1)):
        filter_ = rng.integers(-99, 100, (outputs, 21 // groups, 3, 3)).astype(np.int8)
        bias = rng.integers(-999, 999, (1, outputs)).astype(np.int32)
        tile = 4 if name == "winograd" else 0
        graph.add_output(_convolved(graph, source, filter_, bias, groups, tile), name)
    return Instance(graph, {"x": x})


def _convolved(
    graph: Graph, x: Value, filter_: Array, bias: Array, groups: int, tile: int
) -> Value:
    """Requantized sums of 3 x 3 codes of a blocked value, row-major.

    `tile`: most outputs of a tile of Winograd's algorithm along a dimension, or 0.
    """
    from nnefc.ops.internal.requantization import (
        FloatScale,
        Input,
        Requantization,
        requantization_expression,
    )

    known: list[Array] = [filter_, np.array(7, x.type.dtype.numpy), np.zeros((), np.int8), bias]
    operands = [x]
    for array in known:
        attributes = {"shape": array.shape, "value": array}
        type_ = TensorType(DType(array.dtype.name), array.shape)
        operands.append(graph.insert(Op("constant", [], attributes, [type_])).output)
    requantization = Requantization(FloatScale(2.0**-10), DType.UINT8, 0, 255, 90, Input(1))
    attributes = {
        **({"algorithm": Winograd(tile)} if tile else {}),
        "border": "constant",
        "padding": ((1, 1), (0, 2)),
        "stride": (1, 1),
        "dilation": (1, 1),
        "groups": groups,
        "expression": requantization_expression(requantization),
    }
    type_ = TensorType(DType.UINT8, (1, len(filter_), *x.type.dims[2:]))
    layout = x.type.layout
    assert layout is not None
    result = type_.with_layout(Blocked(layout.block, ((0, 0), (0, 0)), 1))
    y = graph.insert(Op("fused_code_conv", operands, attributes, [result])).output
    return graph.insert(Op("layout", [y], {}, [type_])).output


def arithmetic(dtype: DType) -> Instance:
    """Conversions to all types; products, quotients and powers of integers."""
    graph = Graph("arithmetic")
    items = np.arange(9 * 37).reshape(9, 37) * 7 - 90
    inputs = {"x": items.astype(dtype.numpy), "y": items[:, ::-1].copy().astype(dtype.numpy)}
    x, y = (graph.add_input(TensorType(dtype, items.shape), name) for name in inputs)
    for other in DType:
        if other is not DType.STRING:
            graph.add_output(build(graph, "cast", [x], dtype=other).output, f"as {other}")
    for name in ("add", "mul", "div", "pow", "remainder") if dtype.is_integer else ():
        graph.add_output(build(graph, name, [x, y]).output, name)
    if dtype.is_integer:
        product = build(graph, "matmul", [x, y], {"transposeB": True})
        graph.add_output(product.output, "matmul")
    return Instance(graph, inputs)


def product_of_codes() -> Instance:
    """A product for which there is a kernel, with rows that end within a word."""
    graph, random = Graph("codes"), np.random.default_rng(1)
    x = random.integers(0, 256, (21, 37)).astype(np.uint8)
    weights = random.integers(-128, 128, (37, 50)).astype(np.int8)
    operands = [graph.add_input(TensorType(DType.UINT8, x.shape), "x")]
    for items in (weights, np.array(9, np.uint8), np.array(0, np.int8)):
        attributes = {"shape": items.shape, "value": items}
        type_ = TensorType(DType(items.dtype.name), items.shape)
        operands.append(graph.insert(Op("constant", [], attributes, [type_])).output)
    plain = {"transposeA": False, "transposeB": False}
    sums = TensorType(DType.INT32, (21, 50))
    graph.add_output(graph.insert(Op("code_matmul", operands, plain, [sums])).output, "y")
    return Instance(graph, {"x": x})


def products_of_computed_codes() -> Instance:
    """Products whose second matrices are computed, with contiguous rows and columns."""
    graph, random = Graph("codes"), np.random.default_rng(1)
    inputs = {
        "a": random.integers(0, 256, (2, 21, 37)).astype(np.uint8),
        "rows": random.integers(0, 256, (2, 37, 50)).astype(np.uint8),
        "columns": random.integers(-128, 128, (2, 70, 37)).astype(np.int8),
        "zero": np.array(200, np.uint8),
        "small": np.array(-9, np.int8),
    }
    values = {
        name: graph.add_input(TensorType(DType(x.dtype.name), x.shape), name)
        for name, x in inputs.items()
    }
    for name, zero, turned in (("rows", "zero", False), ("columns", "small", True)):
        operands = [values[key] for key in ("a", name, "zero", zero)]
        shape = (2, 21, inputs[name].shape[-2 if turned else -1])
        attributes = {"transposeA": False, "transposeB": turned}
        made = Op("code_matmul", operands, attributes, [TensorType(DType.INT32, shape)])
        graph.add_output(graph.insert(made).output, name)
    return Instance(graph, inputs)


def softmax_of_codes() -> Instance:
    """Rows of whole vectors and a rest, of either type of codes."""
    graph, inputs = Graph("softmax of codes"), dict[str, Array]()
    for dtype in (DType.UINT8, DType.INT8):
        items = np.random.default_rng(6).integers(0, 256, (5, 197)).astype(np.uint8)
        inputs[str(dtype)] = items.view(dtype.numpy)
        x = graph.add_input(TensorType(dtype, items.shape), str(dtype))
        for rounding in ("even", "up"):
            attributes = {
                **{"axes": (1,), "scale": 0.02, "result_scale": 0.0003, "result_zero": 3},
                "rounding": rounding,
            }
            made = Op("code_softmax", [x], attributes, [TensorType(dtype, items.shape)])
            graph.add_output(graph.insert(made).output, f"y {dtype} {rounding}")
    return Instance(graph, inputs)


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

    def add(self, kernels: Iterable[Kernel]) -> tuple[bool, bool]:
        """Add kernels; whether there is a new family, and a new argument of a family.

        An argument is a value at a position.
        """
        families = {kernel.family for kernel in kernels}
        arguments = {
            (kernel.family, i, repr(argument))
            for kernel in kernels
            for i, argument in enumerate(kernel.arguments)
        }
        new = bool(families - self.families), bool(arguments - self._arguments)
        self.families |= families
        self._arguments |= arguments
        return new


def is_repeated(isa: Isa) -> bool:
    """Whether a row before has vectors as long, so that only shuffles of float32 differ."""
    names = list(TABLE)
    before = [TABLE[name] for name in names[: names.index(isa.name)]]
    return (isa.triple, isa.vector_bits) in {(each.triple, each.vector_bits) for each in before}


def subjects(wanted: list[str]) -> Iterator[tuple[str, str, Graph | Instance, Program]]:
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
            graph = import_text(document(body), name, config)
            for how, program in programs(graph):
                yield f"{name}, {scalar}, {how}", scalar, graph, program
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
    families_only = repeated or not executes or not exhaustive
    wrong: list[str] = []
    reached = Reached()
    done = 0
    for name, scalar, subject, program in subjects(wanted):
        new_family, new_argument = reached.add(program.kernels)
        new = new_family if families_only else new_argument
        usual = not repeated and scalar == "float32" and not name.endswith("alone")
        if not (new or everything or usual):
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
