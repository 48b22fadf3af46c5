"""`export(exporter="torch_to_nnef")` checks its arguments and does not change the module."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch_to_nnef", reason="the exporter is not installed")

import torch
from torch import Tensor, nn
from torch_to_nnef.tensor.quant import fp_to_tract_q4_0_with_min_max_calibration

import nnefc
import nnefc.pytorch
from nnefc import NnefError

export = partial(nnefc.pytorch.export, exporter="torch_to_nnef")

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Decoder(nn.Module):
    """Attention whose keys and values are appended to an empty cache, as in `transformers`."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 24)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.project(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        q, k, v = heads.unbind()
        k, v = (torch.cat([torch.tensor([]), each], dim=-2) for each in (k, v))
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return y.transpose(1, 2).flatten(2)


def test_an_empty_cache(tmp_path: Path) -> None:
    module = Decoder().eval()
    path = export(
        module,
        torch.randn(1, 5, 8),
        tmp_path / "decoder.nnef.tgz",
        input_names=["x"],
        dynamic_axes={"x": {1: "S"}},
    )
    model = nnefc.compile(path, threads=1)
    for length in (5, 9, 1):
        x = torch.randn(1, length, 8)
        np.testing.assert_allclose(model(x.numpy()), module(x).detach(), rtol=1e-4, atol=1e-5)


