"""The set of kernels of a release wheel: what it is made of, and the networks that it serves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_packs.layers import layers
from kernel_packs.networks import NETWORKS, SETS, kernels_of
from kernel_packs.pieces import pieces
from kernel_packs.similar import covering, similar
from kernel_packs.usual import usual_kernels
from nnefc.kernels.elementwise import map as elementwise
from nnefc.kernels.family import Kernel
from nnefc.kernels.product import matmul
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.register_tile import covering_tiles, tile_rows, tile_width
from nnefc.runtime.compile.kernel_compiler import object_code_for

ROOT = Path(__file__).resolve().parents[2]


def families(kernels: list[Kernel]) -> set[str]:
    return {kernel.family for kernel in kernels}


def test_usual_kernels_are_members_of_their_families() -> None:
    for kernel in usual_kernels():
        kernel.function()  # raises for arguments that do not fit


@pytest.mark.slow
def test_usual_kernels_are_compiled(exhaustive: bool) -> None:
    one_per_family = {kernel.family: kernel for kernel in usual_kernels()}
    for kernel in usual_kernels() if exhaustive else one_per_family.values():
        assert object_code_for(kernel, host())


@pytest.mark.parametrize("name", ["stored_products", "recurrent", "attention", "products, silu"])
def test_layers_have_kernels_for_other_shapes(name: str) -> None:
    some, every = kernels_of(name), kernels_of(name, complete=True)
    assert set(some) < set(every)
    assert families(every) == families(some)


def test_every_layer_is_in_the_release() -> None:
    assert set(SETS["release"].networks) == {*NETWORKS, *layers()}


def test_products_of_every_size_are_covered() -> None:
    kernels = {matmul.gemm("float32", *tiles) for tiles in covering()}
    (first, *_) = kernels
    assert set(similar(first)) == kernels
    for height in range(1, tile_rows() + 1):
        for width in range(1, tile_width(height) + 1):
            assert matmul.gemm("float32", *covering_tiles((height,), (width,))) in kernels


def test_pieces_are_the_functions_and_the_rest() -> None:
    codes = [object_code_for(matmul.gemm("float32", (1,), (1,)), host())]
    codes.append(object_code_for(elementwise.copy(), host()))
    for code in codes:
        found = pieces(code)
        assert b"".join(found) == code
        assert len(found) > 5


@pytest.mark.slow
def test_zoo_exports_and_examples_need_no_compiler(tmp_path: Path, exhaustive: bool) -> None:
    report = tmp_path / "coverage.json"
    command = [sys.executable, "-m", "benchmarks.coverage", "--groups", "zoo,exports,examples"]
    command += [] if exhaustive else ["--brief", "--threads", "1"]
    subprocess.run(
        [*command, "--row", "x86-64-v3", "--json", str(report)],
        check=True,
        cwd=ROOT,
        env={**os.environ, "NNEFC_CACHE": "off"},
    )
    networks = json.loads(report.read_text())["networks"]
    assert len(networks) > 40
    assert {name: facts["missing"] for name, facts in networks.items() if facts["missing"]} == {}
