"""C programs with models of varying shapes compute the same as the models."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc import NnefError, NnefWarning
from nnefc.dynamic.dynamic_model import DynamicModel
from nnefc.emit.shape_code import ShapeCode
from nnefc.kernels.embedded.model_layout import (
    INDEX,
    MODEL,
    PARAMETERS,
    PATTERN,
    PATTERN_NUMBER_COUNT,
    PATTERN_NUMBERS,
    PATTERN_STEP_COUNT,
    PATTERN_STEPS,
    REGISTERS,
)
from nnefc.kernels.embedded.shapes import holds
from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.vector.memory import STORE, address
from nnefc.symbolic.integers import Trace, hint
from tests.dynamic.test_plans import MOVES, NUMBERS, PRODUCTS, TWO, W
from tests.helpers.artifacts.c_programs import LIBRARIES, WARNINGS, compile_c, needs_compiler
from tests.helpers.examples import examples
from tests.helpers.graphs.dynamic_models import items, model, symbolic_model
from tests.helpers.kernels.raw_kernel import run as run_kernel
from tests.symbolic.test_integers import PAIRS, STEPS, numbers_of

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba is not typed)

Array = np.ndarray[Any, Any]


COMPUTED = (
    (
        """graph g(x) -> (y) {
      x = tract_core_external(shape = SHAPE, datum_type = 'f32');
      y = max_pool(x, size = [1, 1, 3, 3], border = 'ignore');
    }""",
        "1,3,S,S",
    ),
    (
        """graph g(x) -> (y) {
      x = tract_core_external(shape = SHAPE, datum_type = 'f32');
      w = variable<scalar>(label = 'w', shape = [20, 3, 3, 3]);
      c = relu(conv(x, w, stride = [2, 2], padding = [(1, 1), (1, 1)]));
      y = mean_reduce(avg_pool(c, size = [1, 1, 3, 3], border = 'ignore'), axes = [2, 3]);
    }""",
        "1,3,S,S",
    ),
    (
        """graph g(x) -> (y) {
      x = tract_core_external(shape = SHAPE, datum_type = 'f32');
      y = multilinear_upsample(x, factor = [2, 2], method = 'symmetric', border = 'replicate');
    }""",
        "1,3,S,S",
    ),
    (
        """fragment turn(x: tensor<scalar>, total: tensor<scalar>) -> (sum: tensor<scalar>) {
      sum = 0.5 * total + x;
    }
    graph g(x) -> (y) {
      x = tract_core_external(shape = SHAPE, datum_type = 'f32');
      zero = 0.0 * slice(x, axes = [1], begin = [0], end = [1], stride = [1]);
      y = tract_core_scan(body = "turn", scan = [("x", x, 1, 1)], full = [],
        state = [("total", zero, "sum")], output = [("sum", "full", 1, 1)]);
    }""",
        "1,S,6",
    ),
)
"""Models with the shape of their input."""


def emitted(model: DynamicModel, folder: Path, shapes: Any) -> Path:
    """The example program of a model."""
    model.emit_c(folder / "c", name="net", shapes=shapes)
    program = folder / "c" / "program"
    objects = (folder / "c" / "main.c", folder / "c" / "net.o")
    compile_c("-std=c99", *WARNINGS, *objects, "-o", program, *LIBRARIES)
    return program


def run(program: Path, symbols: list[int], inputs: list[Array], outputs: list[Array]) -> str:
    """Run the example on inputs, and compare the outputs; returns what it says of an error."""
    folder = program.parent
    files = [folder / f"x{i}" for i in range(len(inputs))]
    for file, array in zip(files, inputs, strict=True):
        array.tofile(file)
    results = [folder / f"y{i}" for i in range(len(outputs))]
    values = [word for value in symbols for word in ("-s", value)]
    done = subprocess.run(
        list(map(str, [program, "-t", 2, *values, "--", *files, *results])),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        assert done.returncode == 1, done
        return done.stderr
    for file, expected in zip(results, outputs, strict=True):
        found = np.fromfile(file, expected.dtype).reshape(expected.shape)
        np.testing.assert_array_equal(found, expected)
    return ""


@needs_compiler
@pytest.mark.parametrize("body", [MOVES, NUMBERS, PRODUCTS], ids=["moves", "numbers", "products"])
def test_programs_for_many_lengths(tmp_path: Path, body: str) -> None:
    compiled = symbolic_model(tmp_path, body, w=W)
    program = emitted(compiled, tmp_path, [{"B": 2, "S": 20}, {"B": 1, "S": 6}])
    for batch, length in ((2, 20), (2, 37), (1, 6), (2, 26), (2, 20)):
        x = items(batch, length, 6)
        assert run(program, [batch, length], [x], list(compiled(x))) == ""
    assert "no value of a symbol" in run(program, [-1, 20], [], [])
    assert "no plan holds" in run(program, [2, 1], [], [])


@needs_compiler
def test_several_symbols_and_inputs(tmp_path: Path) -> None:
    compiled = symbolic_model(tmp_path, TWO)
    program = emitted(compiled, tmp_path, {"B": 2, "S": 20, "T": 40})
    for batch, first, second in ((2, 20, 40), (2, 33, 21)):
        x, t = items(batch, first, 6), items(batch, second, 6)
        assert run(program, [batch, first, second], [x, t], list(compiled(x, t))) == ""


@needs_compiler
def test_assertions_hold_in_c(tmp_path: Path) -> None:
    body = """graph g(x) -> (y) {
      x = tract_core_external(shape = [1, 2*S, 4], datum_type = 'f32');
      y = x + 1.0;
    }"""
    extensions = "extension tract_symbol S;\nextension tract_assert S < 30;\n"
    compiled = model(tmp_path, body, extensions)
    program = emitted(compiled, tmp_path, {"S": 20})
    x = items(1, 58, 4)
    assert run(program, [29], [x], [compiled(x)]) == ""
    assert "no plan holds" in run(program, [30], [items(1, 60, 4)], [])


@needs_compiler
def test_programs_use_the_interface_of_the_header(tmp_path: Path) -> None:
    compiled = symbolic_model(tmp_path, PRODUCTS, w=W)
    compiled.emit_c(tmp_path / "c", name="net", shapes={"B": 1, "S": 20})
    source = tmp_path / "c" / "own.c"
    source.write_text(r"""
