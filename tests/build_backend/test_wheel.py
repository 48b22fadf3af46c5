"""A wheel that ships the small set of kernels, in an environment without numba and llvmlite."""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks.zoo import ZOO, inputs_of
from benchmarks.zoo.oracle import torch_outputs
from nnefc.kernels.target.isa import host
from nnefc.runtime.shipped.pack_file import SUFFIX

pytestmark = [pytest.mark.slow, pytest.mark.longest]

ROOT = Path(__file__).resolve().parents[2]
ABSENT = ("numba", "llvmlite", "nnefc")
PROGRAM = """
import sys, warnings
import numpy as np
import nnefc
warnings.simplefilter("ignore")
x = np.load(sys.argv[2])
for threads in (1, 2):
    y = nnefc.compile(sys.argv[1], threads=threads, keep=False)(x)
    np.save(sys.argv[3], y[0] if isinstance(y, tuple) else y)
    print(nnefc.__file__.startswith(sys.prefix), "numba" in sys.modules, "llvmlite" in sys.modules)
"""


def test_a_wheel_with_kernels(tmp_path: Path) -> None:
    """One test, because building the wheel takes most of the time and workers share no fixtures."""
    wheel = build_wheel(tmp_path / "wheel")
    check_packs(wheel)
    python = make_environment(wheel, tmp_path / "environment")
    check_that_a_network_compiles_without_a_compiler(python, tmp_path)
    check_that_missing_kernels_are_named(python, tmp_path)


def build_wheel(folder: Path) -> Path:
    before = tracked_and_new()
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-C", "kernels=small"]
    built = subprocess.run(
        [*command, "--outdir", folder, ROOT], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert tracked_and_new() == before
    (path,) = folder.iterdir()
    return path


def tracked_and_new() -> str:
    """The changes in the checkout and its new files."""
    command = ["git", "-C", ROOT, "status", "--porcelain"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def make_environment(wheel: Path, folder: Path) -> Path:
    """The interpreter of an environment with the wheel and its other dependencies."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    packages = Path(
        sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    )
    for path in Path(np.__file__).parents[1].iterdir():
        if not path.name.startswith((*ABSENT, "_")) and path.suffix != ".pth":
            packages.joinpath(path.name).symlink_to(path)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    return folder / "bin" / "python"


def run(
    python: Path, *arguments: object, cache: Path | str = "off"
) -> subprocess.CompletedProcess[str]:
    environment = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
    environment |= {"NNEFC_CACHE": str(cache), "NNEFC_AHEAD": "off", "COLUMNS": "200"}
    return subprocess.run(
        [str(python), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=python.parent,
    )


def check_packs(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (record,) = (name for name in names if name.endswith("RECORD"))
        rows = {row[0]: row[1:] for row in csv.reader(archive.read(record).decode().splitlines())}
        (pack,) = (name for name in names if name.endswith(SUFFIX))
        assert pack == f"nnefc/runtime/shipped/{host().name}{SUFFIX}"
        assert set(names) == set(rows)
        digest = hashlib.sha256(archive.read(pack)).digest()
        text = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        assert rows[pack] == [f"sha256={text}", str(archive.getinfo(pack).file_size)]
        assert not [name for name in names if "kernel_packs" in name or "nnefc_build" in name]


def check_that_a_network_compiles_without_a_compiler(python: Path, tmp_path: Path) -> None:
    document = ZOO["mobilenet_v2"].document("mobilenet_v2", small=True)
    network, y, x = (tmp_path / name for name in ("net.nnef.tgz", "y.npy", "x.npy"))
    document.write(network)
    inputs = inputs_of(document.inputs)
    (data,) = inputs.values()
    np.save(x, data)
    done = run(python, "-c", PROGRAM, network, x, y)
    assert done.stdout.splitlines() == 2 * ["True False False"], done.stderr
    (want,) = torch_outputs(ZOO["mobilenet_v2"].network(small=True), inputs).values()
    assert np.abs(np.load(y) - want).max() < 1e-5 * np.abs(want).max()
    shown = run(python, "-m", "nnefc", "cache", "explain", network, cache=tmp_path / "cache")
    # How many there are depends a little on the processor's cache.
    found = re.search(r"(\d+) shipped, 0 of (\d+) kernels in the cache", shown.stdout)
    assert found and found[1] == found[2], shown.stdout + shown.stderr


def check_that_missing_kernels_are_named(python: Path, tmp_path: Path) -> None:
    network = tmp_path / "lstm.nnef.tgz"
    ZOO["lstm"].document("lstm", small=True).write(network)
    done = run(python, "-m", "nnefc", "compile", network)
    assert done.returncode == 1
    needs = "compiling them needs numba and llvmlite, but numba and llvmlite are not installed"
    assert needs in done.stderr
    assert done.stderr.count("elementwise.map.expression") == 2
    assert "2 kernels are neither" in done.stderr
    assert "hint: pip install numba llvmlite" in done.stderr
    assert "Traceback" not in done.stderr
