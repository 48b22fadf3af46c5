"""Artifacts on the command line: written, run, measured, looked at, refused."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.cli.artifacts import complete_targets
from nnefc.cli.cold_start import ARTIFACT_STAGES, cold_start_of_artifact
from nnefc.errors import NnefError
from nnefc.kernels.isa import TABLE, host
from nnefc.runtime.artifact_file import open_file
from tests.command_line import DIGITS, ROOT, Cli
from tests.saved import COUNTER, LARGE, MIXED, TINY, compiled, write

ELSEWHERE = "x86-64-v3" if host().name == "aarch64" else "aarch64"
"""Instructions that this processor has not."""
DOCUMENTS = {"tiny": TINY, "mixed": MIXED, "counter": COUNTER}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with NAME.nnefc, and the document in NAME/, for each of the documents."""
    folder = tmp_path_factory.mktemp("made")
    for name, document in DOCUMENTS.items():
        (folder / name).mkdir()
        compiled(folder / name, document, threads=1).save(folder / f"{name}.nnefc")
    return folder


@pytest.fixture
def net(made: Path, tmp_path: Path) -> Path:
    """An artifact of one's own."""
    return Path(shutil.copy(made / "tiny.nnefc", tmp_path / "net.nnefc"))


def outputs(cli: Cli, *arguments: object) -> dict[str, Any]:
    """What `nnefc run` computes of random inputs."""
    result = cli("run", *arguments, "--random-inputs", 1, "--threads", 1, "--json")
    assert result.status == 0, result.err
    shown = json.loads(result.out)
    return {name: facts.get("values") or facts["first"] for name, facts in shown.items()}


# -- compile -o


def test_compile_writes_an_artifact(cli: Cli, made: Path, tmp_path: Path) -> None:
    net = tmp_path / "net.nnefc"
    arguments = ("compile", made / "tiny", "--random-weights", 3, "--threads", 1, "-o", net)
    facts = json.loads(cli(*arguments, "--json").out)
    written = facts["artifact"]
    assert written["path"] == str(net)
    assert written["bytes"] == net.stat().st_size
    assert written["digest"] == open_file(net, verify=True).digest
    assert facts["launches"] == 1
    (target,) = written["targets"]
    assert (target["isa"], target["fits"], target["chosen"]) == (host().name, True, True)
    assert net.read_bytes() == (made / "tiny.nnefc").read_bytes()
    shown = cli(*arguments).out
    for text in (written["digest"], str(net), host().name, "taken", "1 launch of 1 kernel"):
        assert text in shown


def test_targets(cli: Cli, made: Path, tmp_path: Path) -> None:
    net = tmp_path / "net.nnefc"
    arguments = ("compile", made / "tiny", "--random-weights", 3, "-o", net, "--json")
    for targets in ((f"native,{ELSEWHERE}",), ("native", ELSEWHERE)):
        options = [word for target in targets for word in ("--target", target)]
        facts = json.loads(cli(*arguments, *options).out)["artifact"]
        here, other = facts["targets"]
        assert (here["isa"], here["fits"], here["chosen"]) == (host().name, True, True)
        assert here["cpu"]
        assert (other["isa"], other["fits"], other["chosen"]) == (ELSEWHERE, False, False)
        assert other["cpu"] == ""
        assert other["obstacle"] == "other instructions"
        assert min(here["code_bytes"], other["code_bytes"]) > 100
    shown = cli("inspect", net).out
    assert "no: other instructions" in shown
    assert " any " in shown
    assert outputs(cli, net) == outputs(cli, made / "tiny", "--random-weights", 3)


def test_without_code_for_this_processor(cli: Cli, made: Path, tmp_path: Path) -> None:
    net = tmp_path / "net.nnefc"
    cli("compile", made / "tiny", "--random-weights", 3, "-o", net, "--target", ELSEWHERE)
    result = cli("run", net, "--random-inputs", 1)
    assert result.status == 0
    assert "warning: there is no code for this processor" in result.err
    assert "[artifact/target]" in result.err
    assert not any(t["chosen"] for t in json.loads(_inspected(cli, net))["artifact"]["targets"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("-o", "net.tgz"), "-o net.nnefc"),
        (("-o", "net"), "ends in .nnefc"),
        (("--target", "native"), "--target native: there is no file"),
        (("-o", "net.nnefc", "--target", "x87"), "no instruction set 'x87'"),
        (("-o", "net.nnefc", "--target", "native,"), "no instruction set ''"),
        (("-o", "none/net.nnefc"), "no such folder"),
    ],
)
def test_what_cannot_be_written_is_said_at_once(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], says: str
) -> None:
    """Before the model is read, which is not even there."""
    monkeypatch.chdir(tmp_path)
    result = cli("compile", "net.nnef.tgz", *options)
    assert result.status == 1
    assert says in result.err
    assert "Traceback" not in result.err
    assert list(tmp_path.iterdir()) == []


