"""Processes that write, load and clear the same files at the same time: each reads a whole file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import nnefc
from nnefc.runtime.artifact.weight_cache import is_whole
from nnefc.runtime.cache.private_folder import PARTIAL
from tests.helpers.artifacts.saved import compiled, inputs, results, same, transformed, write
from tests.helpers.command_line import Cli

LAYERS = """\
version 1.0;
graph layers( x ) -> ( y )
{
    x = external(shape = [1, 64]);
    a = variable(shape = [300, 64], label = 'a');
    b = variable(shape = [100, 300], label = 'b');
    y = matmul(matmul(x, a, transposeB = true), b, transposeB = true);
}
"""
TURNS = 12


@contextmanager
def at_once(program: str, arguments: Sequence[Sequence[object]]) -> Generator[list[str]]:
    """Processes that begin together, when all have said "ready".

    They run while the block does, and what each prints after that is in the list at its end; they
    say nothing on standard error.
    """
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", program, *map(str, each)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for each in arguments
    ]
    said: list[str] = []
    try:
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate()[1]
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        yield said
    finally:
        ended = [process.communicate() for process in running]
    assert [errors for _, errors in ended] == [""] * len(running)
    assert [process.returncode for process in running] == [0] * len(running)
    said += [output for output, _ in ended]


SAVING = f"""
import sys, nnefc
model = nnefc.compile(sys.argv[1], random_weights=int(sys.argv[3]), threads=1)
print("ready", flush=True)
sys.stdin.readline()
for _ in range({TURNS}):
    model.save(sys.argv[2])
"""


@pytest.mark.parametrize("count", [2, 8])
def test_processes_may_save_to_one_name(tmp_path: Path, count: int) -> None:
    """Every reader sees a whole file of one writer."""
    document, net = write(tmp_path, LAYERS), tmp_path / "net.nnefc"
    seeds = range(count)
    models = [nnefc.compile(document, random_weights=seed, threads=1) for seed in seeds]
    files: set[bytes] = set()
    for model in models:
        model.save(net)
        files.add(net.read_bytes())
    assert len(files) == count
    expected = {results(model)[0].tobytes() for model in models}
    with at_once(SAVING, [(document, net, seed) for seed in seeds]):
        for _ in range(TURNS * count):
            loaded = nnefc.load(net, threads=1, verify=True)
            assert results(loaded)[0].tobytes() in expected
    assert net.read_bytes() in files
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph.nnef", "net.nnefc"]


LOADING = """
import json, os, sys, numpy, nnefc
arrays = list(numpy.load(sys.argv[2]).values())
nnefc.load(sys.argv[3], threads=1)(numpy.zeros((1, 64), "f"))  # all is imported
os.environ["NNEFC_CACHE"] = sys.argv[4]
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[5])):
    found = nnefc.load(sys.argv[1], threads=1)(*arrays)
    print(found.tobytes().hex())
"""


class Shared:
    """An artifact whose weights are packed at the first call, and their cache folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = transformed(folder)
        self.model = nnefc.load(self.path, threads=1)
        self.expected = results(self.model)
        np.savez(folder / "in.npz", *inputs(self.model))
        self.simple = folder / "simple.nnefc"
        compiled(folder, LAYERS, threads=1).save(self.simple)
        self.cache = folder / "cache"
        monkeypatch.setenv("NNEFC_CACHE", str(self.cache))

    def loading(self, turns: int = 1) -> Sequence[object]:
        """Arguments of `LOADING`."""
        folder = self.path.parent
        return self.path, folder / "in.npz", self.simple, self.cache, turns

    def check(self, said: Sequence[str], turns: int = 1) -> None:
        """Assert that every process computed the right results each time."""
        right = self.expected[0].tobytes().hex()
        assert said == [f"{right}\n" * turns] * len(said)

    @property
    def kept(self) -> list[Path]:
        """The files of packed weights; asserts that all are whole."""
        files = list((self.cache / "weights").iterdir())
        for path in files:
            assert not path.name.startswith(PARTIAL)
            assert is_whole(np.frombuffer(path.read_bytes(), np.uint8), path.stem)
        return files


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shared:
    return Shared(tmp_path, monkeypatch)


@pytest.mark.parametrize("count", [2, 8])
def test_processes_may_pack_the_same_weights(shared: Shared, count: int) -> None:
    with at_once(LOADING, [shared.loading()] * count) as said:
        pass
    shared.check(said)
    assert len(said) == count
    assert len(shared.kept) == 1


def test_the_cache_may_be_cleared_while_a_model_is_used(cli: Cli, shared: Shared) -> None:
    model = nnefc.load(shared.path, threads=1)
    for made in (1, 0, 0):
        same(results(model), shared.expected)
        assert len(list(shared.cache.glob("weights/*.weights"))) == made
        cleared = cli("cache", "clear")
        assert cleared.status == 0
        assert f"removed {made} entr" in cleared.out
    same(results(nnefc.load(shared.path, threads=1)), shared.expected)
    assert len(shared.kept) == 1


def test_the_cache_may_be_cleared_while_models_are_loaded(cli: Cli, shared: Shared) -> None:
    turns, removed = 10, 0
    with at_once(LOADING, [shared.loading(turns)] * 2) as said:
        for _ in range(5 * turns):
            cleared = cli("cache", "clear", "--json")
            assert cleared.status == 0, cleared.err
            removed += json.loads(cleared.out)["removed"]
    shared.check(said, turns)
    assert removed
    assert len(shared.kept) <= 1


@pytest.mark.parametrize("what", ["weights", "."])
def test_the_folder_may_be_removed_while_models_are_loaded(shared: Shared, what: str) -> None:
    turns = 10
    with at_once(LOADING, [shared.loading(turns)] * 2) as said:
        for _ in range(5 * turns):
            subprocess.run(["rm", "-rf", shared.cache / what], check=False, capture_output=True)
    shared.check(said, turns)
