"""Models with tensors of all item types: calls, artifacts and C programs."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnefc
from nnefc.formats.tensor_file import write_tensor
from nnefc.ir import DType, Graph, TensorType
from nnefc.ir.graph import Variable
from nnefc.ops.tools.build import build
from nnefc.runtime.artifact.artifact_file import open_file
from nnefc.support.errors import NnefError
from tests.helpers.artifacts.c_programs import (
    LIBRARIES,
    WARNINGS,
    compile_c,
    needs_compiler,
    run_main,
)
from tests.helpers.kernels.compiled_op import Array
from tests.helpers.nnef.hostile import tensor_file
from tests.models.test_block_quantized import decoded, random_blocks

TYPES = [t for t in DType if t is not DType.STRING]

DOCUMENT = """\
version 1.0;
extension tract_registry tract_core;
graph items( x, i, b ) -> ( y, z, j, n )
{
    x = tract_core_external(shape = [3, 64], datum_type = 'f16');
    i = tract_core_external(shape = [3, 64], datum_type = 'i8');
    b = tract_core_external(shape = [3], datum_type = 'u16');
    w = variable<scalar>(label = 'w', shape = [96, 64]);
    c = variable<scalar>(label = 'c', shape = [1, 96]);
    q = variable(label = 'q', shape = [40, 64]);
    t = variable<integer>(label = 't', shape = [5, 3]);
    y = linear(x, w, c);
    z = linear(tract_core_cast(x, to = 'f32'), q, 0.0);
    j = i + i;
    n = tract_core_gather(t, b, axis = 0);
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("items")
    (folder / "graph.nnef").write_text(DOCUMENT)
    rng = np.random.default_rng(0)
    write_tensor(folder / "w.dat", rng.standard_normal((96, 64)).astype(np.float16))
    write_tensor(folder / "c.dat", rng.standard_normal((1, 96)).astype(np.float16))
    write_tensor(folder / "t.dat", rng.integers(-99, 99, (5, 3)).astype(np.int8), encoding="int")
    blocks = random_blocks("q4_0", 40, 2, 0)
    content = tensor_file((40, 64), 0xFFFFFFFF, 0x3040, vendor=0x5452, data=blocks.tobytes())
    (folder / "q.dat").write_bytes(content)
    return folder


def inputs() -> list[Array]:
    rng = np.random.default_rng(1)
    return [
        rng.standard_normal((3, 64)).astype(np.float16),
        rng.integers(-128, 128, (3, 64)).astype(np.int8),
        np.array([4, 0, 2], np.uint16),
    ]


def check_results(folder: Path, results: list[Array]) -> None:
    x, i, b = inputs()
    y, z, j, n = results
    w, c, t = (nnefc.read_tensor(folder / f"{name}.dat") for name in "wct")
    assert [r.dtype.name for r in results] == ["float16", "float32", "int8", "int8"]
    wide = x.astype(np.float64)
    want = wide @ w.astype(np.float64).T + c.astype(np.float64)
    np.testing.assert_allclose(y.astype(np.float64), want, rtol=2.0**-10, atol=1e-3)
    q = decoded(random_blocks("q4_0", 40, 2, 0), "q4_0").reshape(40, 64)
    np.testing.assert_allclose(z, wide @ q.astype(np.float64).T, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(j, i + i)
    np.testing.assert_array_equal(n, t[b])


def test_calls_accept_and_return_all_types(folder: Path) -> None:
    model = nnefc.compile(folder)
    assert [spec.dtype.name for spec in model.inputs] == ["float16", "int8", "uint16"]
    check_results(folder, list(model(*inputs())))
    given = inputs()
    with pytest.raises(NnefError, match="is float32, expected float16"):
        model(given[0].astype(np.float32), *given[1:])


def test_artifacts_store_all_types(folder: Path, tmp_path: Path) -> None:
    model = nnefc.compile(folder)
    path = tmp_path / "items.nnefc"
    model.save(path, targets=["native", "x86-64-v2"])
    check_results(folder, list(nnefc.load(path)(*inputs())))
    content = open_file(path).content
    # quantized blocks are stored unchanged; 16-bit weights are stored as kernels read them if
    # the original order can be restored from that
    places = {
        (facts["dtype"], *facts["shape"]): facts.get("weights", facts.get("head"))
        for facts in content["arrays"]
    }
    assert places["float16", 96, 64] is None or places["float16", 96, 64][1] == 2 * 96 * 64
    assert places["uint8", 40, 36][1] == 40 * 36


@needs_compiler
def test_c_programs_use_all_types(folder: Path, tmp_path: Path) -> None:
    model = nnefc.compile(folder)
    model.emit_c(tmp_path / "c", name="items")
    text = (tmp_path / "c" / "items.h").read_text()
    assert "const uint16_t *x;" in text and "const int8_t *i;" in text
    assert "ITEMS_FLOAT16 = 5, /* uint16_t, its bits */" in text
    program = tmp_path / "c" / "example"
    compile_c("-std=c99", *WARNINGS, "main.c", "items.o", "-o", program, *LIBRARIES)
    expected = list(model(*inputs()))
    got = run_main(program, 2, inputs(), expected)
    for one, other in zip(got, expected, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_saved_graphs_of_every_type_compute_the_same(dtype: DType, tmp_path: Path) -> None:
    """Each type is used for inputs, a variable, a state and results."""
    items = np.arange(60).reshape(5, 12).astype(dtype.numpy)
    graph = Graph("each")
    type_ = TensorType(dtype, items.shape)
    x = graph.add_input(type_, "x")
    c = graph.add_input(TensorType(DType.BOOL, items.shape), "c")
    variable = {}
    for label in ("w", "s"):
        graph.variables[label] = Variable(label, type_, items[::-1].copy())
        attributes = {"shape": items.shape, "label": label}
        variable[label] = build(graph, "variable", [], attributes, dtype=dtype).output
    chosen = build(graph, "select", [c, x, variable["w"]]).output
    old = build(graph, "select", [c, variable["s"], x]).output
    graph.add_output(chosen, "chosen")
    graph.add_output(old, "old")
    graph.add_output(build(graph, "update", [variable["s"], x]).output, "new")
    condition = np.arange(60).reshape(5, 12) % 3 == 0
    model = nnefc.compile(graph)
    model.save(tmp_path / "each.nnefc")
    for each in (model, nnefc.load(tmp_path / "each.nnefc")):
        state = items[::-1]
        for _ in range(2):
            results = each(items, condition)
            wanted = np.where(condition, items, items[::-1]), np.where(condition, state, items)
            for got, want in zip(results, (*wanted, items), strict=True):
                assert got.dtype == dtype.numpy
                assert got.tobytes() == np.ascontiguousarray(want).tobytes()
            state = items
    out = [np.empty_like(items) for _ in range(3)]
    model.run({"x": items, "c": condition}, out=dict(zip(("chosen", "old", "new"), out)))
    assert out[2].tobytes() == items.tobytes()
