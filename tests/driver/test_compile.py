"""Compiling several graphs at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.cli.digits import ARCHIVE
from nnefc.driver.compile import compile_graphs
from nnefc.options.compile_config import CompileConfig
from nnefc.runtime.compile import kernel_compiler


def test_graphs_are_compiled_with_one_request_for_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[int] = []
    load = kernel_compiler._load_or_compile  # pyright: ignore

    def counted(sources: Any, steps: Any) -> None:
        requests.append(len(sources))
        load(sources, steps)

    monkeypatch.setattr(kernel_compiler, "_objects", {})
    monkeypatch.setattr(kernel_compiler, "_load_or_compile", counted)
    totals: set[int] = set()
    shapes = [(1, 1, 8, 8), (450, 1, 8, 8)]
    graphs = [nnefc.import_model(ARCHIVE, shapes={"image": shape}) for shape in shapes]
    config = CompileConfig.of(2)
    models = compile_graphs(graphs, config, lambda done, total, label: totals.add(total))
    assert requests == [*totals]
    images = np.random.default_rng(1).random(shapes[1], np.float32)
    single = np.concatenate([models[0](image[None]) for image in images[:9]])
    np.testing.assert_allclose(models[1](images)[:9], single, rtol=1e-4, atol=1e-6)
