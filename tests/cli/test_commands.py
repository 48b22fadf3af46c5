"""`nnefc check`, `inspect`, `flatten`, `compare` and others, run as a user types them."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import nnefc
from tests.helpers.command_line import DIGITS, SMALL, Cli


def test_help_lists_commands_and_examples(cli: Cli) -> None:
    result = cli("--help")
    assert result.status == 0
    listed = "check inspect flatten run compare compile bench profile demo"
    for command in listed.split():
        assert command in result.out
        assert "Examples:" in cli(command, "--help").out


def test_version_is_printed(cli: Cli) -> None:
    assert cli("--version").out == f"nnefc {nnefc.__version__}\n"


def test_check_is_silent_on_valid(cli: Cli, small: Path) -> None:
    assert cli("check", small) == (0, "", "")


def test_check_reports_every_error_of_every_file(cli: Cli, tmp_path: Path, small: Path) -> None:
    first = tmp_path / "first.nnef"
    first.write_text(SMALL.replace("relu(conv1)", "rleu(conv1)").replace("[2, 3]", "[2, 4]"))
    second = tmp_path / "second.nnef"
    second.write_text(SMALL.replace("bias = variable", "bias variable"))
    result = cli("check", first, small, second, tmp_path / "none.nnef")
    assert result.status == 1
    assert result.out == ""
    assert re.search(rf"^{first}:8:13: error: .*rleu", result.err, re.M)
    assert re.search(rf"^{second}:6:\d+: error: ", result.err, re.M)
    assert "none.nnef" in result.err
    assert str(small) not in result.err


def test_check_continues_after_an_unreadable_file(
    cli: Cli, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file lacks permission; root may read it, so `os.access` is patched for typer."""
    first = tmp_path / "first.nnef"
    first.write_text(SMALL)
    broken = tmp_path / "broken.nnef"
    broken.write_text(SMALL.replace("relu(conv1)", "relu(conv2)"))
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda p, m: Path(p) != first and allowed(p, m))  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
    result = cli("check", first, "", "-", broken)
    assert result.status == 1
    assert "the path of the model is empty" in result.err
    assert "not read from standard input" in result.err
    assert "broken.nnef:8:18" in result.err
    assert "write it to a file" in cli("inspect", "-").err