#include "net.h"
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    static float x[6 * 50], y[8 * 50], z[50 * 50], v[8 * 50];
    net_inputs inputs = {.x = x};
    net_outputs outputs = {.y = y, .z = z, .v = v};
    net_shape shape = {.B = 1, .S = 0};
    net_model *net = net_create(NULL, 1, NULL);
    if (net_run(net, &inputs, &outputs) != NET_SHAPE) return 1;
    if (net_input_dims(net, 0) != NULL || net_output_dims(net, 0) != NULL) return 2;
    if (net_set_shape(net, NULL) != NET_ARGUMENT) return 3;
    for (shape.S = 18; shape.S <= 50; shape.S++) {
        if (net_set_shape(net, &shape) != NET_OK) return 4;
        if (net_input_dims(net, 0)[1] != shape.S || net_output_dims(net, 1)[2] != shape.S) return 5;
        if (net_input_dims(net, 1) != NULL || net_output_dims(net, 3) != NULL) return 6;
        if (net_run(net, &inputs, &outputs) != NET_OK) return 7;
    }
    shape.B = -1;
    if (net_set_shape(net, &shape) != NET_SHAPE) return 12;
    shape.B = 1;
    shape.S = (int64_t)1 << 62;
    if (net_set_shape(net, &shape) != NET_SHAPE) return 8;
    if (net_output_dims(net, 1)[2] != 50) return 9;
    if (net_run(net, &inputs, &outputs) != NET_OK) return 10;
    if (net_input_info[0].dims[1] != -1 || net_input_info[0].items != 0) return 11;
    net_destroy(net);
    return 0;
}
""")
    program = tmp_path / "c" / "own"
    compile_c("-std=c99", *WARNINGS, source, tmp_path / "c" / "net.o", "-o", program, *LIBRARIES)
    assert subprocess.run([program], check=False).returncode == 0


@needs_compiler
def test_results_that_are_counted(tmp_path: Path) -> None:
    """The count of valid items is a further output, as for known shapes."""
    body = """graph g(x) -> (y) {
      x = tract_core_external(shape = [S], datum_type = 'f32');
      y = tract_onnx_non_zero(x, count_symbol = 'n');
    }"""
    extensions = "extension tract_registry tract_onnx;\nextension tract_symbol S;\n"
    compiled = model(tmp_path, body, extensions)
    program = emitted(compiled, tmp_path, {"S": 20})
    length = 20
    x = (items(length) > 0).astype(np.float32)
    found = compiled(x)
    folder = program.parent
    x.tofile(folder / "x")
    command = [program, "-s", length, folder / "x", folder / "y", folder / "n"]
    assert subprocess.run(list(map(str, command)), check=False).returncode == 0
    counts = np.fromfile(folder / "n", np.uint8).view(f"i{(folder / 'n').stat().st_size}")
    assert counts[0] == found.shape[1]
    written = np.fromfile(folder / "y", found.dtype)
    np.testing.assert_array_equal(written[: found.shape[1]], found[0])


@needs_compiler
def test_an_index_beyond_the_extent_of_a_symbol_is_a_status(tmp_path: Path) -> None:
    """The bound is the present value of a symbol; the example names the status."""
    body = """graph g(x, ids) -> (y) {
      x = tract_core_external(shape = [S, 4], datum_type = 'f32');
      ids = tract_core_external(shape = [T], datum_type = 'i64');
      y = tract_core_gather(x, ids, axis = 0);
    }"""
    compiled = symbolic_model(tmp_path, body)
    program = emitted(compiled, tmp_path, {"S": 20, "T": 8})
    for extent in (20, 9, 33):
        x = items(extent, 4)
        inside = np.array([0, extent - 1, -extent, 3, 1], np.int64)
        assert run(program, [extent, 5], [x, inside], [x[inside]]) == ""
        for wrong in (extent, -extent - 1, 1 << 40):
            ids = np.array([0, 1, wrong], np.int64)
            assert "an index in the inputs is out of range" in run(
                program, [extent, 3], [x, ids], [x[:3]]
            )
            with pytest.raises(NnefError, match=f"{wrong}.*{extent}"):
                compiled(x, ids)


@needs_compiler
def test_calls_after_a_wrong_index(tmp_path: Path) -> None:
    body = """graph g(ids) -> (y) {
      ids = tract_core_external(shape = [S], datum_type = 'i64');
      table = variable<scalar>(label = 'table', shape = [10, 2]);
      y = tract_core_gather(table, ids, axis = 0) * 2.0;
    }"""
    table = items(10, 2)
    compiled = symbolic_model(tmp_path, body, table=table)
    compiled.emit_c(tmp_path / "c", name="net", shapes={"S": 4})
    source = tmp_path / "c" / "own.c"
    source.write_text(r"""
