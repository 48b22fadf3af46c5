"""`nnefc profile`: table, JSON, trace, picture."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnefc.cli.profile.icicle import colour, draw
from nnefc.cli.profile.rows import GroupBy, Row, SortBy, arrange, launch_rows
from nnefc.cli.profile.trace_events import trace_text
from nnefc.program.program import LaunchWork
from nnefc.runtime.machine.roofline import Roofline
from nnefc.runtime.plan.launch_info import LaunchInfo
from nnefc.runtime.run.profile import Profile
from tests.helpers.command_line import Cli

QUICK = ("--duration", 0.02, "--threads", 1)
SVG = "{http://www.w3.org/2000/svg}"

LAUNCHES = [
    LaunchInfo("conv %a", "convolution_gemm_12ab", 3, LaunchWork(3000, 100, 20)),
    LaunchInfo("relu %b", "elementwise_expression_34cd", 1, LaunchWork(10, 40, 40)),
]
FOUND = Profile(
    step_of=np.array([0, 0, 0, 1]),
    launch_of_step=np.array([0, 1]),
    threads=2,
    start=np.array([[1000, 1100, 1200, 1500]] * 3),
    end=np.array([[1100, 1300, 1400, 1600]] * 3),
    thread=np.array([[0, 1, 0, 1]] * 3),
    earlier=np.zeros((3, 4), np.int64),
    count=np.ones((3, 4), np.int64),
)
ONE = Roofline(threads=1, fma_gflops=8.0, read_gbps=4.0, copy_gbps=6.0)
TWO = Roofline(threads=2, fma_gflops=15.0, read_gbps=5.0, copy_gbps=7.0)


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """Three launches whose kernels compile quickly."""
    path = tmp_path / "graph.nnef"
    path.write_text(
        "version 1.0;\ngraph net( x ) -> ( y )\n{\n x = external(shape = [4, 32]);\n"
        " a = softmax(x, axes = [1]);\n b = transpose(a, axes = [1, 0]);\n"
        " y = softmax(b, axes = [1]);\n}\n"
    )
    return path


def test_profile_shows_every_launch(cli: Cli, net: Path) -> None:
    result = cli("profile", net, *QUICK)
    assert result.status == 0, result.err
    for text in ("transpose %b", "GFLOP/s", "of limit", "a call:", "1 thread: peak"):
        assert text in result.out
    facts = json.loads(cli("profile", net, *QUICK, "--sort", "order", "--json").out)
    plan = json.loads(cli("compile", net, "--plan", "--json").out)["plan"]
    assert [row["name"] for row in facts["rows"]] == [launch["launch"] for launch in plan]
    assert facts["runs"] >= 3
    assert sum(row["us"] for row in facts["rows"]) == pytest.approx(1e3 * facts["launches_ms"])
    assert sum(row["flops"] for row in facts["rows"]) == pytest.approx(1e9 * facts["gflop"])
    assert min(facts["machine"].values()) > 0


def test_rows_are_grouped_and_sorted(cli: Cli, net: Path) -> None:
    facts = json.loads(cli("profile", net, *QUICK, "--by", "operation", "--json").out)
    times = [row["us"] for row in facts["rows"]]
    assert times == sorted(times, reverse=True)
    assert {row["name"]: row["launches"] for row in facts["rows"]}["softmax"] == 2
    shown = cli("profile", net, *QUICK, "--by", "kernel", "--top", 1, "--best").out
    assert "more rows" in shown


def test_flops_grow_with_the_batch(cli: Cli, net: Path) -> None:
    four, eight = (
        json.loads(cli("profile", net, *QUICK, "--batch", n, "--json").out) for n in (4, 8)
    )
    assert eight["gflop"] == pytest.approx(2 * four["gflop"])


def test_trace_and_picture_are_written(cli: Cli, net: Path, tmp_path: Path) -> None:
    trace, picture = tmp_path / "t.json", tmp_path / "p.svg"
    done = cli("profile", net, *QUICK, "--trace", trace, "--picture", picture)
    assert done.status == 0, done.err
    events = json.loads(trace.read_text())["traceEvents"]
    assert {"transpose %b", "process_name", "thread_name"} <= {event["name"] for event in events}
    assert ElementTree.parse(picture).getroot().tag == f"{SVG}svg"


def test_wrong_options_are_refused(cli: Cli, net: Path, tmp_path: Path) -> None:
    assert "should end in .json" in cli("profile", net, "--trace", tmp_path / "t.txt").err
    assert "should end in .svg" in cli("profile", net, "--picture", tmp_path / "p.png").err
    assert "more than 0 seconds" in cli("profile", net, "--duration", 0).err
    assert cli("profile", net, "--by", "color").status == 2
    for option, name in (("--trace", "t.json"), ("--picture", "p.svg")):  # before the model is read
        result = cli("profile", tmp_path / "nothing.nnef", option, tmp_path / "no" / name)
        assert "cannot write" in result.err and "nothing.nnef" not in result.err


def test_roofline_limits() -> None:
    """A launch of one tile uses one thread, others use all; the slowest resource sets the limit."""
    conv, relu = launch_rows(LAUNCHES, FOUND, {1: ONE, 2: TWO})
    assert conv.seconds == pytest.approx(400e-9)
    assert conv.busy == pytest.approx(500e-9)
    assert conv.limit == pytest.approx(3000 / 15e9)
    assert conv.bound == "multiply-adds"
    assert conv.of_limit == pytest.approx(0.5)
    assert relu.limit == pytest.approx(80 / 6e9)
    assert relu.bound == "memory"
    (double, _) = launch_rows(LAUNCHES, FOUND, {1: ONE, 2: TWO}, itemsize=8)
    assert double.limit == pytest.approx(6000 / 15e9)


def test_best_run() -> None:
    start = np.array([[1000, 1100, 1200, 1500], [1000, 1100, 1200, 1500]])
    end = start + np.array([[100, 100, 100, 50], [80, 80, 80, 70]])
    found = replace(FOUND, start=start, end=end, thread=FOUND.thread[:2], earlier=FOUND.earlier[:2])
    found = replace(found, count=FOUND.count[:2])
    conv, relu = launch_rows(LAUNCHES, found, {1: ONE, 2: TWO}, best=True)
    assert (conv.seconds, conv.busy) == (pytest.approx(280e-9), pytest.approx(240e-9))
    assert relu.seconds == pytest.approx(50e-9)


def test_repeated_launches_share_a_row() -> None:
    """The first launch runs before and after the second one."""
    steps = np.array([0, 0, 0, 1, 2, 2, 2])
    start = np.array([[1000, 1100, 1200, 1500, 2000, 2000, 2000]])
    end = np.array([[1100, 1300, 1400, 1600, 2100, 2300, 2200]])
    thread, earlier, count = np.zeros((3, 1, 7), np.int64) + np.array([0, 0, 1])[:, None, None]
    found = Profile(steps, np.array([0, 1, 0]), 2, start, end, thread, earlier, count)
    conv, relu = launch_rows([LAUNCHES[0]._replace(times=2), LAUNCHES[1]], found, {1: ONE, 2: TWO})
    assert (conv.launches, conv.tiles, relu.launches) == (2, 6, 1)
    assert conv.seconds == pytest.approx(700e-9)
    assert conv.busy == pytest.approx(1100e-9)
    assert (conv.flops, conv.nbytes) == (6000, 240)
    assert conv.limit == pytest.approx(2 * 3000 / 15e9)
    events = json.loads(trace_text("net", LAUNCHES, found))["traceEvents"]
    tiles = [(e["args"]["launch"], e["args"]["tile"]) for e in events if e["ph"] == "X"]
    assert tiles == [(0, 0), (0, 1), (0, 2), (1, 0), (0, 0), (0, 1), (0, 2)]


def test_launches_faster_than_memory_are_bound_by_caches() -> None:
    slow = Roofline(threads=1, fma_gflops=1e6, read_gbps=0.1, copy_gbps=0.1)
    for row in launch_rows(LAUNCHES, FOUND, {1: slow, 2: slow}):
        assert row.bound == "caches"
        assert row.limit == row.seconds
        assert row.loss == 0


def row(name: str, kernel: str, seconds: float, limit: float) -> Row:
    return Row(name, kernel, 1, 2, seconds, seconds, 100, 10, limit, "memory")


ROWS = [row("conv %a", "k_1", 3, 2.5), row("relu %b", "m_2", 1, 0.1), row("conv %c", "n_3", 2, 0.2)]


def test_sorting_of_rows() -> None:
    names = {sort: [r.name for r in arrange(ROWS, GroupBy.LAUNCH, sort)] for sort in SortBy}
    assert names[SortBy.TIME] == ["conv %a", "conv %c", "relu %b"]
    assert names[SortBy.LOSS] == ["conv %c", "relu %b", "conv %a"]
    assert names[SortBy.ORDER] == [r.name for r in ROWS]


def test_grouping_of_rows() -> None:
    conv, relu = arrange(ROWS, GroupBy.OPERATION, SortBy.TIME)
    assert (conv.name, conv.kernel, conv.launches, conv.tiles) == ("conv", "k, n", 2, 4)
    assert (conv.seconds, conv.flops, conv.limit) == (5, 200, pytest.approx(2.7))
    assert relu.seconds == 1
    assert [r.name for r in arrange(ROWS, GroupBy.KERNEL, SortBy.ORDER)] == ["k", "m", "n"]


def test_a_trace_has_an_event_for_each_tile() -> None:
    events = json.loads(trace_text("net", LAUNCHES, FOUND))["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert [(e["name"], e["args"]["tile"], e["tid"], e["ts"], e["dur"]) for e in spans] == [
        ("conv %a", 0, 0, 0.0, 0.1),
        ("conv %a", 1, 1, 0.1, 0.2),
        ("conv %a", 2, 0, 0.2, 0.2),
        ("relu %b", 0, 1, 0.5, 0.1),
    ]
    threads = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
    assert threads == ["caller", "worker 1"]


def test_widths_of_bars_are_times() -> None:
    root = ElementTree.fromstring(draw("net", ROWS))
    bars = {
        (group.findtext(f"{SVG}title") or "").split("\n")[0]: [
            float(rect.get("width", 0)) for rect in group.iter(f"{SVG}rect")
        ]
        for group in root.iter(f"{SVG}g")
    }
    (whole,) = bars["all"]
    assert bars["conv"] == [pytest.approx(whole * 5 / 6, abs=0.01)]
    assert bars["relu %b"] == [pytest.approx(whole / 6, abs=0.01)]
    width = float(root.get("width", 0))
    for rect in root.iter(f"{SVG}rect"):
        assert 0 <= float(rect.get("x", 0)) <= width - float(rect.get("width", 0))
    assert [colour(share) for share in (-1, 0, 0.5, 1, 2)] == [
        "#e69999",
        "#e69999",
        "#e6e699",
        "#99e699",
        "#99e699",
    ]