class Mixed(nn.Module):
    """Weights that are tied, a buffer, a tensor that is an attribute, and one that is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(7, 4), nn.Linear(4, 7)
        self.head.weight = self.words.weight
        self.norm, self.drop = nn.BatchNorm1d(4), nn.Dropout(0.5)
        self.register_buffer("scale", torch.full((4,), 2.0))
        self.shift = torch.ones(4)
        self.frozen = nn.Parameter(torch.ones(4), requires_grad=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.drop(self.norm(self.words(ids))) * self.scale + self.shift
        return self.head(x * self.frozen)


def contents(module: nn.Module) -> dict[str, Any]:
    """The contents of a module: names and objects."""
    found: dict[str, Any] = {}
    for name, each in module.named_modules():
        found[f"{name} training"] = each.training
        for attribute, value in vars(each).items():
            held = value.items() if isinstance(value, dict) else [("", value)]
            found |= {f"{name}.{attribute}.{key}": item for key, item in held}
    found |= {f"{name} gradient": p.requires_grad for name, p in module.named_parameters()}
    return found


def require_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert list(before) == list(after)
    assert [name for name in before if before[name] is not after[name]] == []


IDS = torch.tensor([1, 2, 6, 0, 1])


def test_the_module_is_unchanged(tmp_path: Path) -> None:
    module = Mixed().train()
    module.norm.eval()  # each part has a mode of its own
    calls: list[int] = []
    module.register_forward_hook(lambda *_: calls.append(1))
    before, weights = contents(module), copy.deepcopy(module.state_dict())
    export(module, IDS, tmp_path / "net.nnef.tgz")
    require_same(before, contents(module))
    for name, weight in module.state_dict().items():
        assert torch.equal(weight, weights[name]), name
    assert type(module.head.weight) is nn.Parameter
    assert module.head.weight is module.words.weight


def test_a_module_can_be_used_and_trained_afterwards(tmp_path: Path) -> None:
    module = Mixed()
    path = export(module, IDS, tmp_path / "net.nnef.tgz")
    found = nnefc.compile(path)(IDS)
    with torch.no_grad():
        np.testing.assert_allclose(found, copy.deepcopy(module).eval()(IDS).numpy(), atol=1e-5)
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    module(IDS).sum().backward()
    assert module.words.weight.grad is not None
    before = module.words.weight.detach().clone()
    optimizer.step()
    assert not torch.equal(module.words.weight, before)
    torch.save(module.state_dict(), tmp_path / "net.pt")
    again = nnefc.compile(export(module, IDS, tmp_path / "again.nnef.tgz"))
    with torch.no_grad():
        np.testing.assert_allclose(again(IDS), module.eval()(IDS).numpy(), atol=1e-5)


def test_a_module_is_exported_in_one_type_and_then_in_another(tmp_path: Path) -> None:
    linear, x = nn.Linear(4, 3), torch.randn(2, 4)
    for dtype in (torch.float32, torch.float16):
        given = x.to(dtype)
        path = export(linear.to(dtype), given, tmp_path / "net.nnef.tgz")
        assert nnefc.compile(path).inputs[0].dtype == given.numpy().dtype


def test_a_script_keeps_its_mode(tmp_path: Path) -> None:
    script = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train())
    weights = {name: each.clone() for name, each in script.state_dict().items()}
    export(script, torch.randn(2, 4), tmp_path / "net.nnef.tgz")
    assert all(each.training for each in script.modules())
    for name, each in script.state_dict().items():
        assert torch.equal(each, weights[name])


def test_a_module_with_blocks_of_weights_is_unchanged(tmp_path: Path) -> None:
    linear = nn.Linear(64, 32)
    quantized = fp_to_tract_q4_0_with_min_max_calibration(linear.weight)
    linear.weight = nn.Parameter(quantized, requires_grad=False)
    x = torch.randn(2, 64)
    wanted, before = linear(x).detach().numpy(), contents(linear)
    path = export(linear, x, tmp_path / "net.nnef.tgz")
    require_same(before, contents(linear))
    np.testing.assert_array_equal(linear(x).detach().numpy(), wanted)
    np.testing.assert_allclose(nnefc.compile(path)(x), wanted, atol=1e-4)


def test_a_module_that_cannot_be_exported_is_unchanged(tmp_path: Path) -> None:
    class Refused(Mixed):
        def forward(self, ids: Tensor) -> Tensor:
            return nn.functional.softplus(super().forward(ids), beta=3.0)

    module = Refused()
    before = contents(module)
    with pytest.raises(NnefError, match="torch/export") as caught:
        export(module, IDS, tmp_path / "net.nnef.tgz")
    require_same(before, contents(module))
    assert not list(tmp_path.iterdir())
    assert len(str(caught.value)) < 500


class Sum(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


X, Y = torch.randn(2, 4), torch.randn(2, 4)


def refused(folder: Path, module: Any = None, inputs: Any = (X, Y), **options: Any) -> NnefError:
    options = {"input_names": ["x", "y"], **options}
    with pytest.raises(NnefError) as caught:
        export(module or Sum(), inputs, folder / "net.nnef.tgz", **options)
    assert not list(folder.iterdir())
    return caught.value


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"module": lambda x: x}, "is given as function, expected a torch.nn.Module"),
        ({"inputs": {"x": X, "y": Y}}, "the inputs are given as dict"),
        ({"inputs": None}, "the inputs are given as NoneType"),
        ({"inputs": X.numpy()}, "the inputs are given as ndarray"),
        ({"inputs": (X, Y.numpy())}, "input 1 is given as an array of NumPy"),
        ({"version": "0.23"}, "version = '0.23': expected a version of tract"),
        ({"version": 0.23}, "version = 0.23: expected a version of tract"),
        ({"input_names": ["x"]}, "1 names, expected 2"),
        ({"input_names": ["x", "y", "z"]}, "3 names, expected 2"),
        ({"input_names": ["x", "x"]}, "a name occurs twice"),
        ({"input_names": "xy"}, "input_names = 'xy': expected names"),
        ({"input_names": ["x", "a.b"]}, "'a.b' cannot be the name of a tensor"),
        ({"input_names": ["x", "graph"]}, "'graph' cannot be the name of a tensor"),
        ({"output_names": ["a", "b"]}, "output_names = ['a', 'b']: 2 names, expected 1"),
        ({"dynamic_axes": {"z": {0: "B"}}}, "there is no input 'z'"),
        ({"dynamic_axes": {"x": [0]}}, "'x' has [0], expected symbols by axis"),
        ({"dynamic_axes": [("x", {0: "B"})]}, "expected axes with symbols, by input"),
        ({"dynamic_axes": {"x": {2: "B"}}}, "'x' of rank 2 has no axis 2"),
        ({"dynamic_axes": {"x": {"0": "B"}}}, "has no axis '0'"),
        ({"dynamic_axes": {"x": {0: "batch-size"}}}, "'batch-size' of 'x' cannot be a symbol"),
        ({"dynamic_axes": {"x": {0: "B"}, "y": {1: "B"}}}, "B is 2, and 4 at axis 1 of y"),
        ({"assertions": ["B >= 1"]}, "'B >= 1': no axis has the symbol B"),
        (
            {"dynamic_axes": {"x": {0: "B"}}, "assertions": ["B <= 5", "Q <= 5"]},
            "'Q <= 5': no axis has the symbol Q",
        ),
        (
            {"dynamic_axes": {"x": {0: "B"}}, "assertions": ["B <= 5", "B >= 7"]},
            "'B >= 7' does not hold for the inputs that are traced: B = 2",
        ),
        (
            {"dynamic_axes": {"x": {0: "B"}}, "assertions": ["B <="]},
            "'B <=' is no assertion",
        ),
        ({"dynamic_axes": {"x": {0: "B"}}, "assertions": "B <= 5"}, "expected a list of them"),
    ],
)
def test_wrong_arguments(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    error = refused(tmp_path, **options)
    assert {each.rule for each in error.errors} == {"input/argument"}
    assert words in str(error)


def test_axes_may_be_counted_from_the_end(tmp_path: Path) -> None:
    axes = {name: {-2: "B"} for name in ("x", "y")}
    path = export(
        Sum(),
        (X, Y),
        tmp_path / "net.nnef.tgz",
        input_names=["x", "y"],
        dynamic_axes=axes,
        assertions=["B >= 1", "short: B <= 1"],
    )
    model = nnefc.compile(path)
    assert [spec.shape for spec in model.inputs] == [(-1, 4)] * 2
    np.testing.assert_array_equal(model(X[:1], Y[:1]), (X + Y)[:1].numpy())


class Pair(nn.Module):
    def forward(self, x: Tensor, pair: tuple[Tensor, Tensor]) -> Tensor:
        return x + pair[0] + pair[1]


def test_tensors_within_inputs_are_named_after_them(tmp_path: Path) -> None:
    names = ["x", "pair"]
    inputs: Any = X, (Y, Y)
    axes = {name: {0: "B"} for name in ("x", "pair_0", "pair_1")}
    path = tmp_path / "net.nnef.tgz"
    export(Pair(), inputs, path, input_names=names, dynamic_axes=axes)
    model = nnefc.compile(path)
    assert [(spec.name, spec.shape) for spec in model.inputs] == [(n, (-1, 4)) for n in axes]
    path.unlink()
    for wrong in ("pair", "y"):
        error = refused(tmp_path, Pair(), inputs, input_names=names, dynamic_axes={wrong: {0: "B"}})
        assert f"there is no input {wrong!r}" in str(error)
        assert "the inputs are x, pair_..." in str(error)


@pytest.mark.parametrize("name", ["net", "net.tgz", "net.nnef", "net.nnef.tar"])
def test_other_suffixes_than_nnef_tgz_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(NnefError, match=r"for example net\.nnef\.tgz"):
        export(Sum(), (X, Y), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_failed_export_creates_no_folder(tmp_path: Path) -> None:
    with pytest.raises(NnefError, match="data/write"):
        export(Sum(), (X, Y), tmp_path / "none" / "net.nnef.tgz")
    assert not list(tmp_path.iterdir())


def test_unknown_options_are_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"'fast': options are .*reify_sdpa_operator"):
        export(Sum(), (X, Y), tmp_path / "net.nnef.tgz", fast=True)


BFLOAT16: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "weights": (lambda: nn.Linear(4, 4).bfloat16(), X.bfloat16()),
    "on-the-way": (lambda: nn.Sequential(Cast(torch.bfloat16), Cast(torch.float32)), X),
}


class Cast(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, x: Tensor) -> Tensor:
        return x.to(self.dtype)


@pytest.mark.parametrize("case", BFLOAT16)
def test_bfloat16_is_refused(tmp_path: Path, case: str) -> None:
    module, x = BFLOAT16[case]
    error = refused(tmp_path, module(), x, input_names=["x"])
    assert error.errors[0].rule == "input/dtype"
    assert "half()" in error.errors[0].hint
