"""`nnefc bench`: measurements, comparisons, cold starts."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc import NnefError
from nnefc.cli.bench import machine_load
from nnefc.cli.bench.cold_start import STAGES, cold_start
from nnefc.cli.bench.command import parse_threads
from nnefc.cli.bench.comparison import compare_facts
from nnefc.cli.bench.machine_load import LoadMeter
from nnefc.cli.bench.parallel_calls import run_streams
from nnefc.cli.bench.tables import busy_notes
from nnefc.cli.support.batch import batch_shapes
from nnefc.cli.support.diagnostics import reported_warnings
from nnefc.cli.support.measurements import duration, histogram, percentile, ratio_interval
from nnefc.cli.support.measurements import verdict as judge
from nnefc.kernels.executor.team_state import MAX_WORKERS
from nnefc.runtime.run.team import supports_threads
from nnefc.support.errors import Diagnostic, warn
from tests.helpers.command_line import DIGITS, Cli

QUICK = ("--random-weights", 1, "--duration", 0.05, "--warmup", 0.01, "--no-cold")


@pytest.fixture
def quick(tmp_path: Path) -> Path:
    """A model that compiles quickly."""
    path = tmp_path / "quick.nnef"
    path.write_text(
        "version 1.0;\ngraph g( x ) -> ( y )\n{ x = external(shape = [1, 4]); y = exp(x); }\n"
    )
    return path


def test_times_and_throughput_are_consistent(cli: Cli, small: Path) -> None:
    facts = json.loads(cli("bench", small, *QUICK, "--threads", "1,2,1", "--json").out)
    assert [result["threads"] for result in facts["results"]] in ([1, 2], [1, 1])
    for result in facts["results"]:
        assert result["min_ms"] <= result["median_ms"] <= result["p99_ms"] <= result["max_ms"]
        assert 0 < len(result["samples_ms"]) <= min(result["runs"], 1000)
        calls = 1e3 / result["mean_ms"]
        assert result["seconds"] >= 0.05
        assert result["runs"] / result["seconds"] <= 1.001 * calls
        assert result["min_ms"] <= result["mean_ms"] <= result["max_ms"]
        assert result["median_ms"] <= result["p95_ms"] <= result["p99_ms"]
        assert result["per_second"] == pytest.approx(calls)
        assert result["gflops"] == pytest.approx(2 * 4 * 64 * 27 * calls / 1e9)
    assert facts["arena_bytes"] > 0
    shown = cli("bench", small, *QUICK).out
    for text in ("median", "mean", "GFLOP/s", "(p95)", "arena", "inputs: x random"):
        assert text in shown
    assert "cold start" not in shown


def test_cold_start_is_printed(cli: Cli, quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = dict.fromkeys((*STAGES, "total"), 0.25)
    monkeypatch.setattr("nnefc.cli.bench.cold_start.cold_start", lambda *_, **__: stages)  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
    arguments = ("bench", quick, *QUICK[:-1])
    assert json.loads(cli(*arguments, "--json").out)["cold_start_ms"]["import"] == 250
    assert "cold start 250 ms: start Python 250 ms" in cli(*arguments).out
    monkeypatch.setenv("NNEFC_CACHE", "off")
    assert "no kernel cache" in cli(*arguments).out


def test_cold_start_tells_whether_the_cache_is_used(
    cli: Cli, quick: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = dict.fromkeys((*STAGES, "total"), 0.25)
    monkeypatch.setattr("nnefc.cli.bench.cold_start.cold_start", lambda *_, **__: stages)  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
    arguments = ("bench", quick, *QUICK[:-1])
    monkeypatch.setenv("NNEFC_CACHE", str(tmp_path / "kernels"))
    assert "with kernels from the cache" in cli(*arguments).out
    monkeypatch.setenv("NNEFC_CACHE", str(quick / "below"))  # a file is no folder
    assert "the kernel cache cannot be used" in cli(*arguments).out


def test_wrong_options_are_refused(cli: Cli, small: Path, tmp_path: Path) -> None:
    assert "more than 0 seconds" in cli("bench", small, "--duration", 0).err
    assert "--warmup -1" in cli("bench", small, "--warmup", -1).err
    for wrong in ("0", "1,-2", "two", ""):
        assert "expected positive integers" in cli("bench", small, "--threads", wrong).err
    assert "no such file" in cli("bench", small, "--compare", tmp_path / "none.json").err
    for text in ("", "{}", "[1]", '{"results": [{"samples_ms": []}]}', '{"results": [3]}'):
        (tmp_path / "odd.json").write_text(text)
        refused = cli("bench", small, "--compare", tmp_path / "odd.json")
        assert refused.status == 1
        assert "not the output of nnefc bench --json" in refused.err


def test_numbers_of_threads() -> None:
    assert parse_threads(None) == [None]
    assert parse_threads("2,1,2") == [2, 1]
    with pytest.raises(NnefError):
        parse_threads("1.5")


def test_batch_and_streams(cli: Cli, quick: Path) -> None:
    arguments = (*QUICK, "--batch", 3, "--streams", 2, "--threads", 1, "--json")
    facts = json.loads(cli("bench", quick, *arguments).out)
    (result,) = facts["results"]
    assert facts["batch"] == 3
    assert result["streams"] == 2
    assert result["per_second"] == pytest.approx(3 * result["runs"] / result["seconds"])


def test_inputs_come_from_files(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given inputs are passed to every call; the others are random for each stream."""
    from nnefc.runtime.run.compiled_model import CompiledModel

    path = tmp_path / "graph.nnef"
    path.write_text(
        "version 1.0;\ngraph g( a, b ) -> ( y )\n{\n a = external(shape = [1, 4]);\n"
        " b = external(shape = [1, 4]);\n y = add(a, b);\n}\n"
    )
    given = np.arange(4, dtype=np.float32)[None]
    np.save(tmp_path / "a.npy", given)
    seen: list[tuple[Any, ...]] = []

    def call(_: object, *arrays: Any) -> None:
        seen.append(arrays)

    monkeypatch.setattr(CompiledModel, "__call__", call)
    arguments = (*QUICK, "-i", f"a={tmp_path / 'a.npy'}", "--streams", 2)
    facts = json.loads(cli("bench", path, *arguments, "--json").out)
    assert facts["inputs"] == {"a": "file", "b": "random"}
    assert all((a == given).all() for a, _ in seen)
    assert len({b.tobytes() for _, b in seen}) == 2
    assert "inputs: a from files; b random\n" in cli("bench", path, *arguments).out
    assert "no input named c" in cli("bench", path, "-i", "c=x.npy").err


