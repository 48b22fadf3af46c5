"""The precision of products: what it is where the processor has no fast ones."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.driver import precision
from nnefc.driver.precision import half_kernels, warn_of_targets
from nnefc.kernels.target.isa import host
from nnefc.options.compile_config import CompileConfig
from nnefc.passes.analysis.half_support import HalfKernels
from tests.helpers.command_line import Cli

HALVES = CompileConfig(1, precision="bfloat16")
IS_X86 = host().name.startswith("x86")
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


@pytest.mark.skipif(half_kernels(HALVES) is None, reason="products of bfloat16 are not faster")
@pytest.mark.skipif(not IS_X86, reason="processors of aarch64 may multiply float16")
def test_the_other_precision_is_named_if_it_is_faster(document: Path) -> None:
    with pytest.warns(nnefc.NnefWarning, match="float16 are not faster here: (.|\n)*bfloat16 are"):
        nnefc.compile(document, random_weights=1, precision="float16", threads=1)


def test_float32_never_warns(
    document: Path, without_products: None, recwarn: pytest.WarningsRecorder
) -> None:
    del without_products
    nnefc.compile(document, random_weights=1, threads=1)
    assert not recwarn.list


@pytest.mark.slow
@pytest.mark.skipif(half_kernels(HALVES) is None, reason="products of bfloat16 are not faster")
@pytest.mark.usefixtures("keep_models")
def test_saved_models_have_weights_in_16_bits(document: Path, tmp_path: Path) -> None:
    """Files, pickles and files for other processors, whose code multiplies float32."""
    x = np.random.default_rng(0).standard_normal((3, 32)).astype(np.float32)
    plain = nnefc.compile(document, random_weights=1, threads=1)(x)
    model = nnefc.compile(document, random_weights=1, precision="bfloat16", threads=1)
    y = model(x)
    cached = nnefc.compile(document, random_weights=1, precision="bfloat16", threads=1)
    np.testing.assert_array_equal(cached(x), y)
    assert 0 < np.abs(y - plain).max() < 2**-6 * np.abs(plain).max()
    model.save(tmp_path / "net.nnefc")
    loaded: Any = nnefc.load(tmp_path / "net.nnefc", threads=1)
    np.testing.assert_array_equal(loaded(x), y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(loaded))(x), y)
    with pytest.warns(nnefc.NnefWarning, match="that code is float32"):
        loaded.save(tmp_path / "other.nnefc", targets=["x86-64-v3" if IS_X86 else "aarch64"])
    np.testing.assert_allclose(nnefc.load(tmp_path / "other.nnefc")(x), plain, rtol=1e-5, atol=1e-5)


def test_unknown_precisions_are_refused(cli: Cli, document: Path) -> None:
    shown = cli("compile", document, "--random-weights", 1, "--precision", "float8")
    assert shown.status == 1
    assert "must be 'float32', 'bfloat16' or 'float16'" in shown.err


def test_unknown_precisions_are_told_before_inputs(cli: Cli, document: Path) -> None:
    shown = cli("run", document, "--random-weights", 1, "--precision", "float8")
    assert shown.status == 1
    assert "must be 'float32', 'bfloat16' or 'float16'" in shown.err
    assert "'x'" not in shown.err


@pytest.mark.usefixtures("without_products")
def test_files_in_bfloat16_warn_once(cli: Cli, document: Path, tmp_path: Path) -> None:
    """They are opened where products of bfloat16 are not faster."""
    file = tmp_path / "net.nnefc"
    with pytest.warns(nnefc.NnefWarning, match="the model is float32"):
        model = nnefc.compile(document, random_weights=1, precision="bfloat16", threads=1)
    model.save(file)
    with pytest.warns(nnefc.NnefWarning, match="the model is float32") as caught:
        nnefc.load(file, threads=1)
    assert len(caught) == 1
    assert cli("run", file, "--random-inputs", 1).err.count("input/precision") == 1


def test_targets_without_products_warn(recwarn: pytest.WarningsRecorder) -> None:
    warn_of_targets(CompileConfig(1), ["native", "x86-64-v3"])
    warn_of_targets(HALVES, ["native"])
    float16 = CompileConfig(1, precision="float16")
    warn_of_targets(float16, ["native", "aarch64+fp16", "aarch64+bf16"])
    assert not recwarn.list
    with pytest.warns(nnefc.NnefWarning, match="float16 in aarch64.dotprod: that code is"):
        warn_of_targets(float16, ["aarch64+fp16", "aarch64+dotprod"])
    with pytest.warns(nnefc.NnefWarning, match="in x86-64-v3, aarch64: that code is float32"):
        warn_of_targets(HALVES, ["native", "x86-64-v3", "aarch64"])
