"""Inputs of commands: standard input, pictures with a mean and a layout, several files."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import nnefc
from tests.helpers.command_line import DIGITS, Cli

SUM = """\
version 1.0;
graph sum( x, y ) -> ( z )
{
    x = external(shape = [2, 3]);
    y = external(shape = [2, 3]);
    z = add(x, y);
}
"""
COPY = """\
version 1.0;
graph net( x ) -> ( y )
{{
    x = external<{type}>(shape = {shape});
    y = copy(x);
}}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
RGB = np.random.default_rng(0).integers(0, 256, (6, 5, 3), np.uint8)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "graph.nnef").write_text(SUM)
    return tmp_path


def provide(monkeypatch: pytest.MonkeyPatch, content: bytes, terminal: bool = False) -> None:
    """Let standard input have this content."""
    stream = io.TextIOWrapper(io.BytesIO(content))
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr("sys.stdin", stream)


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def dat(array: Any) -> bytes:
    file = io.BytesIO()
    nnefc.write_tensor(file, array)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (npz(x=X, y=X), ("-i", "-")),
        (npy(X), ("-i", "x=-", "-i", "y={folder}/x.npy")),
        (npy(X), ("-i", "x={folder}/x.npy", "-i", "-")),
        (dat(X), ("-i", "x={folder}/x.npy", "-i", "-")),
        (npz(any=X), ("-i", "x={folder}/x.npy", "-i", "y=-")),
    ],
)
def test_arrays_come_from_standard_input(
    cli: Cli,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    options: tuple[str, ...],
) -> None:
    np.save(model / "x.npy", X)
    provide(monkeypatch, content)
    arguments = [option.format(folder=model) for option in options]
    result = cli("run", model, *arguments, "--json")
    assert result.err == ""
    assert json.loads(result.out)["z"]["values"] == (2 * X).ravel().tolist()


@pytest.mark.slow
def test_standard_input_is_read_in_pieces(tmp_path: Path) -> None:
    """Reading up to the limit at once would allocate gigabytes."""
    (tmp_path / "x.npy").write_bytes(npy(np.zeros((1, 1, 8, 8), np.float32)))
    command = [sys.executable, "-m", "nnefc", "run", str(DIGITS), "-i", "image=-", "--json"]
    with (tmp_path / "x.npy").open("rb") as file:
        done = subprocess.run(command, stdin=file, capture_output=True, text=True, check=False)
    assert (done.returncode, "probabilities" in json.loads(done.stdout)) == (0, True)


def test_pictures_come_from_standard_input(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    image = Path(DIGITS).parent / "images" / "7.png"
    provide(monkeypatch, image.read_bytes())
    values = json.loads(cli("run", DIGITS, "-i", "-", "--json").out)["probabilities"]["values"]
    assert int(np.argmax(values)) == 7


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"", ("-i", "x=-"), "standard input is empty"),
        (b"no array", ("-i", "x=-"), "standard input: error: this is no picture"),
        (npy(X)[:-4], ("-i", "x=-"), "20 bytes of data"),
        (npz(x=X)[:-9], ("-i", "-"), "standard input: error: "),
        (npy(X), ("-i", "-"), "for which input?"),
        (npz(x=X, y=X), ("-i", "x=-"), "the file holds 2 arrays, not one"),
        (npy(X), ("-i", "x=-", "-i", "y=-"), "--input y=-: --input x=- reads standard input"),
    ],
)
def test_wrong_standard_input_is_an_error(
    cli: Cli,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    options: tuple[str, ...],
    message: str,
) -> None:
    provide(monkeypatch, content)
    result = cli("run", model, *options)
    assert result.status == 1
    assert message in result.err