def test_pictures_are_measured(cli: Cli) -> None:
    image = DIGITS.parent / "images" / "7.png"
    facts = json.loads(cli("bench", DIGITS, *QUICK, "-i", image, "--std", "2", "--json").out)
    assert facts["inputs"] == {"image": "file"}


def test_the_load_of_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processors: 3 s busy of which 1 s is ours, in 4 s."""
    stat = tmp_path / "stat"
    monkeypatch.setattr(machine_load, "_STAT", stat)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 2})  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
    monkeypatch.setattr("os.sysconf", lambda _: 100)  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
    clock = {"monotonic": 10.0, "process_time": 1.0}
    for name in clock:
        monkeypatch.setattr(f"time.{name}", lambda name=name: clock[name])
    line = "cpu{} {} 0 50 1000 20 0 0 {} 7 0\n"
    stat.write_text(line.format("", 9, 9) + line.format(0, 0, 0) + line.format(2, 0, 0) + "ctxt 1")
    meter = LoadMeter.start()
    assert meter.others() is None  # too short to tell
    clock.update(monotonic=14.0, process_time=2.0)
    stat.write_text(line.format(0, 200, 0) + line.format(1, 900, 0) + line.format(2, 60, 40))
    assert meter.others() == pytest.approx(0.5)
    stat.unlink()
    assert meter.others() is None
    assert busy_notes([{"other_load": 0.1}, {"other_load": None}], 2) == []
    (note,) = busy_notes([{"other_load": 0.5}], 2)
    assert note.startswith("other processes used 0.5 of 2 CPUs")


def test_batch_keeps_shapes_of_options(tmp_path: Path) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text(
        "version 1.0;\ngraph g( a, b, c ) -> ( y )\n{\n a = external(shape = [1, 4]);\n"
        " b = external(shape = [1, 4]);\n c = external(shape = []);\n y = add(add(a, b), c);\n}\n"
    )
    assert batch_shapes(str(path), 8, None) == ["a=8,4", "b=8,4"]
    assert batch_shapes(str(path), 8, ["b=1,4"]) == ["b=1,4", "a=8,4"]
    assert batch_shapes(str(path), None, ["b=1,4"]) == ["b=1,4"]
    with pytest.raises(NnefError, match="--batch 8 changes nothing"):
        batch_shapes(str(path), 8, ["b=1,4", "a=1,4"])


def test_too_many_threads(cli: Cli, quick: Path) -> None:
    most = MAX_WORKERS + 1 if supports_threads() else 1
    result = cli("bench", quick, *QUICK, "--threads", 10**8, "--json")
    assert json.loads(result.out)["results"][0]["threads"] == most
    assert f"warning: threads = 100000000: only {most} can be used here" in result.err
    assert "threads" not in cli("bench", quick, *QUICK, "--threads", 1).err


def test_compare_with_an_earlier_measurement(cli: Cli, quick: Path, tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    before.write_text(cli("bench", quick, *QUICK, "--threads", 1, "--json").out)
    arguments = (*QUICK, "--threads", 1, "--compare", before)
    facts = json.loads(cli("bench", quick, *arguments, "--json").out)
    (row,) = facts["comparison"]["rows"]
    assert row["low"] <= row["ratio"] <= row["high"]
    assert facts["comparison"]["notes"] == []
    shown = cli("bench", quick, *arguments, "--batch", 2).out
    assert "compared with" in shown
    assert "batch was 1, is 2" in shown
    assert "no verdict" in shown
    assert not {"faster", "slower", "same"} & set(shown.split())


def measured(threads: int, times: list[float]) -> dict[str, Any]:
    return {
        "threads": threads,
        "streams": 1,
        "median_ms": float(np.median(times)),
        "samples_ms": times,
    }


def test_only_results_in_both_files_are_compared() -> None:
    old = {"model": "m", "results": [measured(1, [4.0] * 9), measured(2, [2.0] * 9)]}
    new = {"model": "./m", "results": [measured(1, [2.0] * 9), measured(4, [1.0] * 9)]}
    found = compare_facts(old, new)
    (row,) = found["rows"]
    assert (row["threads"], row["old_ms"], row["new_ms"], row["ratio"]) == (1, 4, 2, 0.5)
    assert row["verdict"] == "faster"
    assert found["notes"] == [
        "4 threads, 1 stream: not measured earlier",
        "2 threads, 1 stream: not measured now",
    ]


@pytest.mark.parametrize(("what", "before", "now"), [("model", "m", "n"), ("batch", 1, 2)])
def test_different_workloads_get_no_verdict(what: str, before: object, now: object) -> None:
    old, new = ({what: value, "results": [measured(1, [2.0] * 9)]} for value in (before, now))
    found = compare_facts(old, new)
    assert [row["verdict"] for row in found["rows"]] == [None]
    assert found["notes"][0] == f"{what} was {before}, is {now}"
    assert "no verdict" in found["notes"][1]


def test_intervals_hold_the_true_ratio() -> None:
    """Nearly all of many intervals contain the true ratio, even if times drift."""
    generator = np.random.default_rng(5)
    outside = 0
    for _ in range(30):
        drift = 1 + 0.1 * np.sin(np.arange(400) / 7)
        old, new = ((1 + generator.exponential(0.2, 400)) * drift for _ in range(2))
        ratio, low, high = ratio_interval(old.tolist(), (0.9 * new).tolist())
        assert low <= ratio <= high
        outside += not low <= 0.9 <= high
    assert outside <= 2
    assert ratio_interval([1.0], [2.0]) == (2.0, 2.0, 2.0)


def test_a_verdict_needs_a_clear_interval() -> None:
    assert judge(0.8, 0.75, 0.85) == "faster"
    assert judge(1.2, 1.1, 1.3) == "slower"
    assert judge(0.9, 0.7, 1.1) == "same"
    assert judge(0.995, 0.994, 0.996) == "same"


def test_percentiles_are_nearest_ranks_and_durations_have_units() -> None:
    ordered = [float(i) for i in range(1, 101)]
    assert percentile(ordered, 50) == 51
    assert percentile(ordered, 100) == 100
    assert [duration(t) for t in (1.23456e-5, 0.0123, 3.5, 0.9996e-3)] == [
        "12.3 us",
        "12.3 ms",
        "3.5 s",
        "1 ms",
    ]


def test_histograms_scale_with_the_counts() -> None:
    assert histogram([1, 1, 1, 1, 3, 3, 2.1], 4, "utf-8") == "█ ▂▄"
    assert histogram([1, 1, 3, 3], 2, "ascii") == "##"
    assert histogram([5.0], 3, "utf-8") == "█  "


def test_streams_run_concurrently() -> None:
    """Each action has its own thread; otherwise the first run would wait forever."""
    meet = threading.Barrier(2, timeout=10)
    runs = [0, 0]

    def action(i: int) -> None:
        if runs[i] == 0:
            meet.wait()
        runs[i] += 1
        time.sleep(0.001)

    times, elapsed = run_streams([lambda: action(0), lambda: action(1)], 0.0, 0.05)
    assert min(runs) > 1
    assert len(times) == sum(runs) - 2  # each had a run to warm up
    assert elapsed >= 0.05


def test_an_error_in_a_stream_is_raised() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_streams([fail, lambda: time.sleep(0.001)], 0.01, 60)


def test_streams_print_warnings_as_the_command_does(capsys: pytest.CaptureFixture[str]) -> None:
    def action() -> None:
        warn(Diagnostic("internal/cache", "slow", severity="warning"))

    with reported_warnings():
        run_streams([action, lambda: None], 0.0, 0.001)
    assert capsys.readouterr().err == "warning: slow [internal/cache]\n"


def test_a_fresh_process_is_measured(quick: Path) -> None:
    options: dict[str, Any] = {"shapes": {"x": (2, 8)}}
    found = cold_start(
        str(quick), import_options=options, compile_options={"threads": 1}, limits={}
    )
    assert list(found) == [*STAGES, "total"]
    assert min(found.values()) > 0
    assert sum(found[stage] for stage in STAGES) == pytest.approx(found["total"])


def test_a_failing_process_is_an_error() -> None:
    with pytest.raises(NnefError, match="internal/cold-start") as failure:
        cold_start("/nowhere", import_options={}, compile_options={}, limits={})
    assert "/nowhere" in str(failure.value)


def test_no_cold_start_with_states(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "graph.nnef"
    path.write_text(
        "version 1.0;\nextension tract_registry tract_core;\n"
        "extension tract_registry tract_transformers;\nextension tract_symbol S;\n"
        "graph g(x) -> (all) { x = tract_core_external(shape = [1, S, 4], datum_type = 'f32');\n"
        "all = tract_transformers_dyn_kv_cache(x, name = 'kept', axis = 1, datum_type = 'f32'); }\n"
    )
    done = cli("bench", path, "--shape", "x=1,3,4", *QUICK[:-1], "--json")
    assert "cold_start_ms" not in json.loads(done.out)
