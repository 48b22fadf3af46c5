"""Models that were compiled before: found again if nothing changed, as good as compiled anew."""

from __future__ import annotations

import os
import pickle
import shutil
import tarfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import kept
from nnefc.errors import NnefError, NnefWarning
from nnefc.formats.artifact import MAGIC
from nnefc.frontends import nnef as frontend
from nnefc.frontends.nnef import custom
from nnefc.runtime.artifact_file import open_file
from nnefc.runtime.team import usable_cpus
from tests.command_line import Cli
from tests.disks import largest_file
from tests.saved import COUNTER, LARGE, MIXED, TRANSFORMED, results, same, write

Compile = Callable[..., nnefc.CompiledModel]

WARNED = """\
version 1.0;
graph warned( x ) -> ( y )
{
    x = external(shape = [1, 4, 8, 8]);
    y = max_pool(x, size = [1, 1, 2, 2], border = 'ignore');
}
"""


CUSTOM = """\
version 1.0;
extension KHR_enable_fragment_definitions;
fragment scaled( x: tensor<scalar> ) -> ( y: tensor<scalar> );
graph custom( x ) -> ( y )
{
    x = external(shape = [1, 8]);
    y = scaled(x);
}
"""


@pytest.fixture(autouse=True)
def keep_small_models(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own for each test, which keeps documents of any size."""
    monkeypatch.setattr(kept, "LEAST_BYTES", 0)


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The documents that were read, one after the other."""
    seen: list[Any] = []
    read = frontend.import_model

    def import_model(source: Any, **options: Any) -> Any:
        seen.append(source)
        return read(source, **options)

    monkeypatch.setattr(frontend, "import_model", import_model)
    return seen


def archive(folder: Path, document: str = MIXED, seed: int = 3) -> Path:
    """An archive with data."""
    place = folder / "document"
    place.mkdir(exist_ok=True)
    path = folder / "net.nnef.tgz"
    graph = nnefc.import_model(write(place, document), random_weights=seed)
    nnefc.save_archive(path, graph, overwrite=True)
    return path


def entries(folder: Path) -> list[Path]:
    """The files of models; there are those of weights too, which some of them have made."""
    files = (folder / "weights").glob("*.weights")
    return sorted(file for file in files if file.read_bytes().startswith(MAGIC))


@pytest.mark.parametrize("document", [MIXED, COUNTER, TRANSFORMED])
@pytest.mark.parametrize("as_folder", [False, True])
def test_what_is_found_is_what_was_compiled(
    tmp_path: Path, imported: list[Any], document: str, as_folder: bool
) -> None:
    source = archive(tmp_path, document)
    if as_folder:
        with tarfile.open(source) as tar:
            tar.extractall(tmp_path / "unpacked", filter="data")
        source = tmp_path / "unpacked"
    imported.clear()
    anew = nnefc.compile(source, threads=1, keep=False)
    assert len(imported) == 1
    first, second = (nnefc.compile(source, threads=1) for _ in range(2))
    assert len(imported) == 2
    for model in (first, second):
        assert model.inputs == anew.inputs
        assert model.outputs == anew.outputs
        assert model.launches == anew.launches
        for seed in range(2):
            same(results(model, seed), results(anew, seed))
        anew.reset()
        assert list(model.variables) == list(anew.variables)
        for label, value in anew.variables.items():
            model.reset()
            np.testing.assert_array_equal(model.variables[label], value)
        assert nnefc.ir.print_graph(model.graph) == nnefc.ir.print_graph(anew.graph)


def test_states_begin_with_their_first_values(tmp_path: Path) -> None:
    source = archive(tmp_path, COUNTER)
    first = nnefc.compile(source)
    start = first.variables["Sum"]
    results(first)
    first.variables["Sum"] = start + 7
    np.testing.assert_array_equal(nnefc.compile(source).variables["Sum"], start)


@pytest.mark.parametrize(
    "options",
    [
        {"threads": 1},
        {"accuracy": "strict"},
        {"scalar": "float64"},
        {"integer": "int64"},
        {"shapes": {"x": (2, 3, 26, 24)}},
        {"shapes": {"x": np.array([2, 3, 28, 24])}},
        {"random_weights": 8},
        {"quantize": False},
        {"strict": True},
        {"tuned": False},
        {"limits": nnefc.Limits(errors=7)},
    ],
    ids=lambda options: next(iter(options)),
)
def test_how_it_is_compiled_makes_a_difference(
    tmp_path: Path, imported: list[Any], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nnefc import api

    tuned = {"conv": "direct"} if "tuned" in options else {}

    def methods(given: dict[str, str] | None, *_: object) -> dict[str, str]:
        return tuned if given is None else given

    monkeypatch.setattr(api, "_methods", methods)
    compile_: Compile = nnefc.compile
    source = archive(tmp_path)
    compile_(source, threads=2)
    imported.clear()
    for _ in range(2):
        compile_(source, **{"threads": 2, **options})
        assert len(imported) == 1


def test_another_document_makes_a_difference(tmp_path: Path, imported: list[Any]) -> None:
    source = archive(tmp_path)
    before = results(nnefc.compile(source))
    status = source.stat()
    imported.clear()
    os.utime(source)
    same(results(nnefc.compile(source)), before)
    assert not imported
    archive(tmp_path, seed=4)
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    imported.clear()
    after = results(nnefc.compile(source))
    assert len(imported) == 1
    assert not np.array_equal(after[0], before[0])


def test_a_document_that_changes_meanwhile_is_not_kept(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    other, source = archive(tmp_path / "other", seed=4), archive(tmp_path)
    read = frontend.import_model

    def import_model(path: Any, **options: Any) -> Any:
        shutil.copy(other, source)
        return read(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(frontend, "import_model", import_model)
        found = nnefc.compile(source)
    assert not entries(folder)
    same(results(found), results(nnefc.compile(source)))


@pytest.mark.parametrize("change", ["nnefc", "machine", "threads", "kernels", "plans"])
def test_versions_and_machine_make_a_difference(
    tmp_path: Path, imported: list[Any], change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nnefc.runtime import cache_key, machine, native
    from nnefc.runtime.cache_key import Surroundings

    source = archive(tmp_path)
    nnefc.compile(source)
    imported.clear()
    kept._surroundings.cache_clear()  # pyright: ignore[reportPrivateUsage]
    if change == "nnefc":
        monkeypatch.setattr(kept, "_SOURCES", [("a.py", 1, 2)])
    elif change == "machine":
        monkeypatch.setattr(machine, "largest_cache", lambda: 12345)
    elif change == "kernels":  # processor, instruction set, numba, LLVM, Python

        def others(*_: object) -> Surroundings:
            return Surroundings({}, b"other")

        monkeypatch.setattr(cache_key, "surroundings_of", others)
    elif change == "plans":
        monkeypatch.setattr(native, "interface", lambda: "other")
    else:
        from nnefc.runtime import team

        monkeypatch.setattr(team, "usable_cpus", lambda: 5)
    nnefc.compile(source)
    kept._surroundings.cache_clear()  # pyright: ignore[reportPrivateUsage]
    assert len(imported) == 1


def test_the_sources_are_those_of_a_folder(tmp_path: Path) -> None:
    sources = kept._sources  # pyright: ignore[reportPrivateUsage]
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a.py").write_text("1")
    before = sources(tmp_path)
    (tmp_path / "notes.txt").write_text("1")
    assert sources(tmp_path) == before
    (tmp_path / "below" / "a.py").write_text("12")
    assert sources(tmp_path) != before
    own = {Path(name).name for name, _, _ in kept._SOURCES}  # pyright: ignore[reportPrivateUsage]
    assert {"kept.py", "tile.py", "fold_affine.py", "plan.py"} < own


def test_a_folder_that_changes_while_kernels_compile_is_not_kept(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(archive(tmp_path, LARGE)) as tar:
        tar.extractall(tmp_path / "unpacked", filter="data")
    file = tmp_path / "unpacked" / "w.dat"
    make = kept.new_content

    def new_content(*arguments: Any) -> Any:
        content = make(*arguments)
        with file.open("r+b") as data:
            data.seek(2000)
            data.write(b"abcd")
        return content

    monkeypatch.setattr(kept, "new_content", new_content)
    with pytest.raises(NnefError, match="written to since it was read"):
        nnefc.compile(tmp_path / "unpacked")
    assert not entries(folder)


def test_what_is_no_part_of_a_folder_makes_no_difference(
    tmp_path: Path, imported: list[Any]
) -> None:
    with tarfile.open(archive(tmp_path)) as tar:
        tar.extractall(tmp_path / "unpacked", filter="data")
    nnefc.compile(tmp_path / "unpacked")
    imported.clear()
    (tmp_path / "unpacked" / "log.txt").write_text("began")
    nnefc.compile(tmp_path / "unpacked")
    assert not imported
    (tmp_path / "unpacked" / "more.dat").write_text("a tensor, perhaps")
    nnefc.compile(tmp_path / "unpacked")
    assert imported


def test_the_path_as_it_was_given_makes_a_difference(
    tmp_path: Path, imported: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = archive(tmp_path)
    nnefc.compile(source)
    monkeypatch.chdir(tmp_path)
    imported.clear()
    nnefc.compile(source.name)
    assert imported == [source.name]
    model = nnefc.compile(source.name)
    monkeypatch.chdir("/")
    assert len(model.graph.inputs) == 1


def test_shapes_may_be_arrays(tmp_path: Path, imported: list[Any]) -> None:
    compile_: Compile = nnefc.compile
    source = archive(tmp_path)
    imported.clear()
    for _ in range(2):
        model = compile_(source, shapes={"x": np.array([2, 3, 26, 24])})
        assert model.inputs[0].shape == (2, 3, 26, 24)
    assert len(imported) == 1


def test_weights_that_are_found_to_be_damaged_go(tmp_path: Path, folder: Path) -> None:
    source = archive(tmp_path, TRANSFORMED)
    expected = results(nnefc.compile(source))
    (entry,) = entries(folder)
    for file in set((folder / "weights").iterdir()) - {entry}:
        file.unlink()
    with entry.open("r+b") as file:
        file.seek(100_000)
        byte = file.read(1)
        file.seek(100_000)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(NnefError, match="checksum of the weights"):
        results(nnefc.compile(source))
    same(results(nnefc.compile(source)), expected)


@pytest.mark.parametrize("where", [0.0, 0.01, 0.9, 1.0])
@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_a_damaged_entry_is_none(tmp_path: Path, folder: Path, where: float, damage: str) -> None:
    source = archive(tmp_path)
    before = results(nnefc.compile(source))
    (entry,) = entries(folder)
    data = bytearray(entry.read_bytes())
    assert len(data) > 100_000
    at = min(int(where * len(data)), len(data) - 1)
    if damage == "flip":
        data[at] ^= 1
    else:
        del data[at:]
    entry.unlink()
    entry.write_bytes(data)
    entry.chmod(0o600)
    same(results(nnefc.compile(source)), before)
    assert entries(folder) == [entry]
    assert kept.is_whole(_mapped(entry), entry.stem)


def _mapped(path: Path) -> Any:
    import mmap

    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def test_an_entry_under_another_name_is_none(tmp_path: Path, folder: Path) -> None:
    source = archive(tmp_path)
    nnefc.compile(source, threads=1)
    (first,) = entries(folder)
    archive(tmp_path, seed=4)
    expected = results(nnefc.compile(source, threads=1))
    (second,) = set(entries(folder)) - {first}
    shutil.copy(first, second)
    same(results(nnefc.compile(source, threads=1)), expected)


def test_warnings_are_given_again(tmp_path: Path) -> None:
    place = tmp_path / "document"
    place.mkdir()
    write(place, WARNED)
    given: list[str] = []
    for _ in range(2):
        with pytest.warns(NnefWarning) as caught:
            nnefc.compile(place)
        (warning,) = caught
        assert warning.filename == __file__
        given.append(str(warning.message))
    assert "border = 'ignore'" in given[0]
    assert given[0] == given[1]
    for _ in range(2):
        with pytest.raises(NnefError, match="border"):
            nnefc.compile(place, strict=True)


def test_errors_are_those_of_compiling(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "graph.nnef").write_text("version 1.0; graph g( x ) -> ( y ) { y = nothing(x); }")
    for source in (tmp_path, tmp_path / "absent.tgz", "\0", 5, None):
        messages: list[str] = []
        for keep in (True, False):
            with pytest.raises(NnefError) as error:
                nnefc.compile(source, keep=keep)  # pyright: ignore[reportArgumentType]
            messages.append(str(error.value))
        assert messages[0] == messages[1]
    with pytest.raises(NnefError, match="keep"):
        nnefc.compile(tmp_path, keep="yes")  # pyright: ignore[reportArgumentType]
    assert not entries(folder)


def test_what_is_not_kept(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = archive(tmp_path)
    nnefc.compile(source, keep=False)
    nnefc.compile(tmp_path / "document" / "graph.nnef", random_weights=3)
    nnefc.compile(nnefc.import_model(source))
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "graph.nnef").symlink_to(tmp_path / "document" / "graph.nnef")
    nnefc.compile(tmp_path / "linked", random_weights=3)
    monkeypatch.setenv("NNEFC_VERIFY", "1")
    nnefc.compile(source)
    monkeypatch.delenv("NNEFC_VERIFY")
    monkeypatch.setattr(kept, "LEAST_BYTES", 10**7)
    nnefc.compile(source)
    monkeypatch.setattr(kept, "LEAST_BYTES", 0)
    monkeypatch.setenv("NNEFC_CACHE_LIMIT", "1 kB")
    nnefc.compile(source)
    assert not entries(folder)
    monkeypatch.setenv("NNEFC_CACHE", "off")
    nnefc.compile(source)


def test_operations_of_the_user_are_not_kept(tmp_path: Path, folder: Path) -> None:
    place = tmp_path / "document"
    place.mkdir()
    write(place, CUSTOM)
    for factor in (2.0, 3.0):

        @nnefc.operation(
            "fragment scaled( x: tensor<scalar> ) -> ( y: tensor<scalar> )", replace=True
        )
        def _(emit: Any, op: Any, factor: float = factor) -> Any:
            return emit("mul", op.inputs[0], factor)

        try:
            model = nnefc.compile(place)
        finally:
            custom.unregister("scaled")
        np.testing.assert_array_equal(model(np.ones((1, 8), np.float32)), factor)
    assert not entries(folder)


def test_no_room(tmp_path: Path, folder: Path) -> None:
    source = archive(tmp_path)
    expected = results(nnefc.compile(source, keep=False))
    with largest_file(40_000):
        model = nnefc.compile(source)
    same(results(model), expected)
    assert not list((folder / "weights").iterdir())


def test_the_graph_is_that_of_the_document(tmp_path: Path) -> None:
    source = archive(tmp_path)
    nnefc.compile(source)
    models = [nnefc.compile(source) for _ in range(3)]
    expected = nnefc.ir.print_graph(nnefc.import_model(source))
    os.utime(source)
    assert nnefc.ir.print_graph(models[0].graph) == expected
    archive(tmp_path, seed=9)
    with pytest.raises(NnefError, match="as it was when the model was compiled"):
        print(models[1].graph)
    source.unlink()
    with pytest.raises(NnefError, match="as it was when the model was compiled"):
        print(models[2].graph)
    assert nnefc.ir.print_graph(models[0].graph) == expected
    results(models[2])


def test_saved_pickled_and_built_again(tmp_path: Path) -> None:
    source = archive(tmp_path)
    expected = results(nnefc.compile(source, keep=False, threads=1))
    nnefc.compile(source, threads=1)
    model = nnefc.compile(source, threads=1)
    source.unlink()
    model.save(tmp_path / "net.nnefc")
    assert open_file(tmp_path / "net.nnefc").content["options"] == {"accuracy": "fast"}
    same(results(nnefc.load(tmp_path / "net.nnefc", threads=1)), expected)
    model.save(tmp_path / "both.nnefc", targets=["native", "x86-64-v2"])
    same(results(nnefc.load(tmp_path / "both.nnefc", threads=1)), expected)
    same(results(pickle.loads(pickle.dumps(model))), expected)


@pytest.mark.parametrize("options", [{}, {"tuned": False, "threads": 1}])
def test_it_is_saved_as_it_was_compiled(
    tmp_path: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nnefc import targets

    compile_: Compile = nnefc.compile
    build, how = targets.build_here, list[Any]()

    def build_here(*arguments: Any) -> Any:
        how.append(arguments[2])
        return build(*arguments)

    source = archive(tmp_path)
    compile_(source, **options)
    models = compile_(source, **options), compile_(source, **options, keep=False)
    monkeypatch.setattr(targets, "build_here", build_here)
    for model in models:
        model.save(tmp_path / "net.nnefc", targets=["native"])
    assert how[0].methods == how[1].methods
    assert how[0].threads in (how[1].threads, usable_cpus())


def test_entries_have_at_most_their_share(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "document"
    place.mkdir()
    write(place, LARGE)
    monkeypatch.setenv("NNEFC_CACHE_LIMIT", "8MB")
    nnefc.compile(place, random_weights=3)
    assert not entries(folder)


def test_progress(tmp_path: Path) -> None:
    source = archive(tmp_path)
    steps: list[tuple[int, int]] = []
    nnefc.compile(source, progress=lambda done, total, _: steps.append((done, total)))
    assert steps[-1][0] == steps[-1][1] > 3


def test_the_command_line_knows_them(tmp_path: Path, folder: Path, cli: Cli) -> None:
    nnefc.compile(archive(tmp_path))
    (entry,) = entries(folder)
    assert cli("cache", "verify").status == 0
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 1
    entry.write_bytes(data)
    assert cli("cache", "verify").status == 1
    assert entry.stem in cli("cache", "list", "--json").out
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cli("cache", "clear").status == 0
    assert not entries(folder)


def test_a_cache_that_goes_while_a_model_is_compiled_keeps_nothing(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = archive(tmp_path, COUNTER)
    expected = results(nnefc.compile(source, keep=False))
    real = kept.new_content

    def content(*given: Any) -> Any:
        made = real(*given)
        shutil.rmtree(folder)
        folder.write_text("a file")
        return made

    monkeypatch.setattr(kept, "new_content", content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(results(nnefc.compile(source)), expected)
    assert folder.read_text() == "a file"