def test_an_artifact_is_written_whole_or_not_at_all(
    cli: Cli, made: Path, net: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nnefc.runtime.artifact_file import Writer

    before = net.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Writer, "finish", fail)
    result = cli("compile", made / "mixed", "--random-weights", 3, "-o", net)
    assert result.status == 1
    assert "[data/write]" in result.err
    assert net.read_bytes() == before
    assert list(net.parent.iterdir()) == [net]


@pytest.mark.parametrize("targets", [[ELSEWHERE, "native"], [ELSEWHERE]])
def test_progress_names_the_kernels_of_each_target(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, targets: list[str]
) -> None:
    """Those that another process compiles, too."""
    model = nnefc.compile(made / "tiny", random_weights=3)
    monkeypatch.setenv("NNEFC_CACHE", "off")
    calls: list[tuple[int, int, str]] = []

    def progress(done: int, total: int, label: str) -> None:
        calls.append((done, total, label))

    model.save(tmp_path / "net.nnefc", targets=targets, progress=progress)
    labels = {label: (done, total) for done, total, label in calls}
    prefix = f"{ELSEWHERE} " if len(targets) > 1 else ""
    if prefix:
        done, total, label = calls.pop(0)
        assert (done, label) == (total, "native"), "its kernels were compiled before"
    (_, total) = labels[prefix.rstrip()]
    assert calls[0] == (0, 1, prefix.rstrip())
    assert calls[-1] == (total, total, prefix.rstrip())
    assert [done for done, _, _ in calls[1:]] == list(range(total + 1))
    assert {total for _, total, _ in calls[1:]} == {total}
    assert f"{prefix}nnefc_run_alone" in labels
    assert all(label.startswith(prefix) for _, _, label in calls[1:-1])


def test_a_process_that_compiles_for_others_ends_with_the_call(made: Path, tmp_path: Path) -> None:
    model = nnefc.compile(made / "tiny", random_weights=3)
    processes: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen[bytes].__init__

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    def begin(self: subprocess.Popen[bytes], *given: Any, **options: Any) -> None:
        processes.append(self)
        real(self, *given, **options)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(subprocess.Popen, "__init__", begin)
        model.save(tmp_path / "net.nnefc", targets=[ELSEWHERE], progress=_at_second_call(fail))
    assert [process.returncode for process in processes] == [-signal.SIGKILL]
    assert list(tmp_path.iterdir()) == []


def _at_second_call(do: Callable[[], None]) -> Callable[[int, int, str], None]:
    called: list[str] = []

    def progress(done: int, total: int, label: str) -> None:
        called.append(label)
        if len(called) == 2:
            do()

    return progress


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("echo; echo out of ink >&2; echo >&2; exit 3", "out of ink"),
        ("exit 0", "the process that makes it ended"),
        ("kill -9 $$", "the process that makes it ended"),
        ("head -c 9000 /dev/zero", "the process that makes it ended"),
        ("seq 100000 >&2; exit 1", "100000"),
    ],
)
def test_a_process_that_fails_is_an_error(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, says: str
) -> None:
    model = nnefc.compile(made / "tiny", random_weights=3)
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{program}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(NnefError) as caught:
        model.save(tmp_path / "net.nnefc", targets=[ELSEWHERE])
    (error,) = caught.value.errors
    assert error.rule == "internal/code-generation"
    assert error.message == f"no code for {ELSEWHERE}: {says}"
    assert list(tmp_path.iterdir()) == [python]


