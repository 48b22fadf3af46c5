"""Modules exported by torch_to_nnef compute the same as in PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch_to_nnef", reason="the exporter is not installed")

from tests.helpers.pytorch import (
    arithmetic,
    networks,
    patterns,
    sequences,
    tensors,
)
from tests.helpers.pytorch.cases import Case
from tests.helpers.pytorch.exports import check

MODULES = (
    arithmetic,
    tensors,
    networks,
    sequences,
    patterns,
)
CASES = [pytest.param(case, id=case.name) for module in MODULES for case in module.cases()]


@pytest.mark.filterwarnings("ignore::nnefc.NnefWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("case", CASES)
def test_compiled_exports_match_pytorch(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_names_are_unique() -> None:
    names: list[Any] = [case.id for case in CASES]
    assert len(names) == len(set(names))
