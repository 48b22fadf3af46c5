"""C programs with symbolic plans, which serve many shapes, compute the same as the models."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from nnefc import NnefError
from nnefc.kernels.embedded.model_layout import INDEX
from tests.dynamic.test_plans import MOVES, NUMBERS, PRODUCTS, TWO, W
from tests.helpers.artifacts.c_programs import LIBRARIES, WARNINGS, compile_c, needs_compiler
from tests.helpers.artifacts.c_shapes import emitted_program, run_with_symbols
from tests.helpers.graphs.dynamic_models import items, model, symbolic_model


@needs_compiler
@pytest.mark.parametrize("body", [MOVES, NUMBERS, PRODUCTS], ids=["moves", "numbers", "products"])
def test_programs_for_many_lengths(tmp_path: Path, body: str) -> None:
    compiled = symbolic_model(tmp_path, body, w=W)
    program = emitted_program(compiled, tmp_path, [{"B": 2, "S": 20}, {"B": 1, "S": 6}])
    for batch, length in ((2, 20), (2, 37), (1, 6), (2, 26), (2, 20)):
        x = items(batch, length, 6)
        assert run_with_symbols(program, [batch, length], [x], list(compiled(x))) == ""
    assert "no value of a symbol" in run_with_symbols(program, [-1, 20], [], [])
    assert "no plan holds" in run_with_symbols(program, [2, 1], [], [])


@needs_compiler
def test_several_symbols_and_inputs(tmp_path: Path) -> None:
    compiled = symbolic_model(tmp_path, TWO)
    program = emitted_program(compiled, tmp_path, {"B": 2, "S": 20, "T": 40})
    for batch, first, second in ((2, 20, 40), (2, 33, 21)):
        x, t = items(batch, first, 6), items(batch, second, 6)
        assert run_with_symbols(program, [batch, first, second], [x, t], list(compiled(x, t))) == ""


@needs_compiler
def test_assertions_hold_in_c(tmp_path: Path) -> None:
    body = """graph g(x) -> (y) {
      x = tract_core_external(shape = [1, 2*S, 4], datum_type = 'f32');
      y = x + 1.0;
    }"""
    extensions = "extension tract_symbol S;\nextension tract_assert S < 30;\n"
    compiled = model(tmp_path, body, extensions)
    program = emitted_program(compiled, tmp_path, {"S": 20})
    x = items(1, 58, 4)
    assert run_with_symbols(program, [29], [x], [compiled(x)]) == ""
    assert "no plan holds" in run_with_symbols(program, [30], [items(1, 60, 4)], [])


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
    program = emitted_program(compiled, tmp_path, {"S": 20})
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
    program = emitted_program(compiled, tmp_path, {"S": 20, "T": 8})
    for extent in (20, 9, 33):
        x = items(extent, 4)
        inside = np.array([0, extent - 1, -extent, 3, 1], np.int64)
        assert run_with_symbols(program, [extent, 5], [x, inside], [x[inside]]) == ""
        for wrong in (extent, -extent - 1, 1 << 40):
            ids = np.array([0, 1, wrong], np.int64)
            assert "an index in the inputs is out of range" in run_with_symbols(
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
