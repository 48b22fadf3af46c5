"""Layers as NNEF documents: read by nnefc and by the interpreter of NNEF Tools, within one unit."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import openvx as vx
from nnefc.formats.tensor_file import write_tensor
from nnefc.support.errors import NnefError

Array = np.ndarray[Any, Any]
F = vx.ActivationFunction
FORMATS: dict[str, tuple[vx.Type, int, type, int, int]] = {
    "U8": (vx.Type.UINT8, 0, np.uint8, 30, 3),
    "S8": (vx.Type.INT8, 0, np.int8, 30, 3),
    "Q7.8": (vx.Type.INT16, 8, np.int16, 900, 200),
    "FLOAT32": (vx.Type.FLOAT32, 0, np.float32, 4, 2),
}
"""Type, position, items, and the largest input and weight."""
FUNCTIONS = (
    *((F.LOGISTIC, 0, 0), (F.HYPERBOLIC_TAN, 2.5, 0.5), (F.RELU, 0, 0), (F.BRELU, 2, 0)),
    *((F.SOFTRELU, 0, 0), (F.ABS, 0, 0), (F.SQUARE, 0, 0), (F.SQRT, 0, 0), (F.LINEAR, 0.75, 1)),
)
SATURATE = vx.ConvertPolicy.SATURATE


def extents(tensor: vx.Tensor) -> tuple[int, ...]:
    """The dims of a tensor with memory."""
    assert tensor.dims is not None
    return tensor.dims


def by_nnef_tools(path: Path, inputs: list[Array]) -> list[Array]:
    """The results of an interpreter in PyTorch; stored codes and ranges by 4.9.5."""
    torch, khronos = import_module("torch"), import_module("nnef")
    tools = pytest.importorskip("nnef_tools.interpreter.pytorch.nnef_module")

    def rounded(x: Any, min: float, max: float, bits: int) -> Any:
        steps = 2**bits - 1
        codes = torch.floor((x.double().clamp(min, max) - min) / (max - min) * steps + 0.5)
        return (codes / steps * (max - min) + min).float()

    parsed: Any = khronos.load_graph(str(path))
    for name, tensor in parsed.tensors.items():
        if not tensor.quantization:
            continue
        given = tensor.quantization
        bits, low, high = int(given["bits"]), float(given["min"]), float(given["max"])
        numbers = {"op-name": given["op-name"], "bits": bits, "min": low, "max": high}
        parsed.tensors[name] = tensor._replace(quantization=numbers)
        if tensor.data is not None:
            items: Array = tensor.data.astype(float) - np.iinfo(tensor.data.dtype).min
            reals = (items / (2**bits - 1) * (high - low) + low).astype(np.float32)
            parsed.tensors[name] = tensor._replace(data=reals, quantization={})
    module = tools.NNEFModule(parsed, custom_operators={"linear_quantize": rounded})
    with torch.no_grad():
        return [each.numpy() for each in module(*map(torch.from_numpy, inputs))]


class Layers:
    """A graph of layers that read one tensor each, with random weights."""

    def __init__(self, format: str, seed: int) -> None:
        self.type, self.position, self.dtype, self.largest, self.weight = FORMATS[format]
        self.random = np.random.default_rng(seed)
        self.context = vx.Context(arithmetic="specification", threads=1)
        self.graph = self.context.create_graph()
        self.inputs: list[vx.Tensor] = []
        self.results: list[vx.Tensor] = []

    def tensor(self, *dims: int, largest: int = 0) -> vx.Tensor:
        """A tensor of zeros, or of random items."""
        made = self.context.create_tensor(dims, self.type, self.position)
        if largest:
            low = 0 if self.dtype is np.uint8 else -largest
            items = self.random.uniform(low, largest, dims[::-1])
            made.copy_from(
                (items if self.dtype is np.float32 else np.rint(items)).astype(self.dtype)
            )
        return made

    def input(self, *dims: int) -> vx.Tensor:
        self.inputs.append(self.tensor(*dims, largest=self.largest))
        return self.inputs[-1]

    def result(self, *dims: int) -> vx.Tensor:
        self.results.append(self.tensor(*dims))
        return self.results[-1]

    def policies(self) -> dict[str, Any]:
        rounding = [vx.RoundPolicy.TO_NEAREST_EVEN, vx.RoundPolicy.TO_ZERO]
        which = int(self.random.integers(2))
        return {"overflow_policy": SATURATE, "rounding_policy": rounding[which]}

    def number(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def convolution(self, x: vx.Tensor) -> None:
        width, height, maps = extents(x)
        kernel, outputs = [self.number(1, 3) for _ in "xy"], self.number(1, 5)
        paddings, dilations, skips = ([self.number(0, 2) for _ in "xy"] for _ in "abc")
        sizes: list[int] = []
        for i, extent in enumerate((width, height)):
            room = extent + 2 * paddings[i] - kernel[i] - (kernel[i] - 1) * dilations[i]
            sizes.append(room // (skips[i] + 1) + 1)
        biases = [(outputs,), (*sizes, outputs), None][self.number(0, 2)]
        params = vx.ConvolutionParams(
            padding_x=paddings[0],
            padding_y=paddings[1],
            dilation_x=dilations[0],
            dilation_y=dilations[1],
            **self.policies(),
        )
        w = self.tensor(*kernel, maps, outputs, largest=self.weight)
        b = None if biases is None else self.tensor(*biases, largest=self.largest)
        self.graph.convolution_layer(x, w, b, params, self.result(*sizes, outputs))

    def deconvolution(self, x: vx.Tensor) -> None:
        kernel, outputs = [self.number(2, 4) for _ in "xy"], self.number(1, 4)
        upscales, paddings = [self.number(2, 3) for _ in "xy"], [self.number(0, 1) for _ in "xy"]
        more = [self.number(0, each - 1) for each in upscales]
        sizes = [
            (extents(x)[i] - 1) * upscales[i] + kernel[i] - 2 * paddings[i] + more[i]
            for i in (0, 1)
        ]
        params = vx.DeconvolutionParams(
            padding_x=paddings[0],
            padding_y=paddings[1],
            a_x=more[0],
            a_y=more[1],
            **self.policies(),
        )
        w = self.tensor(*kernel, extents(x)[2], outputs, largest=self.weight)
        b = self.tensor(outputs, largest=self.largest)
        self.graph.deconvolution_layer(x, w, b, params, self.result(*sizes, outputs))

    def others(self, x: vx.Tensor) -> None:
        width, height, maps = extents(x)
        w = self.tensor(*extents(x), 6, largest=self.weight)
        b = self.tensor(6, largest=self.largest)
        self.graph.fully_connected_layer(x, w, b, outputs=self.result(6), **self.policies())
        for kind in vx.PoolingType:
            padding, skip = self.number(0, 1), self.number(1, 2)
            sizes = [(n + 2 * padding - 3) // skip + 1 for n in (width, height)]
            y = self.result(*sizes, maps)
            rounding = vx.DownScaleSizeRounding.FLOOR
            self.graph.pooling_layer(x, kind, 3, 3, padding, padding, rounding, y)
        self.graph.softmax_layer(x, self.result(*extents(x)))
        for kind in vx.NormalizationType:
            self.graph.normalization_layer(x, kind, 3, 0.25, 0.75, self.result(*extents(x)))
        for function, a, b in FUNCTIONS:
            self.graph.activation_layer(x, function, a, b, self.result(*extents(x)))
        # views: a hidden tensor of two halves, and a result of which a part stays
        hidden = self.graph.create_virtual_tensor(extents(x), self.type, self.position)
        middle = maps // 2
        for first, last in ((0, middle), (middle, maps)):
            region = (0, 0, first), (width, height, last)
            part, target = (each.create_tensor_from_view(*region) for each in (x, hidden))
            function = F.ABS if first else F.RELU
            self.graph.activation_layer(part, function, 0, 0, target)
        self.results.append(self.input(width, height + 2, maps))
        region = (0, 1, 0), (width, height + 1, maps)
        view = self.results[-1].create_tensor_from_view(*region)
        self.graph.activation_layer(hidden, F.RELU, 0, 0, view)


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("format", FORMATS)
def test_layers_are_within_one_unit(format: str, seed: int, tmp_path: Path) -> None:
    layers = Layers(format, seed)
    x = layers.input(layers.number(5, 8), layers.number(5, 8), layers.number(2, 4))
    layers.convolution(x)
    layers.deconvolution(x)
    layers.others(x)
    unit = 2.0**-layers.position
    reals = [(each.copy_to() * unit).astype(np.float32) for each in layers.inputs]
    layers.graph.export_nnef(tmp_path / "net")
    layers.graph.process()
    model: Any = nnefc.compile(tmp_path / "net", keep=False, threads=1)
    assert len(model.graph.outputs) == len(layers.results)
    found = [list(model(*reals)), by_nnef_tools(tmp_path / "net", reals)]
    spread = 0
    for i, result in enumerate(layers.results):
        want = result.copy_to().astype(float)
        spread += len(np.unique(want)) > 3
        for each in found:
            if format == "FLOAT32":
                np.testing.assert_allclose(each[i], want, 1e-4, 1e-5, equal_nan=True)
            else:
                np.testing.assert_allclose(each[i] / unit, want, 0, 1.001, err_msg=str(i))
    assert spread > len(layers.results) // 2


def test_what_nnef_cannot_say_is_refused(tmp_path: Path) -> None:
    layers = Layers("Q7.8", 1)
    x, y = layers.input(5, 4, 2), layers.tensor(5, 4, 3)
    rois, cells = layers.context.create_tensor((4, 2), vx.Type.INT16), layers.tensor(2, 2, 2, 2)
    nearest = vx.RoundPolicy.TO_NEAREST_EVEN
    params = vx.ConvolutionParams(overflow_policy=vx.ConvertPolicy.WRAP, rounding_policy=nearest)
    large, small = (layers.tensor(1, 1, 2, 3, largest=each) for each in (300, 60))
    layers.graph.convolution_layer(x, small, None, params, y)
    layers.graph.export_nnef(tmp_path / "net.nnef.tgz")
    with pytest.raises(NnefError, match="exists"):
        layers.graph.export_nnef(tmp_path / "net.nnef.tgz")
    layers.graph.export_nnef(tmp_path / "net.nnef.tgz", overwrite=True)
    layers.graph.convolution_layer(x, large, None, params, layers.result(5, 4, 3))
    layers.graph.roi_pooling_layer(x, rois, vx.RoiPoolParams(pool_type=vx.PoolingType.MAX), cells)
    with pytest.raises(NnefError) as caught:
        layers.graph.export_nnef(tmp_path / "other")
    assert [each.rule for each in caught.value.errors] == ["openvx/export"] * 2
    text = str(caught.value)
    assert "node 1 (convolution_layer)" in text
    assert "wrap around (overflow_policy)" in text
    assert "node 2 (roi_pooling_layer)" in text
    assert not (tmp_path / "other").exists()


def test_kernels_become_their_operations(tmp_path: Path) -> None:
    """A document with codes of 8 bits, between layers of reals."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "graph.nnef").write_text(
        "version 1.0; graph affine(x) -> (y) { x = external(shape = [2,3]); "
        "w = variable(shape = [4,3], label = 'w'); y = matmul(x, w, transposeB = true); }"
    )
    (tmp_path / "a" / "graph.quant").write_text(
        '"w": linear_quantize(min = -32.0, max = 31.75, bits = 8);\n'
        '"y": linear_quantize(min = -16.0, max = 15.875, bits = 8);\n'
    )
    codes = np.random.default_rng(4).integers(-20, 20, (4, 3)).astype(np.int8)
    write_tensor(tmp_path / "a" / "w.dat", codes)
    layers = Layers("FLOAT32", 2)
    kernel = layers.context.import_kernel_from_url("nnef", tmp_path / "a")
    hidden = layers.graph.create_virtual_tensor()
    layers.graph.create_generic_node(kernel, layers.input(3, 2), hidden)
    layers.graph.activation_layer(hidden, F.ABS, 0, 0, layers.result(4, 2))
    layers.graph.export_nnef(tmp_path / "net")
    text = (tmp_path / "net" / "graph.nnef").read_text()
    assert text.startswith("# A graph of OpenVX layers.")
    x = layers.inputs[0].copy_to()
    want = np.abs(np.clip(np.floor(x.astype(float) @ (codes.T / 4) * 8 + 0.5), -128, 127)) / 8
    model: Any = nnefc.compile(tmp_path / "net", threads=1)
    for found in (model(x), by_nnef_tools(tmp_path / "net", [x])[0]):
        np.testing.assert_allclose(found, want, 0, 1e-5)