def test_check_reports_json(cli: Cli, small: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.nnef"
    broken.write_text(SMALL.replace("relu(conv1)", "relu(conv2)"))
    result = cli("check", small, broken, "--json")
    assert result.status == 1
    valid, invalid = json.loads(result.out)
    assert valid["valid"]
    assert valid["errors"] == []
    assert not invalid["valid"]
    (error,) = invalid["errors"]
    assert (error["line"], error["column"]) == (8, 18)
    assert error["rule"].startswith("identifier")


def test_inspect_counts_operations_parameters_and_macs(cli: Cli, small: Path) -> None:
    result = cli("inspect", small)
    assert result.status == 0
    assert "conv1" in result.out
    assert "1x4x8x8" in result.out
    facts = json.loads(cli("inspect", small, "--json").out)
    assert facts["parameters"] == 4 * 27 + 4
    assert facts["macs"] == 4 * 64 * 27
    assert [row["operation"] for row in facts["operations"]] == ["conv", "relu", "mean_reduce"]


def test_inspect_describes_weights(cli: Cli) -> None:
    facts = json.loads(cli("inspect", DIGITS, "--weights", "--json").out)
    by_name = {row["name"]: row for row in facts["variables"]}
    assert by_name["conv1/filter"]["shape"] == [32, 1, 3, 3]
    assert by_name["conv1/filter"]["std"] > 0


def test_inspect_draws_svg_and_html(cli: Cli, small: Path, tmp_path: Path) -> None:
    import xml.etree.ElementTree as ElementTree

    svg, html = tmp_path / "net.svg", tmp_path / "net.html"
    assert cli("inspect", small, "--svg", svg, "--html", html).status == 0
    root = ElementTree.fromstring(svg.read_text())
    texts = {node.text for node in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"conv", "relu", "x", "y"} <= texts
    page = html.read_text()
    assert "<svg" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_flattened_documents_are_valid_and_stable(cli: Cli, small: Path, tmp_path: Path) -> None:
    flat = tmp_path / "flat.nnef"
    assert cli("flatten", small, "-o", flat).status == 0
    assert cli("check", flat) == (0, "", "")
    assert cli("flatten", flat).out == flat.read_text()


def test_compare_finds_the_first_divergence(cli: Cli, small: Path) -> None:
    result = cli("compare", small, "--random-weights", 1, "--json")
    assert result.status == 0
    facts = json.loads(result.out)
    assert facts["first_divergence"] is None
    assert {"conv1", "relu1", "y"} <= {row["tensor"] for row in facts["tensors"]}
    shown = cli("compare", small, "--random-weights", 1, "--all").out
    assert len(re.findall(r"^ *y ", shown, re.M)) == 1
    assert "3 tensors" in shown
    for tolerance in ("nan", "-1", "inf"):
        refused = cli("compare", small, "--random-weights", 1, "--tolerance", tolerance)
        assert refused.status == 1
        assert "--tolerance" in refused.err
    strict = cli("compare", small, "--random-weights", 1, "--tolerance", 0)
    assert strict.status == 1
    assert "first divergence: conv1" in strict.out


def test_compare_identifies_tensors_by_position_not_by_name(tmp_path: Path) -> None:
    """Intermediate tensors need no name, and an output may be named like another tensor."""
    from nnefc.cli.compare.comparison import Comparison
    from nnefc.cli.compare.tensors import compare_model
    from nnefc.cli.support.import_and_compile import compile_graph
    from nnefc.ir import DType, Graph, Op, TensorType
    from nnefc.options.compile_config import CompileConfig

    type_ = TensorType(DType.FLOAT32, (2,))
    graph = Graph("g")
    x = graph.add_input(type_, "x")
    y = graph.insert(Op("sqr", [x], {}, [type_])).output
    z = graph.insert(Op("neg", [y], {}, [type_], ["y"])).output
    graph.add_output(z, "y")
    graph.add_output(x, "y")
    comparison = Comparison()
    config = CompileConfig(1)
    inputs = {"x": np.array([1, 2], np.float32)}
    compare_model(comparison, graph, inputs, compile_graph(graph, config), config)
    found = [(row.kind, row.deviation.error) for row in comparison.rows]
    assert found == [("tensor", 0)] * 2 + [("output", 0)] * 2


def test_names_and_shapes_are_printed_verbatim(cli: Cli, tmp_path: Path) -> None:
    """Square brackets are not markup, and colons are not emoji."""
    path = tmp_path / "graph.nnef"
    path.write_text(
        "version 1.0;\ngraph g( x ) -> ( y )\n{ x = external(shape = []); y = exp(x); }\n"
    )
    shown = cli("inspect", path).out
    assert "x: float32[scalar]" in shown
    assert "1 operation," in shown


def test_batch_changes_the_first_extents(cli: Cli, small: Path) -> None:
    batch = ("--random-weights", 3, "--batch", 5, "--json")
    rows = json.loads(cli("compare", small, *batch, "--all").out)["tensors"]
    assert {row["shape"][0] for row in rows} == {5}
    found = json.loads(cli("run", small, *batch, "--random-inputs", 1).out)
    assert found["y"]["shape"][0] == 5
    arena = [
        json.loads(cli("compile", small, *batch, *more).out)["arena_lower_bound"]
        for more in ((), ("--batch", 1))
    ]
    assert arena[0] > arena[1]


def test_compile_shows_the_plan(cli: Cli, small: Path) -> None:
    result = cli("compile", small, "--random-weights", 1, "--plan", "--json")
    facts = json.loads(result.out)
    assert facts["launches"] == len(facts["plan"]) > 0
    assert facts["arena_bytes"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "compare", "compile", "bench", "profile"])
def test_commands_compile_with_the_chosen_accuracy(cli: Cli, tmp_path: Path, command: str) -> None:
    """This convolution uses Winograd by default, but not with `--accuracy strict`."""
    path = tmp_path / "graph.nnef"
    path.write_text(
        "version 1.0;\ngraph net( x ) -> ( y )\n{\n x = external(shape = [1, 64, 28, 28]);\n"
        " w = variable(shape = [64, 64, 3, 3], label = 'w');\n y = conv(x, w);\n}\n"
    )
    options: dict[str, tuple[object, ...]] = {
        "run": ("--random-inputs", 1, "--json"),
        "compare": ("--tolerance", 1e-4),
        "compile": ("--plan",),
        "bench": ("--duration", 0.01, "--warmup", 0, "--no-cold"),
        "profile": ("--duration", 0.01),
    }
    shown = {
        accuracy: cli(
            command,
            path,
            "--random-weights",
            1,
            "--threads",
            1,
            *options[command],
            "--accuracy",
            accuracy,
        )
        for accuracy in ("fast", "strict", "great")
    }
    assert [shown[accuracy].status for accuracy in shown] == [0, 0, 1]
    assert "must be 'fast' or 'strict'" in shown["great"].err
    if command in ("compile", "profile"):
        assert "winograd" in shown["fast"].out
        assert "winograd" not in shown["strict"].out
    if command in ("run", "compare"):
        assert shown["fast"].out != shown["strict"].out