#include "net.h"
#include <stdio.h>
int main(void) {
    int threads, turn;
    for (threads = 1; threads < 3; threads++) {
        net_model *net = net_create(NULL, threads, NULL);
        int64_t ids[16] = {0};
        float y[32];
        net_inputs inputs = {.ids = ids};
        net_outputs outputs = {.y = y};
        net_shape shape;
        for (shape.S = 3; shape.S <= 16; shape.S += 13) {
            if (net_set_shape(net, &shape) != NET_OK) return 1;
            for (turn = 0; turn < 4; turn++) {
                ids[shape.S - 1] = turn % 2 ? turn % 3 ? 10 : -11 : 9;
                printf("%d ", (int)net_run(net, &inputs, &outputs));
            }
            ids[shape.S - 1] = 7;
            if (net_run(net, &inputs, &outputs) != NET_OK) return 2;
            printf("%.9g\n", y[2 * shape.S - 1]);
        }
        net_destroy(net);
    }
    return 0;
}
""")
    program = tmp_path / "c" / "own"
    compile_c("-std=c99", *WARNINGS, source, tmp_path / "c" / "net.o", "-o", program, *LIBRARIES)
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        *statuses, value = line.split()
        assert statuses == ["0", str(INDEX), "0", str(INDEX)]
        assert np.float32(value) == 2 * table[7, 1]
    assert len(done.stdout.splitlines()) == 4


@needs_compiler
@pytest.mark.parametrize(("body", "shape"), COMPUTED)
def test_plans_with_tables_and_loops_serve_the_named_values(
    tmp_path: Path, body: str, shape: str
) -> None:
    """C computes no tables of windows and no turns, so these plans are for the named values."""
    filters = {"w": items(20, 3, 3, 3)} if "'w'" in body else {}
    compiled = symbolic_model(tmp_path, body.replace("SHAPE", f"[{shape}]"), **filters)
    with pytest.warns(NnefWarning, match="plans for S = 20; S = 33 serve exactly these values"):
        program = emitted(compiled, tmp_path, [{"S": 20}, {"S": 33}])
    for value in (33, 20, 33, 21):
        x = items(*(value if extent == "S" else int(extent) for extent in shape.split(",")))
        says = run(program, [value], [x], [compiled(x)])
        assert ("no plan" in says) == (value == 21), says


def test_plans_that_c_cannot_compute_are_told(tmp_path: Path) -> None:
    body = """graph g(x) -> (y) {
      x = tract_core_external(shape = [S * S, 4], datum_type = 'f32');
      y = relu(x);
    }"""
    compiled = symbolic_model(tmp_path, body)
    with pytest.raises(NnefError, match="that is not linear") as caught:
        compiled.emit_c(tmp_path / "c", shapes={"S": 4})
    assert caught.value.errors[0].rule == "artifact/c-shape"
    assert not (tmp_path / "c").exists()
    compiled.for_shapes({"x": (16, 4)}).emit_c(tmp_path / "c")


# -- arithmetic


CALL = Layout("net:ref data:ref row:ref shape:ref result:ref")
NET, MODEL_DATA, ROW, VALUES, RESULT = CALL.offsets
REGISTERS_AT = 64
"""Offset of the registers in the memory of the test."""


@family()
def holds_at() -> KernelFunction:
    """result = whether the guards of a pattern hold"""
    store = STORE["int64"]

    def holds_at(bases, params, first, last):
        net, data = address(bases, params + NET), address(bases, params + MODEL_DATA)
        row, shape = address(bases, params + ROW), address(bases, params + VALUES)
        for _ in range(first, last):
            store(address(bases, params + RESULT), holds(net, data, row, shape))

    return holds_at


def evaluated(code: ShapeCode, values: tuple[int, ...]) -> tuple[bool, Array]:
    """Whether the guards of a pattern hold in native code, and its registers."""
    data = np.zeros(MODEL.nbytes // 8 + len(code.numbers) + len(code.steps()) + 1, np.int64)
    data[PARAMETERS // 8], data[REGISTERS // 8] = len(values), REGISTERS_AT
    numbers = MODEL.nbytes // 8
    steps = numbers + len(code.numbers)
    data[numbers:steps] = code.numbers
    data[steps : steps + len(code.steps())] = code.steps()
    row = np.zeros(PATTERN.nbytes // 8, np.int64)
    for field, value in (
        (PATTERN_NUMBERS, 8 * numbers),
        (PATTERN_NUMBER_COUNT, len(code.numbers)),
        (PATTERN_STEPS, 8 * steps),
        (PATTERN_STEP_COUNT, code.step_count),
    ):
        row[field // 8] = value
    net, result = np.zeros(REGISTERS_AT // 8 + code.count, np.int64), np.zeros(1, np.int64)
    run_kernel(
        holds_at(),
        CALL,
        1,
        net=net,
        data=data,
        row=row,
        shape=np.array(values, np.int64),
        result=result,
    )
    return bool(result[0]), net[REGISTERS_AT // 8 :]


@examples(2)
@given(STEPS, PAIRS, st.lists(PAIRS, min_size=1, max_size=4))
def test_native_arithmetic_is_that_of_python(
    steps: list[tuple[int, int, int]],
    first: tuple[int, int],
    others: list[tuple[int, int]],
) -> None:
    """Where native code has results they are equal; it has all small ones."""
    trace = Trace()
    try:
        traced = numbers_of(steps, [trace.symbol(value) for value in first])
    except (ArithmeticError, ValueError):
        return
    program = trace.program(traced)
    names = {name: i for i, name in enumerate(program.symbols)}
    code = ShapeCode(len(names), names)
    try:
        registers = code.add(program)
    except NnefError as error:
        assert "real numbers" in error.errors[0].message
        return
    for pair in (first, *others):
        try:
            expected = program.function()(*pair)
        except (ArithmeticError, ValueError):
            expected = None
        does_hold, words = evaluated(code, pair)
        if not does_hold:
            largest = max(abs(hint(each)) for each in traced)
            assert expected is None or largest > 1 << 40 or pair != first
            continue
        assert expected is not None
        for number, register in zip(expected, registers, strict=True):
            word = words[code.index(register)]
            if isinstance(number, float):
                assert word.view(np.float64) == number
            else:
                assert word == number
