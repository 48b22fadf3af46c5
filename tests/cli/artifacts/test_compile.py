"""`nnefc compile -o`: artifacts for one target or several."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nnefc
from nnefc.cli.support.artifacts import complete_targets
from nnefc.kernels.target.isa import TABLE, host
from nnefc.runtime.artifact.artifact_file import open_file
from nnefc.support.errors import NnefError
from tests.helpers.artifacts.commands import ELSEWHERE, inspected, outputs
from tests.helpers.command_line import Cli


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
    for text in (written["digest"], str(net), host().name, "used", "1 launch of 1 kernel"):
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
    assert not any(t["chosen"] for t in json.loads(inspected(cli, net))["artifact"]["targets"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("-o", "net.tgz"), "-o net.nnefc"),
        (("-o", "net"), "end in .nnefc"),
        (("--target", "native"), "--target native needs an artifact"),
        (("-o", "net.nnefc", "--target", "x87"), "unknown instruction set 'x87'"),
        (("-o", "net.nnefc", "--target", "native,"), "unknown instruction set ''"),
        (("-o", "none/net.nnefc"), "the folder does not exist"),
    ],
)
def test_wrong_outputs_are_refused_before_reading(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], says: str
) -> None:
    """The model does not even exist."""
    monkeypatch.chdir(tmp_path)
    result = cli("compile", "net.nnef.tgz", *options)
    assert result.status == 1
    assert says in result.err
    assert "Traceback" not in result.err
    assert list(tmp_path.iterdir()) == []


def test_artifacts_are_written_atomically(
    cli: Cli, made: Path, net: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nnefc.runtime.artifact.artifact_file_writer import Writer

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
    """Kernels that another process compiles are named too."""
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


def test_compile_processes_end_with_the_call(made: Path, tmp_path: Path) -> None:
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
        ("exit 0", "the compiler process ended"),
        ("kill -9 $$", "the compiler process ended"),
        ("head -c 9000 /dev/zero", "the compiler process ended"),
        ("seq 100000 >&2; exit 1", "100000"),
    ],
)
def test_a_failing_compile_process_is_an_error(
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


def test_cross_compiling_compiles_nothing_for_this_processor(
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
        for name in (
            "nnefc.runtime.run.compiled_model.CompiledModel.of",
            "nnefc.driver.targets.build_native",
        ):
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
