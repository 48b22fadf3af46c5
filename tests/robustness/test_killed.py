"""Processes killed while compiling, caching or saving leave no damaged files."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nnefc
from nnefc.runtime.cache import claim
from nnefc.runtime.cache.private_folder import PARTIAL
from tests.helpers.artifacts.saved import MIXED, compiled, inputs, results

_PROGRAM = """
import os, signal, sys, time
import nnefc
from nnefc.kernels.codegen import object_code as codegen
from nnefc.runtime.compile import kernel_compiler as objects

document, folder, path = sys.argv[1:]
graph = nnefc.import_model(document, random_weights=3)
nnefc.compile(graph, threads=1).save(path)
code = {source.symbol: data for source, data in objects._objects.items()}
codegen.emit = lambda function, symbol, isa: code[symbol]  # as if it took no time
os.environ.update(NNEFC_CACHE=folder, NNEFC_JOBS="1")


def work():
    objects._objects.clear()
    nnefc.compile(graph, threads=1).save(path)
    for place in (folder, folder + "/weights"):
        for entry in os.scandir(place):
            if entry.is_file():
                os.unlink(entry)


start = time.perf_counter()
work()
print(time.perf_counter() - start, flush=True)
for line in sys.stdin:
    child = os.fork()
    while not child:
        work()
    time.sleep(float(line))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print("killed", flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forks with signals")
def test_files_are_whole_after_kills(tmp_path: Path, exhaustive: bool) -> None:
    model = compiled(tmp_path, MIXED, threads=1)
    expected = results(model)
    cache, path = tmp_path / "cache", tmp_path / "net.nnefc"
    rng = random.Random(1)
    seen = 0
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, tmp_path / "graph.nnef", cache, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        seconds = float(parent.stdout.readline())
        for i in range(200 if exhaustive else 60):
            parent.stdin.write(f"{rng.uniform(0, 1.5 * seconds)}\n")
            assert parent.stdout.readline() == "killed\n"
            if i % 10 == 0 and path.exists():
                seen += 1
                loaded = nnefc.load(path, threads=1, verify=True)
                np.testing.assert_array_equal(loaded(*inputs(loaded))[0], expected[0])
    assert parent.returncode == 0
    assert seen
    strays = [p.name for p in tmp_path.iterdir() if p.suffix == ".tmp"]
    names = {p.name for p in tmp_path.iterdir()} - set(strays)
    assert names == {"cache", "graph.nnef", "net.nnefc"}
    environment = {**os.environ, "NNEFC_CACHE": str(cache)}
    verify = [sys.executable, "-m", "nnefc", "cache", "verify"]
    checked = subprocess.run(verify, env=environment, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    entries = [p.name for p in cache.iterdir() if p.is_file()]
    # a process that is killed leaves its claim; the system has released it
    kinds = (".kernel", claim.SUFFIX)
    assert all(name.endswith(kinds) or name.startswith(PARTIAL) for name in entries)
    for name in entries:
        if name.endswith(claim.SUFFIX):
            held = claim.claim(str(cache / name))
            assert held is not None
            held.release()
