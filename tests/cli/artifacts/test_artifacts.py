"""`run`, `compare`, `bench` and `profile` with artifacts."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.cli.bench.cold_start import ARTIFACT_STAGES, cold_start_of_artifact
from nnefc.support.errors import NnefError
from tests.helpers.artifacts.commands import ARTIFACTS, inspected, outputs
from tests.helpers.command_line import DIGITS, ROOT, Cli


@pytest.mark.parametrize("name", ARTIFACTS)
def test_run_computes_what_the_document_does(cli: Cli, made: Path, name: str) -> None:
    net = made / f"{name}.nnefc"
    found = outputs(cli, net)
    assert found == outputs(cli, made / name, "--random-weights", 3)
    reference = outputs(cli, net, "--reference")
    assert list(reference) == list(found)
    for output, values in found.items():
        np.testing.assert_allclose(reference[output], values, rtol=1e-4, atol=1e-4)


def test_saved_variables_continue(cli: Cli, made: Path, tmp_path: Path) -> None:
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


def test_an_artifact_is_saved_as_an_artifact(cli: Cli, made: Path, tmp_path: Path) -> None:
    result = cli("run", made / "counter.nnefc", "--random-inputs", 1, "--save", tmp_path / "a.tgz")
    assert result.status == 1
    assert f"--save {tmp_path / 'a.nnefc'}" in result.err
    assert list(tmp_path.iterdir()) == []


def test_artifacts_are_recognised_by_content(cli: Cli, net: Path) -> None:
    renamed = net.rename(net.with_name("model.bin"))
    assert outputs(cli, renamed)
    assert json.loads(inspected(cli, renamed))["artifact"]["digest"]


def test_compare_accepts_artifacts(cli: Cli, made: Path) -> None:
    facts = json.loads(cli("compare", made / "mixed.nnefc", "--threads", 1, "--json").out)
    assert facts["first_divergence"] is None
    named = {row["tensor"] for row in facts["tensors"] if row["kind"] == "output"}
    assert named == {"y", "z", "n"}
    assert len(facts["tensors"]) > 10


def test_compare_detects_wrong_code(
    cli: Cli, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code in the file is compared, not newly compiled code of its graph."""
    from nnefc.runtime.run.compiled_model import CompiledModel

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


def test_bench_accepts_artifacts(cli: Cli, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = dict.fromkeys((*ARTIFACT_STAGES, "total"), 0.25)
    monkeypatch.setattr("nnefc.cli.bench.cold_start.cold_start_of_artifact", lambda *_: stages)  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
    arguments = ("bench", made / "mixed.nnefc", "--duration", 0.02, "--warmup", 0)
    facts = json.loads(cli(*arguments, "--threads", "1,2", "--json").out)
    assert facts["batch"] == 2
    assert facts["macs"] > 1e6
    assert [result["runs"] > 0 for result in facts["results"]] in ([True, True], [True])
    assert facts["cold_start_ms"]["load"] == 250
    shown = cli(*arguments, "--streams", 2).out
    assert "start Python 250 ms, import 250 ms, load 250 ms, first run 250 ms" in shown
    assert "compile" not in shown


def test_cold_starts_of_artifacts_are_measured(made: Path) -> None:
    found = cold_start_of_artifact(str(made / "tiny.nnefc"), 1)
    assert list(found) == [*ARTIFACT_STAGES, "total"]
    assert min(found.values()) > 0
    with pytest.raises(NnefError, match="internal/cold-start"):
        cold_start_of_artifact("/nowhere.nnefc", None)


def test_profile_accepts_artifacts(cli: Cli, made: Path) -> None:
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


@pytest.mark.parametrize("name", ARTIFACTS)
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
    "--precision": ("float32",),
    "--limit": ("recursion=10",),
}
"""Values that would change nothing are refused too."""


@pytest.mark.parametrize("command", ["run", "bench", "profile", "compare", "inspect"])
def test_compile_options_are_refused_for_artifacts(cli: Cli, made: Path, command: str) -> None:
    names = ("--shape", "--limit") if command == "inspect" else tuple(OPTIONS)
    for chosen in (*((name,) for name in names), names):
        words = [word for name in chosen for word in (name, *OPTIONS[name])]
        result = cli(command, made / "tiny.nnefc", *words)
        assert result.status == 1
        assert result.out == ""
        assert "tiny.nnefc: error: an artifact is compiled already: " in result.err
        (listed,) = re.findall(r"already: (.*) cannot apply", result.err)
        assert sorted(listed.split(", ")) == sorted(chosen)
        for name in chosen:
            assert " ".join(map(str, (name, *OPTIONS[name]))) in result.err


def test_the_hint_repeats_all_compile_options(cli: Cli, made: Path) -> None:
    result = cli("bench", made / "tiny.nnefc", "-b", "4", "-s", "x y=1", "-s", "z=2,3")
    assert (
        "hint: compile the document with them: nnefc compile MODEL --batch 4 --shape 'x y=1' "
        "--shape z=2,3 -o tiny.nnefc" in result.err
    )


@pytest.mark.parametrize("option", ["--strict", "--tune"])
def test_unknown_options_are_refused(cli: Cli, made: Path, option: str) -> None:
    assert cli("run", made / "tiny.nnefc", option).status == 2


@pytest.mark.parametrize(
    "command",
    [
        ("check",),
        ("flatten",),
        ("compile",),
        ("cache", "explain"),
        ("cache", "warm"),
    ],
)
def test_commands_that_need_a_document_refuse_artifacts(
    cli: Cli, made: Path, command: tuple[str, ...]
) -> None:
    result = cli(*command, made / "tiny.nnefc")
    assert result.status == 1
    assert "this is an artifact, a compiled model" in result.err
    assert "hint: open it with nnefc.load, or nnefc run" in result.err


def test_functions_that_need_a_document_refuse_artifacts(made: Path) -> None:
    for take in (nnefc.compile, nnefc.import_model):
        with pytest.raises(NnefError, match=r"nnefc\.load") as caught:
            take(made / "tiny.nnefc")
        assert caught.value.errors[0].rule == "container/format"


def _changed(cli: Cli, net: Path) -> bool:
    (state,) = json.loads(inspected(cli, net))["artifact"]["states"]
    assert state["name"] == "Sum"
    assert state["shape"] == [1, 2]
    return state["changed"]


# -- documentation


ENCODER = """\
version 1.0;
extension tract_registry tract_core;
extension tract_symbol S;
graph encoder(tokens) -> (y)
{
    tokens = tract_core_external(shape = [1, S], datum_type = 'i64');
    y = tract_core_cast(tokens, to = 'f32');
}
"""


def test_the_commands_of_the_documentation_work(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "artifacts.md").read_text()
    commands = [line for line in page.splitlines() if line.startswith("nnefc ")]
    assert len(commands) >= 3
    monkeypatch.chdir(tmp_path)
    shutil.copy(DIGITS, "net.nnef.tgz")
    np.save("input.npy", np.zeros(nnefc.compile(DIGITS).inputs[0].shape, np.float32))
    Path("encoder.nnef.tgz").mkdir()
    Path("encoder.nnef.tgz/graph.nnef").write_text(ENCODER)
    np.save("tokens.npy", np.zeros((1, 9), np.int64))
    for line in commands:
        result = cli(*shlex.split(line, comments=True)[1:])
        assert result.status == 0, (line, result.err)
