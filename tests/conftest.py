"""Options of the test run."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from nnefc.support.limits import no_collection
from tests.helpers.command_line import SMALL, Cli, Result
from tests.helpers.disks import mounted
from tests.helpers.examples import register
from tests.helpers.tiers import is_slow, is_waiting

if TYPE_CHECKING:
    from nnefc.runtime.cache.claim import Claim
    from tests.helpers.artifacts.c_programs import Emitted

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # So are programs started that a shell puts in the background; tests send interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

register()
settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the passes give into tests/passes/golden instead of comparing with it",
    )
    parser.addoption(
        "--exhaustive",
        action="store_true",
        help="before a release: every kernel in every variant for every instruction set",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: left out by the quick tier, -m 'not slow'")
    config.addinivalue_line("markers", "exhaustive: only with --exhaustive, before a release")
    config.addinivalue_line("markers", "longest: takes a minute or more, so it is started first")
    if _quick(config) and config.getoption("--hypothesis-profile") is None:
        settings.load_profile("quick")
    if "NNEFC_CACHE" not in os.environ and config.pluginmanager.has_plugin("cacheprovider"):
        # Workers and the programs that tests start share it, and the next run finds it warm.
        os.environ["NNEFC_CACHE"] = str(config.cache.mkdir("kernels"))

    # Processes that compile ahead would compete with the tests.
    os.environ.setdefault("NNEFC_AHEAD", "off")
    # Tests compile thousands of documents, and each expects that the compiler runs.
    os.environ.setdefault("NNEFC_KEEP", "off")
    if "PYTEST_XDIST_WORKER" in os.environ:
        # Every processor has a worker; processes that compile would only compete with them.
        os.environ.setdefault("NNEFC_JOBS", "1")


def _quick(config: pytest.Config) -> bool:
    return config.getoption("markexpr") == "not slow"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The quick tier does not import what it would leave out."""
    return True if _quick(config) and is_slow(collection_path) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nearly all objects that collecting tests makes live as long as the tests."""
    with no_collection():
        return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests come first, so that no worker is left alone with one at the end.

    Those of the first worker come behind tests that wait, whose time the type checker uses.
    """
    for item in items:
        if is_slow(item.path):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("exhaustive") and not item.config.getoption("--exhaustive"):
            item.add_marker(pytest.mark.skip(reason="only with --exhaustive"))
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    # A worker starts with an equal share of consecutive tests, and later takes from others' ends.
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    waiting = [item for item in items if is_waiting(item.path)]
    longest = [item for item in items if item.get_closest_marker("longest")]
    others = [
        item for item in items if not (is_waiting(item.path) or item.get_closest_marker("longest"))
    ]
    share = -(-len(items) // workers)
    items.clear()
    for worker in range(workers):
        first = (waiting if worker == 0 else []) + longest[worker::workers]
        count = max(share - len(first), 0)
        items += first + others[:count]
        del others[:count]
    items += others


def pytest_collection_finish() -> None:
    """Garbage collection leaves out what lives as long as the tests, and is ten times rarer."""
    gc.freeze()
    gc.set_threshold(7000)


class ChoiceFiles:
    """A folder for tuned choices only; kernels stay in the usual cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read_file(self, name: str) -> bytes | None:
        path = self.folder / name
        return path.read_bytes() if path.exists() else None

    def write_file(self, name: str, data: bytes) -> bool:
        (self.folder / name).write_bytes(data)
        return True

    def claim_file(self, name: str) -> Claim | None:
        from nnefc.runtime.cache.claim import claim

        return claim(str(self.folder / f"{name}.lock"))


@pytest.fixture(scope="session")
def exhaustive(request: pytest.FixtureRequest) -> bool:
    """Whether variants are tested that differ little from those of every run."""
    return bool(request.config.getoption("--exhaustive"))


@pytest.fixture(scope="session", autouse=True)
def no_choices_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Isolate tests from the user's tuned choices."""
    from nnefc.runtime.cache import tuning_store

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning_store, "kernel_cache", ChoiceFiles(tmp_path_factory.mktemp("choices")))
        yield


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the choices of one test."""
    from nnefc.runtime.cache import tuning_store

    folder = tmp_path / "kept"
    folder.mkdir()
    monkeypatch.setattr(tuning_store, "kernel_cache", ChoiceFiles(folder))
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of kernels of one test, which has warned of nothing yet."""
    from nnefc.runtime.cache import kernel_cache

    place = tmp_path / "kernels"
    monkeypatch.setenv("NNEFC_CACHE", str(place))
    monkeypatch.delenv("NNEFC_CACHE_LIMIT", raising=False)
    monkeypatch.setattr(kernel_cache, "_complained", False)
    kernel_cache._opened.cache_clear()  # pyright: ignore[reportPrivateUsage]
    return place


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """`disk("64k")`: an empty file system of that size."""
    with ExitStack() as stack:
        yield lambda size: stack.enter_context(mounted(tmp_path / f"disk-{size}", size))


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """`cli("run", path, ...)`: the status and what was printed.

    However slow the machine is, no line tells of kernels that are compiled.
    """
    from nnefc.cli import main
    from nnefc.cli.support import printing

    monkeypatch.setattr(printing, "_COMPILING_SECONDS", 3600.0)

    def call(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["nnefc", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
            sys.exit(0)
        captured = capsys.readouterr()
        code = exit.value.code
        return Result(code if isinstance(code, int) else 0, captured.out, captured.err)

    return call


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A document of three operations, without data."""
    path = tmp_path / "graph.nnef"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with NAME.nnefc, and the document in NAME/, for each of
    `tests.helpers.artifacts.commands.ARTIFACTS`; not to be changed.
    """
    from tests.helpers.artifacts.commands import ARTIFACTS
    from tests.helpers.artifacts.saved import compiled

    folder = tmp_path_factory.mktemp("made")
    for name, document in ARTIFACTS.items():
        (folder / name).mkdir()
        compiled(folder / name, document, threads=1).save(folder / f"{name}.nnefc")
    return folder


@pytest.fixture
def net(made: Path, tmp_path: Path) -> Path:
    """The path of an artifact that the test may change."""
    return Path(shutil.copy(made / "tiny.nnefc", tmp_path / "net.nnefc"))


@pytest.fixture(scope="session")
def folders_for_c() -> dict[str, Emitted]:
    """Emitted C folders by document, shared by all tests."""
    return {}


@pytest.fixture
def emitted(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    folders_for_c: dict[str, Emitted],
) -> Emitted:
    """The folder of a document, made once; tests add files to it."""
    from tests.helpers.artifacts.c_programs import Emitted

    name: str = request.param
    if name not in folders_for_c:
        folders_for_c[name] = Emitted(tmp_path_factory.mktemp("emitted") / name, name)
    return folders_for_c[name]


@pytest.fixture
def keep_models(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store compiled models in the cache `folder`, which only this test uses."""
    monkeypatch.delenv("NNEFC_KEEP", raising=False)


@pytest.fixture
def every_writer_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes to a cache folder checks its limit and removes old files."""
    from nnefc.runtime.cache.lru_folder import LruFolder

    def has_turn(*_: object) -> bool:
        return True

    monkeypatch.setattr(LruFolder, "_has_turn", has_turn)


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The documents that the front end read, in order."""
    from nnefc.frontends import read_model as frontend

    seen: list[Any] = []
    read = frontend.run_front_end

    def run_front_end(source: Any, *options: Any) -> Any:
        seen.append(source)
        return read(source, *options)

    monkeypatch.setattr(frontend, "run_front_end", run_front_end)
    return seen
