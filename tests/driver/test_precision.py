"""The precision of products: what it is where the processor has no fast ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nnefc
from nnefc.driver import precision
from nnefc.options.compile_config import CompileConfig
from nnefc.passes.analysis.half_support import HalfKernels
from tests.helpers.command_line import Cli

DOCUMENT = """\
version 1.0;
graph net( x ) -> ( y )
{
    x = external(shape = [3, 32]);
    w = variable(shape = [32, 48], label = 'w');
    y = matmul(x, w);
}
"""


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "graph.nnef"
    path.write_text(DOCUMENT)
    return path


@pytest.fixture
def without_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which products of bfloat16 are not faster."""

    def none(config: CompileConfig) -> HalfKernels | None:
        del config

    monkeypatch.setattr(precision, "half_kernels", none)


@pytest.mark.usefixtures("without_products")
def test_models_are_float32_with_one_warning(document: Path) -> None:
    with pytest.warns(nnefc.NnefWarning, match="the model is float32") as caught:
        model = nnefc.compile(document, random_weights=1, precision="bfloat16", threads=1)
    assert len(caught) == 1
    x = np.ones((3, 32), np.float32)
    want = nnefc.compile(document, random_weights=1, threads=1)(x)
    np.testing.assert_array_equal(model(x), want)


@pytest.mark.usefixtures("without_products")
def test_commands_print_one_warning(cli: Cli, document: Path) -> None:
    shown = cli("compile", document, "--random-weights", 1, "--precision", "bfloat16")
    assert shown.status == 0
    assert shown.err.count("input/precision") == 1
    assert "the model is float32" in shown.err


def test_float32_never_warns(
    document: Path, without_products: None, recwarn: pytest.WarningsRecorder
) -> None:
    del without_products
    nnefc.compile(document, random_weights=1, threads=1)
    assert not recwarn.list


def test_unknown_precisions_are_refused(cli: Cli, document: Path) -> None:
    shown = cli("compile", document, "--random-weights", 1, "--precision", "float16")
    assert shown.status == 1
    assert "must be 'float32' or 'bfloat16'" in shown.err