def test_nothing_is_compiled_for_this_processor_unasked(
    cli: Cli, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, net = tmp_path / "other.nnefc", tmp_path / "net.nnefc"
    model = nnefc.compile(made / "mixed", random_weights=3, threads=1)
    model.save(other, targets=[ELSEWHERE])
    model.emit_c(tmp_path / "other", target=ELSEWHERE)
    document = ("compile", made / "mixed", "--random-weights", 3, "--threads", 1)
    options = (*document, "--target", ELSEWHERE, "--json")

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("compiled for this processor")

    with monkeypatch.context() as patch:
        for name in ("nnefc.runtime.model.CompiledModel.of", "nnefc.targets.build_here"):
            patch.setattr(name, fail)
        result = cli(*options, "-o", net, "--plan")
        assert cli(*options, "--emit", "c", "-o", tmp_path / "c").status == 0
    assert result.status == 0, result.err
    facts = json.loads(result.out)
    assert net.read_bytes() == other.read_bytes()
    (target,) = facts["artifact"]["targets"]
    for name in ("arena_bytes", "constant_bytes", "launches"):
        assert facts[name] == target[name]
    assert sum(row["times"] for row in facts["plan"]) == facts["launches"]
    for path in (tmp_path / "other").iterdir():
        assert (tmp_path / "c" / path.name).read_bytes() == path.read_bytes()
    explained = json.loads(cli(*options, "-o", net, "--explain").out)
    assert explained["passes"]


def test_targets_are_completed() -> None:
    assert complete_targets("") == ["native", *TABLE]
    assert "x86-64-v3,aarch64" in complete_targets("x86-64-v3,aar")
    assert "x86-64-v3,x86-64-v3" not in complete_targets("x86-64-v3,")


# -- commands that take a model


@pytest.mark.parametrize("name", DOCUMENTS)
def test_run_computes_what_the_document_does(cli: Cli, made: Path, name: str) -> None:
    net = made / f"{name}.nnefc"
    found = outputs(cli, net)
    assert found == outputs(cli, made / name, "--random-weights", 3)
    reference = outputs(cli, net, "--reference")
    assert list(reference) == list(found)
    for output, values in found.items():
        np.testing.assert_allclose(reference[output], values, rtol=1e-4, atol=1e-4)


def test_variables_go_on_where_they_were(cli: Cli, made: Path, tmp_path: Path) -> None:
    net, after, again = made / "counter.nnefc", tmp_path / "after.nnefc", tmp_path / "again.nnefc"
    third = outputs(cli, net, "--steps", 3, "--save", after)
    assert not _changed(cli, net)
    assert _changed(cli, after)
    assert third == outputs(cli, net, "--steps", 3)
    fifth = outputs(cli, after, "--steps", 2, "--save", again)
    assert fifth == outputs(cli, net, "--steps", 5)
    reference = outputs(cli, after, "--steps", 2, "--reference")
    np.testing.assert_allclose(reference["y"], fifth["y"], rtol=1e-6)
    assert outputs(cli, again) == outputs(cli, net, "--steps", 6)
    assert cli("compare", again).status == 0


def test_a_document_can_be_saved_as_an_artifact(cli: Cli, made: Path, tmp_path: Path) -> None:
    document = (made / "counter", "--random-weights", 3)
    outputs(cli, *document, "--steps", 2, "--save", tmp_path / "after.nnefc")
    assert outputs(cli, tmp_path / "after.nnefc") == outputs(cli, *document, "--steps", 3)


def test_an_artifact_is_saved_as_one(cli: Cli, made: Path, tmp_path: Path) -> None:
    result = cli("run", made / "counter.nnefc", "--random-inputs", 1, "--save", tmp_path / "a.tgz")
    assert result.status == 1
    assert f"--save {tmp_path / 'a.nnefc'}" in result.err
    assert list(tmp_path.iterdir()) == []


def test_the_name_does_not_matter(cli: Cli, net: Path) -> None:
    renamed = net.rename(net.with_name("model.bin"))
    assert outputs(cli, renamed)
    assert json.loads(_inspected(cli, renamed))["artifact"]["digest"]


def test_compare(cli: Cli, made: Path) -> None:
    facts = json.loads(cli("compare", made / "mixed.nnefc", "--threads", 1, "--json").out)
    assert facts["first_divergence"] is None
    named = {row["tensor"] for row in facts["tensors"] if row["kind"] == "output"}
    assert named == {"y", "z", "n"}
    assert len(facts["tensors"]) > 10


def test_compare_finds_code_that_is_wrong(
    cli: Cli, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the code in the file that is compared, not what would come of the graph now."""
    from nnefc.runtime.model import CompiledModel

    real = CompiledModel.__call__
    seen: list[str] = []

    def wrong(self: CompiledModel, *arrays: Any, out: Any = None) -> Any:
        seen.append(type(self._origin).__name__)  # pyright: ignore[reportPrivateUsage]
        result = real(self, *arrays, out=out)
        return result + 1 if seen[-1] == "FromArtifact" else result

    monkeypatch.setattr(CompiledModel, "__call__", wrong)
    result = cli("compare", made / "tiny.nnefc", "--json")
    assert result.status == 1
    assert sorted(seen) == ["FromArtifact", "FromGraph"]
    facts = json.loads(result.out)
    assert [row["kind"] for row in facts["tensors"] if row["error"] > 1e-4] == ["output"]


def test_bench(cli: Cli, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = dict.fromkeys((*ARTIFACT_STAGES, "total"), 0.25)
    monkeypatch.setattr("nnefc.cli.cold_start.cold_start_of_artifact", lambda *_: stages)  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
    arguments = ("bench", made / "mixed.nnefc", "--duration", 0.02, "--warmup", 0)
    facts = json.loads(cli(*arguments, "--threads", "1,2", "--json").out)
    assert facts["batch"] == 2
    assert facts["macs"] > 1e6
    assert [result["runs"] > 0 for result in facts["results"]] in ([True, True], [True])
    assert facts["cold_start_ms"]["load"] == 250
    shown = cli(*arguments, "--streams", 2).out
    assert "start Python 250 ms, import 250 ms, load 250 ms, first run 250 ms" in shown
    assert "compile" not in shown


def test_a_fresh_process_loads(made: Path) -> None:
    found = cold_start_of_artifact(str(made / "tiny.nnefc"), 1)
    assert list(found) == [*ARTIFACT_STAGES, "total"]
    assert min(found.values()) > 0
    with pytest.raises(NnefError, match="internal/cold-start"):
        cold_start_of_artifact("/nowhere.nnefc", None)


def test_profile(cli: Cli, made: Path) -> None:
    arguments = ("profile", made / "mixed.nnefc", "--duration", 0.02, "--threads", 1, "--json")
    facts = json.loads(cli(*arguments, "--sort", "order").out)
    model = nnefc.load(made / "mixed.nnefc")
    assert [row["name"] for row in facts["rows"]] == [each.label for each in model.launches]


_ALONE = """
import sys
for heavy in ("numba", "llvmlite", "nnefc.passes", "nnefc.lower"):
    sys.modules[heavy] = None
from nnefc.cli import main
main()
"""


@pytest.mark.parametrize("name", DOCUMENTS)
def test_run_needs_no_compiler(made: Path, tmp_path: Path, name: str) -> None:
    words = [
        "run",
        made / f"{name}.nnefc",
        "--random-inputs",
        "1",
        "--save",
        tmp_path / "after.nnefc",
    ]
    done = subprocess.run(
        [sys.executable, "-c", _ALONE, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "NNEFC_CACHE": "off"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "y " in done.stdout


OPTIONS: dict[str, tuple[object, ...]] = {
    "--shape": ("x=1,4",),
    "--batch": (2,),
    "--random-weights": (1,),
    "--scalar": ("float32",),
    "--accuracy": ("fast",),
    "--limit": ("recursion=10",),
}
"""Values that change nothing, and are refused all the same."""


@pytest.mark.parametrize("command", ["run", "bench", "profile", "compare", "inspect"])
def test_options_that_say_how_to_compile_are_refused(cli: Cli, made: Path, command: str) -> None:
    names = ("--shape", "--limit") if command == "inspect" else tuple(OPTIONS)
    for chosen in (*((name,) for name in names), names):
        words = [word for name in chosen for word in (name, *OPTIONS[name])]
        result = cli(command, made / "tiny.nnefc", *words)
        assert result.status == 1
        assert result.out == ""
        assert "tiny.nnefc: error: this is compiled already: " in result.err
        (listed,) = re.findall(r"already: (.*) cannot apply", result.err)
        assert sorted(listed.split(", ")) == sorted(chosen)


@pytest.mark.parametrize("option", ["--strict", "--tune"])
def test_options_that_there_are_not(cli: Cli, made: Path, option: str) -> None:
    assert cli("run", made / "tiny.nnefc", option).status == 2


@pytest.mark.parametrize(
    "command",
    [
        ("check",),
        ("flatten",),
        ("compile",),
        ("cache", "explain"),
        ("cache", "warm", "--models"),
    ],
)
def test_an_artifact_is_no_document(cli: Cli, made: Path, command: tuple[str, ...]) -> None:
    result = cli(*command, made / "tiny.nnefc")
    assert result.status == 1
    assert "this is an artifact: a compiled model, without its document" in result.err
    assert "hint: nnefc.load opens it; nnefc run" in result.err


def test_python_says_how_to_open_one(made: Path) -> None:
    for take in (nnefc.compile, nnefc.import_model):
        with pytest.raises(NnefError, match=r"nnefc\.load") as caught:
            take(made / "tiny.nnefc")
        assert caught.value.errors[0].rule == "container/format"


# -- inspect


def _inspected(cli: Cli, net: Path, *options: object) -> str:
    result = cli("inspect", net, "--json", *options)
    assert result.status == 0, result.err
    return result.out


def _changed(cli: Cli, net: Path) -> bool:
    (state,) = json.loads(_inspected(cli, net))["artifact"]["states"]
    assert state["name"] == "Sum"
    assert state["shape"] == [1, 2]
    return state["changed"]


def test_inspect(cli: Cli, made: Path) -> None:
    net = made / "mixed.nnefc"
    facts = json.loads(_inspected(cli, net))
    assert facts["name"] == "mixed"
    assert [(t["name"], t["dtype"]) for t in facts["outputs"]] == [
        ("y", "float32"),
        ("z", "float32"),
        ("n", "int32"),
    ]
    assert facts["inputs"] == [{"name": "x", "dtype": "float32", "shape": [2, 3, 24, 24]}]
    assert {"conv", "deconv", "softmax"} <= {row["operation"] for row in facts["operations"]}
    assert facts["parameters"] > 40_000
    artifact = facts["artifact"]
    assert artifact["nnefc"] == nnefc.__version__
    assert artifact["format"] == 1
    assert artifact["bytes"] == net.stat().st_size
    assert 0 < artifact["head_bytes"] < artifact["bytes"] - artifact["weights_bytes"]
    (target,) = artifact["targets"]
    model = nnefc.load(net)
    assert target["arena_bytes"] == model.arena_bytes
    assert target["constant_bytes"] == model.constant_bytes
    assert target["launches"] == sum(launch.times for launch in model.launches)
    assert artifact["states"] == []
    shown = cli("inspect", net).out
    for text in ("name    mixed", artifact["digest"], "argmax_reduce", "taken", "MACs"):
        assert text in shown


@pytest.mark.parametrize("name", DOCUMENTS)
def test_inspect_reads_weights_only_to_show_them(
    cli: Cli, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from nnefc.runtime.artifact_read import Artifact

    net = made / f"{name}.nnefc"
    whole = json.loads(_inspected(cli, net, "--weights"))
    assert "mean" in whole.pop("variables")[0]

    def fail(*_: object) -> None:
        raise AssertionError("weights are read")

    monkeypatch.setattr(Artifact, "array", fail)
    assert json.loads(_inspected(cli, net)) == whole
    for option in ("--svg", "--html"):
        path = tmp_path / f"net.{option[2:]}"
        assert cli("inspect", net, option, path).status == 0
        assert path.stat().st_size > 500


def test_inspect_shows_weights_and_pictures(cli: Cli, made: Path, tmp_path: Path) -> None:
    facts = json.loads(_inspected(cli, made / "counter.nnefc", "--weights"))
    whole = json.loads(cli("compile", made / "counter", "--random-weights", 3, "--json").out)
    assert sum(row["bytes"] for row in facts["variables"]) == whole["parameter_bytes"]
    assert {row["name"] for row in facts["variables"]} == {"Sum", "scale"}
    assert all("mean" in row for row in facts["variables"])
    assert cli("inspect", made / "mixed.nnefc", "--html", tmp_path / "net.html").status == 0
    assert "argmax_reduce" in (tmp_path / "net.html").read_text()


def test_inspect_does_not_run_code(cli: Cli, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nnefc.runtime.code import Code

    def fail(*_: object) -> None:
        raise AssertionError("code is mapped to be executed")

    monkeypatch.setattr(Code, "__init__", fail)
    _inspected(cli, made / "mixed.nnefc", "--weights", "--verify")


def test_inspect_compares_checksums_when_asked(cli: Cli, tmp_path: Path) -> None:
    net = tmp_path / "net.nnefc"
    compiled(tmp_path, LARGE).save(net)
    digest = open_file(net).digest
    assert "all checksums are right" in cli("inspect", net, "--verify").out
    assert "checksums" not in cli("inspect", net).out
    facts = json.loads(_inspected(cli, net, "--digest", digest.upper()))["artifact"]
    assert (facts["digest"], facts["verified"]) == (digest, True)
    other = cli("inspect", net, "--digest", digest[::-1])
    assert other.status == 1
    assert "[artifact/digest]" in other.err
    data = bytearray(net.read_bytes())
    data[4096 + 12345] ^= 1
    net.write_bytes(data)
    assert cli("inspect", net).status == 0
    for options in (["--verify"], ["--digest", digest]):
        result = cli("inspect", net, *options)
        assert result.status == 1
        assert "the checksum of the weights is wrong [artifact/damaged]" in result.err


def test_documents_have_no_checksums(cli: Cli, small: Path) -> None:
    for options in (["--verify"], ["--digest", "00"]):
        result = cli("inspect", small, *options)
        assert result.status == 1
        assert "is no artifact" in result.err


# -- what is none


TAKING = ["run", "bench", "profile", "compare", "inspect"]


@pytest.mark.parametrize("command", TAKING)
def test_files_that_are_damaged_or_none(cli: Cli, net: Path, command: str) -> None:
    whole = net.read_bytes()
    for place in (0, 17, 30, 50, 90, 5000, len(whole) - 3000, len(whole) - 5):
        net.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        _refused(cli, command, net)
    for length in (0, 1, 16, 111, 112, 4096, len(whole) - 1):
        net.write_bytes(whole[:length])
        _refused(cli, command, net)
    for content in (b"version 1.0;\n", DIGITS.read_bytes(), os.urandom(10000), whole + b"\0"):
        net.write_bytes(content)
        _refused(cli, command, net)


@pytest.mark.parametrize("command", TAKING)
def test_files_that_are_not_there(cli: Cli, tmp_path: Path, command: str) -> None:
    assert "there is no such file" in _refused(cli, command, tmp_path / "none.nnefc")
    (tmp_path / "empty.nnefc").mkdir()
    assert "graph.nnef" in _refused(cli, command, tmp_path / "empty.nnefc")
    (tmp_path / "loop.nnefc").symlink_to(tmp_path / "loop.nnefc")
    _refused(cli, command, tmp_path / "loop.nnefc")
    os.mkfifo(tmp_path / "pipe.nnefc")
    _refused(cli, command, tmp_path / "pipe.nnefc")


def _refused(cli: Cli, command: str, path: Path) -> str:
    result = cli(command, path)
    assert result.status == 1
    assert result.out == ""
    assert re.search(rf"^{re.escape(str(path))}: error: .* \[\w+/\w+\]$", result.err, re.M)
    assert "Traceback" not in result.err
    return result.err


def test_a_folder_may_be_called_like_one(cli: Cli, made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "net.nnefc"
    folder.mkdir()
    write(folder, TINY)
    assert outputs(cli, folder, "--random-weights", 3) == outputs(cli, made / "tiny.nnefc")


# -- documentation


def test_the_commands_of_the_page_work(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "artifacts.md").read_text()
    commands = [line for line in page.splitlines() if line.startswith("nnefc ")]
    assert len(commands) >= 3
    monkeypatch.chdir(tmp_path)
    shutil.copy(DIGITS, "net.nnef.tgz")
    np.save("input.npy", np.zeros(nnefc.compile(DIGITS).inputs[0].shape, np.float32))
    for line in commands:
        result = cli(*shlex.split(line, comments=True)[1:])
        assert result.status == 0, (line, result.err)