@pytest.mark.slow
def test_the_demo_recognises_digits(cli: Cli) -> None:
    facts = json.loads(cli("demo", "--json").out)
    assert facts["accuracy"] > 0.97
    assert facts["accuracy_int8"] > facts["accuracy"] - 0.005
    assert all(row["digit"] == row["prediction"] for row in facts["images"])
    shown = cli("demo").out
    assert f"held out, float32: {facts['right']} of 450 correct" in shown
    assert f"held out, int8: {facts['right_int8']} of 450 correct" in shown
    assert "images per second" in shown


def test_tables_are_whole_on_narrow_terminals(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers and names are never cut off; long text is folded."""
    from rich.console import Console

    from nnefc.cli.support.printing import print_table, table

    out = Console(width=60, highlight=False)
    view = table("name", "a", "summary", numeric=["a"], fold=["summary"])
    view.add_row("convolution", "1,234,567", "long words " * 9)
    print_table(out, view)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    assert "convolution" in lines[3]
    assert "1,234,567" in lines[3]
    wide = table(*(f"column {i}" for i in range(9)))
    wide.add_row(*(f"number {i}" for i in range(9)))
    print_table(out, wide)
    text = capsys.readouterr().out
    assert all(f"number {i}" in text for i in range(9))
    assert len(text.splitlines()) == 5


def test_narrow_terminals_leave_out_columns_and_shorten_names() -> None:
    from rich.console import Console

    from nnefc.cli.support.printing import print_table, table

    def shown(width: int) -> str:
        text = io.StringIO()
        out = Console(width=width, highlight=False, file=text)
        view = table("name", "time", "share", "kernel", numeric=["time", "share"])
        view.add_row("/encoder/layer.0/attention/output", "1,234 us", "10.6 %", "matmul")
        print_table(out, view, optional=["kernel", "share"])
        lines = text.getvalue().splitlines()
        assert max(map(len, lines[:-1])) <= width
        return "\n".join(lines)

    assert "matmul" in shown(80)
    assert "layer.0" in shown(80)
    assert "show: kernel, share" in shown(40)
    assert "/encoder…n/output" in " ".join(shown(30).split())
    assert "1,234 us" in shown(30)


@pytest.mark.slow
def test_tables_fit_a_terminal_of_80_columns(tmp_path: Path) -> None:
    """Names may be shortened there, and columns left out; in a pipe everything is shown."""
    layer = "encoder_layers_11_attention_self_output_dense_projection"
    path = tmp_path / "graph.nnef"
    text = SMALL.replace("conv1", f"{layer}_{'x' * 40}").replace("relu1", f"{layer}_activated")
    path.write_text(text.replace("conv/", f"{layer}/"))
    artifact = tmp_path / "net.nnefc"
    common = (str(path), "--random-weights", "1")
    command = [sys.executable, "-m", "nnefc"]
    subprocess.run([*command, "compile", *common, "-o", artifact], check=True, capture_output=True)
    for arguments in (
        ("run", *common, "--random-inputs", "1"),
        ("inspect", str(artifact), "--weights"),
        ("compare", *common, "--all"),
        ("profile", *common, "--duration", "0.01"),
        ("compile", *common, "--plan", "--explain"),
    ):
        lines = _in_terminal([*command, *arguments])
        assert any("─" in line for line in lines), lines
        assert max(map(len, lines)) <= 80, lines
    piped = subprocess.run(
        [*command, "compare", *common, "--all"], check=True, capture_output=True, text=True
    )
    assert f"{layer}_{'x' * 40}" in piped.stdout


def _in_terminal(command: list[str]) -> list[str]:
    """The lines that a command prints to a terminal of 80 columns, without progress bars."""
    import pty

    main, end = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "dumb"}
    with subprocess.Popen(command, stdout=end, stderr=subprocess.PIPE, env=environment) as process:
        os.close(end)
        text = b""
        with suppress(OSError):  # the terminal is gone at the end
            while part := os.read(main, 1 << 16):
                text += part
        os.close(main)
        assert process.stderr is not None
        error = process.stderr.read().decode()
    assert process.returncode == 0, error
    return text.decode().splitlines()


@pytest.mark.parametrize("rows", [1, 1001])
def test_control_characters_in_tables_are_written_out(rows: int) -> None:
    from rich.console import Console

    from nnefc.cli.support.printing import print_table, table

    text, view = io.StringIO(), table("name")
    for _ in range(rows):
        view.add_row("a\x1b[31mred")
    print_table(Console(width=80, highlight=False, markup=False, file=text), view)
    assert text.getvalue().count("a\\x1b[31mred") == rows
    assert "\x1b" not in text.getvalue()
