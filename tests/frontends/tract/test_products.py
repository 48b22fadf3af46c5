"""Products have the item types that tract gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc

Array = np.ndarray[Any, Any]

TYPES = {"f16": np.float16, "f32": np.float32, "i8": np.int8, "i32": np.int32}


@pytest.mark.parametrize(
    ("items", "acc"),
    [("f16", "f32"), ("f16", "f16"), ("f32", "f16"), ("f32", "f32"), ("i8", "i32"), ("i8", "i8")],
)
def test_sums_have_the_type_they_are_added_in(tmp_path: Path, items: str, acc: str) -> None:
    random = np.random.default_rng(0)
    a, b = (random.integers(-9, 9, shape).astype(TYPES[items]) for shape in ((3, 64), (5, 64)))
    call = f"tract_core_einsum([a, b], expr = 'ik,jk->ij', acc = '{acc}', output = '')"
    (tmp_path / "graph.nnef").write_text(
        "version 1.0;\nextension tract_registry tract_core;\ngraph net( a, b ) -> ( y )\n{\n"
        f"    a = tract_core_external(shape = [3, 64], datum_type = '{items}');\n"
        f"    b = tract_core_external(shape = [5, 64], datum_type = '{items}');\n"
        f"    y = {call};\n}}"
    )
    y: Any = nnefc.compile(tmp_path, keep=False)(a, b)
    assert y.dtype == TYPES[acc]
    exact = a.astype(np.int64) @ b.T.astype(np.int64)
    np.testing.assert_array_equal(y, exact.astype(TYPES[acc]))
    tract: Any = pytest.importorskip("tract")
    theirs = tract.nnef().load(str(tmp_path)).into_runnable().run([a, b])[0].to_numpy()
    assert theirs.dtype == y.dtype
    np.testing.assert_array_equal(y, theirs)