def test_a_terminal_is_not_read(cli: Cli, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provide(monkeypatch, b"", terminal=True)
    assert "standard input is a terminal" in cli("run", model, "-i", "x=-").err
    monkeypatch.setattr("sys.stdin", None)
    assert "standard input is closed" in cli("run", model, "-i", "x=-").err


def test_errors_of_all_inputs_are_reported(cli: Cli, model: Path) -> None:
    np.save(model / "x.npy", X)
    options = ("x=none.npy", "z=x.npy", "y=", f"y={model}/x.npy", f"y={model}/x.npy")
    result = cli("run", model, *(word for option in options for word in ("-i", option)))
    for message in ("none.npy: error: no such file", "no input named z", "the path is empty"):
        assert message in result.err
    assert "input y has a file already" in result.err
    assert "--input x=FILE" in cli("run", model, "-i", "x").err
    long = cli("run", model, "-i", f"{'a' * 300}=x.npy").err
    assert "no input named" in long and "a" * 200 not in long
    for number in range(9):
        (model / "outer" / f"folder{number}").mkdir(parents=True)
    folders = cli("run", model, "-i", f"x={model}/outer")
    assert "folder4 and 4 others" in " ".join(folders.err.split())


def copied(cli: Cli, folder: Path, shape: list[int], *options: object) -> np.ndarray[Any, Any]:
    """The tensor that a picture becomes."""
    (folder / "graph.nnef").write_text(COPY.format(type="scalar", shape=shape))
    result = cli("run", folder, *options, "-o", folder / "y.npy")
    assert result.status == 0, result.err
    return np.load(folder / "y.npy")


@pytest.mark.parametrize("suffix", ["png", "bmp", "ppm", "gif", "webp"])
def test_formats_of_pictures(cli: Cli, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    picture = Image.fromarray(RGB)
    if suffix == "webp":
        picture.save(path, lossless=True)
    else:
        picture.save(path)
    y = copied(cli, tmp_path, [1, 3, 6, 5], "-i", path)
    stored = np.asarray(Image.open(path).convert("RGB")) if suffix == "gif" else RGB
    np.testing.assert_allclose(y[0], stored.transpose(2, 0, 1) / 255, rtol=1e-6)


def test_the_first_frame_of_a_moving_picture(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.gif"
    frames = [Image.new("L", (5, 4), value) for value in (51, 200)]
    frames[0].save(path, save_all=True, append_images=frames[1:])
    (tmp_path / "graph.nnef").write_text(COPY.format(type="scalar", shape=[1, 1, 4, 5]))
    result = cli("run", tmp_path, "-i", path, "-o", tmp_path / "y.npy")
    assert "the first of 2 frames" in result.err
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), 0.2, rtol=1e-6)


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NORMAL = ("--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225")


@pytest.mark.parametrize(
    ("shape", "layout", "axes"),
    [
        ([2, 3, 6, 5], "auto", (2, 0, 1)),
        ([3, 6, 5], "auto", (2, 0, 1)),
        ([2, 6, 5, 3], "auto", (0, 1, 2)),
        ([6, 5, 3], "auto", (0, 1, 2)),
        ([2, 3, 6, 5], "nchw", (2, 0, 1)),
        ([2, 6, 5, 3], "nhwc", (0, 1, 2)),
        ([6, 5, 3], "nhwc", (0, 1, 2)),
    ],
)
def test_means_deviations_and_layouts(
    cli: Cli, tmp_path: Path, shape: list[int], layout: str, axes: tuple[int, ...]
) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(RGB).save(path)
    y = copied(cli, tmp_path, shape, "-i", path, *NORMAL, "--layout", layout)
    expected = ((RGB / 255 - MEAN) / STD).transpose(axes)
    np.testing.assert_allclose(y, np.broadcast_to(expected, shape), rtol=1e-5, atol=1e-6)


def test_a_layout_decides_where_both_fit(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(RGB[:3]).save(path)  # 3 x 5 pixels
    for layout, shape in (("auto", [1, 3, 5, 3]), ("nchw", [1, 3, 5, 3]), ("nhwc", [1, 3, 5, 3])):
        y = copied(cli, tmp_path, shape, "-i", path, "--layout", layout)
        is_last = np.allclose(y[0], RGB[:3] / 255, rtol=1e-5)
        assert is_last == (layout == "nhwc")


@pytest.mark.parametrize(
    ("options", "messages"),
    [
        (("--mean", "0.5,0.5"), ["mean 0.5, 0.5 is neither one number nor 3, one for each"]),
        (("--std", "1,2,3,4"), ["std 1, 2, 3, 4 is neither one number nor 3"]),
        (
            ("--mean", "grey", "--std", "0", "--layout", "hwc"),
            ["--mean grey: expected numbers", "--std 0: ", "--layout hwc: must be auto, nchw"],
        ),
        (("--mean", "nan"), ["--mean nan: expected numbers"]),
        (("--mean", ""), ["--mean : expected numbers"]),
        (("--layout", "nhwc"), ["does not fit shape"]),
    ],
)
def test_wrong_options_for_pictures(
    cli: Cli, tmp_path: Path, options: tuple[str, ...], messages: list[str]
) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(RGB).save(path)
    (tmp_path / "graph.nnef").write_text(COPY.format(type="scalar", shape=[1, 3, 6, 5]))
    result = cli("run", tmp_path, "-i", path, *options)
    assert result.status == 1
    for message in messages:
        assert message in result.err


def test_options_for_pictures_need_a_picture(cli: Cli, model: Path) -> None:
    np.save(model / "x.npy", X)
    files = ("-i", f"x={model}/x.npy", "-i", f"y={model}/x.npy")
    result = cli("run", model, *files, "--mean", "0.5", "--layout", "nhwc")
    assert result.status == 1
    assert "--mean, --layout: for pictures, and no --input is one" in result.err


def test_means_of_integers_are_refused(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(RGB).save(path)
    (tmp_path / "graph.nnef").write_text(COPY.format(type="integer", shape=[1, 3, 6, 5]))
    result = cli("run", tmp_path, "-i", path, "--mean", "0.5")
    assert "mean and std need a floating-point input" in result.err


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (("x.npy", "x.npy", "x.npy"), "x.npy: for which input?"),
        (("x=x.npy", "x.npy", "x.npy"), "x.npy: every input has a file already"),
        (("both.npz", "x.npy"), "x.npy: every input has a file already"),
        (("y=x.npy", "both.npz"), "both.npz: input y has a file already"),
    ],
)
def test_more_files_than_inputs(
    cli: Cli,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(model)
    np.save("x.npy", X)
    np.savez("both.npz", x=X, y=X)
    result = cli("run", model, *(word for file in files for word in ("-i", file)))
    assert result.status == 1
    assert message in result.err