def test_weights_of_16_bits_are_summed_as_integers(tmp_path: Path) -> None:
    """Products that float32 cannot sum, since they cancel; layers of one batch have no reshapes
    between.
    """
    layers = Layers("Q7.8", 3)
    half = layers.random.integers(-(1 << 15), 1 << 15, (8, 3, 4))
    x, y = layers.tensor(4, 3, 16), layers.tensor(4, 3, 8)
    x.copy_from(np.concatenate([half, half]).astype(np.int16))
    first = layers.random.integers(-2000, 2000, (16, 8))
    rest = layers.random.integers(-4, 5, (16, 8))
    last = layers.random.integers(-2000, 2000, (8, 16))
    a, b = layers.tensor(1, 1, 16, 16), layers.tensor(1, 1, 16, 8)
    weights = np.concatenate([first, rest - first], 1), last
    for tensor, items in zip((a, b), weights, strict=True):
        tensor.copy_from(items.reshape(*items.shape, 1, 1).astype(np.int16))
    params = vx.ConvolutionParams(
        overflow_policy=SATURATE, rounding_policy=vx.RoundPolicy.TO_NEAREST_EVEN
    )
    hidden, absolute = (layers.graph.create_virtual_tensor() for _ in "ab")
    layers.graph.convolution_layer(x, a, None, params, hidden)
    layers.graph.activation_layer(hidden, F.ABS, 0, 0, absolute)
    layers.graph.convolution_layer(absolute, b, None, params, y)
    layers.graph.export_nnef(tmp_path / "net")
    text = (tmp_path / "net" / "graph.nnef").read_text()
    assert text.count("reshape(") == 2, text

    def summed(items: Array, matrix: Array) -> Array:
        sums = np.einsum("oc,chw->ohw", matrix, items)
        return np.clip((sums + 128) >> 8, -(1 << 15), (1 << 15) - 1)  # halves up

    sums = np.minimum(np.abs(summed(np.concatenate([half, half]), weights[0])), (1 << 15) - 1)
    want = summed(sums, last)
    model: Any = nnefc.compile(tmp_path / "net", threads=1)
    found = model(x.copy_to() / np.float32(256)) * 256
    np.testing.assert_array_equal(found, want)
    assert len(np.unique(want)) > 30
