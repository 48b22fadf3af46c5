"""Modules for OpenVX: kernels in Khronos' sample implementation, and what they cannot have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import openvx as vx
from nnefc.emit.header import Interface
from nnefc.emit.openvx.module import openvx_module
from nnefc.runtime.memory.caller_arrays import TensorSpec
from tests.helpers.artifacts.openvx_kernels import Array, Parameter, Sample, needs_sample
from tests.helpers.artifacts.saved import MIXED, TINY, compiled, write
from tests.helpers.command_line import Cli


@pytest.fixture(scope="session")
def sample() -> Sample:
    return Sample.build()


# -- kernels in the sample implementation

INVALID_FORMAT, INVALID_DIMENSION, INVALID_TYPE = -14, -15, -17
"""Errors of vx_status_e (VX_ERROR_INVALID_...)."""


@pytest.mark.slow
@needs_sample
def test_a_float_network_is_a_kernel(sample: Sample, tmp_path: Path) -> None:
    model = compiled(tmp_path, MIXED)
    model.emit_openvx(tmp_path / "c")
    built = sample.module(tmp_path / "c")
    x = np.random.default_rng(0).standard_normal(model.inputs[0].shape).astype(np.float32)
    expected = model(x)
    for kind, memory in (("plain", "mapped 4 copied 0"), ("view", "mapped 0 copied 4")):
        outputs = [Parameter(y, is_input=False, kind=kind) for y in expected]
        text, found = sample.run(built, "mixed", [Parameter(x, kind=kind), *outputs])
        assert memory in text
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)

    right = [Parameter(x), *(Parameter(y, is_input=False) for y in expected)]
    wrong: list[tuple[int, Array, int, str]] = [
        (0, x[:, :, :23], INVALID_DIMENSION, "x: wrong dims 24x23x3x2, expected 24x24x3x2"),
        (0, x[0], INVALID_DIMENSION, "x: wrong dims 24x24x3, expected 24x24x3x2"),
        (0, x.astype(np.int32), INVALID_TYPE, "x: wrong data type INT32, expected FLOAT32"),
        (2, expected[1].T, INVALID_DIMENSION, "z: wrong dims 2x10, expected 10x2"),
        (
            3,
            expected[2].astype(np.float32),
            INVALID_TYPE,
            "n: wrong data type FLOAT32, expected INT32",
        ),
    ]
    for index, data, status, message in wrong:
        parameters = list(right)
        parameters[index] = replace(right[index], data=np.ascontiguousarray(data))
        text, _ = sample.run(built, "mixed", parameters)
        assert f"verify {status}\n" in text, (index, data.shape, text)
        assert f"nnefc.mixed: parameter {index}, {message}\n" in text, text


def convolution(dtype: Any) -> tuple[vx.Graph, vx.Tensor, vx.Tensor]:
    """A graph with a convolution and a function."""
    type_, position = (vx.Type[np.dtype(dtype).name.upper()], 8 if dtype == np.int16 else 0)
    context = vx.Context()
    x = context.create_tensor((8, 7, 3), type_, position)
    weights = context.create_tensor((3, 3, 3, 4), type_, position)
    y = context.create_tensor((6, 5, 4), type_, position)
    rng = np.random.default_rng(1)
    x.copy_from(rng.integers(-90, 90, (3, 7, 8)).astype(dtype))
    weights.copy_from(rng.integers(-9, 9, (4, 3, 3, 3)).astype(dtype))
    params = vx.ConvolutionParams(
        padding_x=0,
        padding_y=0,
        overflow_policy=vx.ConvertPolicy.SATURATE,
        rounding_policy=vx.RoundPolicy.TO_NEAREST_EVEN,
        down_scale_size_rounding=vx.DownScaleSizeRounding.FLOOR,
        dilation_x=0,
        dilation_y=0,
    )
    graph = context.create_graph()
    hidden = graph.create_virtual_tensor((6, 5, 4), type_, position)
    graph.convolution_layer(x, weights, None, params, hidden)
    graph.activation_layer(hidden, vx.ActivationFunction.RELU, 0, 0, y)
    return graph, x, y


@pytest.mark.slow
@needs_sample
@pytest.mark.parametrize("dtype", [np.int8, np.int16])
def test_a_graph_of_layers_is_a_kernel(sample: Sample, tmp_path: Path, dtype: Any) -> None:
    graph, x, y = convolution(dtype)
    graph.emit_openvx(tmp_path / "c", name="conv")
    built = sample.module(tmp_path / "c")
    graph.process()
    expected = y.copy_to()
    assert expected.any()
    parameters = [Parameter(x.copy_to()), Parameter(expected, is_input=False)]
    _, (found,) = sample.run(built, "conv", parameters)
    np.testing.assert_array_equal(found, expected)
    if dtype == np.int16:  # the sample implementation has this type with 8 fraction bits only
        source = tmp_path / "c/conv_openvx.c"
        source.write_text(source.read_text().replace("VX_TYPE_INT16, 8,", "VX_TYPE_INT16, 7,"))
        text, _ = sample.run(sample.module(tmp_path / "c"), "conv", parameters)
        assert f"verify {INVALID_FORMAT}\n" in text
        assert ": wrong fixed point position 8, expected 7\n" in text


@pytest.mark.slow
@needs_sample
def test_virtual_tensors_get_their_format(sample: Sample, tmp_path: Path) -> None:
    """A tensor without dims and type between two nodes."""
    model = compiled(tmp_path, TINY.replace("[3, 4]", "[4, 4]"))
    model.emit_openvx(tmp_path / "c")
    built = sample.module(tmp_path / "c")
    x = np.array([[1, 2, 3, 4]], np.float32)
    expected = model(model(x))
    parameters = [Parameter(x), Parameter(expected, is_input=False, kind="virtual")]
    _, (found,) = sample.run(built, "tiny", parameters)
    np.testing.assert_array_equal(found, expected)


# -- what is written


def test_compile_emits_a_module(cli: Cli, tmp_path: Path) -> None:
    document, folder = write(tmp_path, TINY), tmp_path / "c"
    options = ("compile", document, "--random-weights", 3, "-o", folder, "--emit")
    assert cli(*options, "openvx").status == 0
    model = compiled(tmp_path, TINY)
    names = model.emit_openvx(tmp_path / "other")
    assert "tiny_openvx.c" in names
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
    assert cli(*options, "c").status == 0
    assert sorted(p.name for p in folder.iterdir()) == sorted({*names} - {"tiny_openvx.c"})
    assert "openvx" not in (folder / "CMakeLists.txt").read_text()
    result = cli("compile", document, "--dynamic", "--emit", "openvx", "-o", tmp_path / "d")
    assert "--emit openvx is for a model of known shapes" in result.err
    with pytest.raises(nnefc.NnefError, match="fixed_point_position = 16: must be an integer"):
        model.emit_openvx(tmp_path / "d", fixed_point_position=16)


SHORTS = """version 1.0;
extension tract_registry tract_core;
graph shorts(x) -> (y)
{
    x = tract_core_external(shape = [2, 3], datum_type = 'i16');
    y = max(x, x);
}
"""


def test_fraction_bits_on_the_command_line(cli: Cli, tmp_path: Path) -> None:
    options = ("compile", write(tmp_path, SHORTS), "--fixed-point-position", 8)
    assert "add --emit openvx" in cli(*options).err
    assert cli(*options, "--emit", "openvx", "-o", tmp_path / "c").status == 0
    text = (tmp_path / "c" / "shorts_openvx.c").read_text()
    assert '{"x", VX_INPUT, VX_TYPE_INT16, 8, 2, 2, {3, 2}}' in text
    assert '{"y", VX_OUTPUT, VX_TYPE_INT16, 8, 2, 2, {3, 2}}' in text
    reals = (*options[2:], "--random-weights", 3, "--emit", "openvx", "-o", tmp_path / "d")
    assert "is int16" in cli("compile", write(tmp_path, TINY), *reals).err


def module(shape: tuple[int, ...], dtype: Any, name: str = "net") -> str:
    """The module of a network without inputs, with one output."""
    spec = TensorSpec("y", shape, np.dtype(dtype))
    return openvx_module(Interface.of(name, [], [spec], []), False, 8)


def test_descriptions_of_tensors() -> None:
    for shape, dtype, text in [
        ((2, 3), np.int16, "VX_TYPE_INT16, 8, 2, 2, {3, 2}"),
        ((), np.float32, "VX_TYPE_FLOAT32, 0, 4, 1, {1}"),
        ((5,), np.bool_, "VX_TYPE_UINT8, 0, 1, 1, {5}"),
    ]:
        assert f'    {{"y", VX_OUTPUT, {text}}}\n' in module(shape, dtype)


def test_tensors_and_names_that_openvx_lacks() -> None:
    with pytest.raises(nnefc.NnefError, match="tensors of OpenVX have items"):
        module((2, 0), np.float32)
    with pytest.raises(nnefc.NnefError, match="types of the same names as OpenVX"):
        module((1,), np.float32, "vx")
    with pytest.raises(nnefc.NnefError, match="names of at most 255 bytes"):
        module((1,), np.float32, "n" * 250)
