"""C programs whose plans need tables or turns of loops: they serve the named values only."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnefc import NnefError, NnefWarning
from tests.helpers.artifacts.c_programs import needs_compiler
from tests.helpers.artifacts.c_shapes import emitted_program, run_with_symbols
from tests.helpers.graphs.dynamic_models import items, symbolic_model

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


@needs_compiler
@pytest.mark.parametrize(("body", "shape"), COMPUTED)
def test_plans_with_tables_and_loops_serve_the_named_values(
    tmp_path: Path, body: str, shape: str
) -> None:
    """C computes no tables of windows and no turns, so these plans are for the named values."""
    filters = {"w": items(20, 3, 3, 3)} if "'w'" in body else {}
    compiled = symbolic_model(tmp_path, body.replace("SHAPE", f"[{shape}]"), **filters)
    with pytest.warns(NnefWarning, match="plans for S = 20; S = 33 serve exactly these values"):
        program = emitted_program(compiled, tmp_path, [{"S": 20}, {"S": 33}])
    for value in (33, 20, 33, 21):
        x = items(*(value if extent == "S" else int(extent) for extent in shape.split(",")))
        says = run_with_symbols(program, [value], [x], [compiled(x)])
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
