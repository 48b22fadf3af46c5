"""`nnefc.pytorch.export` writes documents that compute what the module computes."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
from torch import Tensor, nn

import nnefc
import nnefc.pytorch
from nnefc import NnefError
from nnefc.pytorch.export_traced import _one_message  # pyright: ignore[reportPrivateUsage]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4)
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(4, 5)

    def forward(self, x: Tensor, *, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        y = self.drop(torch.relu(self.norm(self.conv(x)))).mean((2, 3)) * weights["scale"]
        return {"scores": self.head(y), "means": y.mean(1)}


def text_of(path: Path) -> str:
    with tarfile.open(path) as archive:
        member = archive.extractfile("graph.nnef")
        assert member is not None
        return member.read().decode()


def require_equal(path: Path, inputs: Sequence[Tensor], wanted: Sequence[Tensor]) -> None:
    found: Any = nnefc.compile(path)(*(x.numpy() for x in inputs))
    several = found if isinstance(found, tuple) else (found,)
    for y, expected in zip(several, wanted, strict=True):
        np.testing.assert_allclose(y, expected.detach().numpy(), 1e-4, 1e-5)


@pytest.mark.parametrize(("to", "first"), [("auto", "graph"), ("nnef", "graph"), ("tract", "ext")])
def test_documents_compute_what_the_module_computes(to: Any, first: str, tmp_path: Path) -> None:
    """The module is exported in evaluation mode, and keeps its own."""
    torch.manual_seed(0)
    module = Network().train()
    module.norm.eval()
    x, scale = torch.randn(2, 3, 9, 9), torch.rand(4)
    arguments = {"weights": {"scale": scale}}
    path = nnefc.pytorch.export(module, x, tmp_path / "net.nnef.tgz", kwargs=arguments, to=to)
    assert module.training
    assert not module.norm.training
    assert text_of(path).splitlines()[2].startswith(first)
    require_equal(path, (x, scale), [*module.eval()(x, **arguments).values()])


class Join(nn.Module):
    def forward(self, new: Tensor, past: Tensor, mask: Tensor) -> Tensor:
        return torch.cat([past, new], 1).softmax(1) * mask


def test_symbols_have_the_names_that_are_given(tmp_path: Path) -> None:
    """An extent that depends on others is written so."""
    inputs = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(8, 1)
    path = nnefc.pytorch.export(
        Join(),
        inputs,
        tmp_path / "net.nnef.tgz",
        output_names=["sums"],
        dynamic_axes={"new": {1: "S"}, "past": {1: "P"}, "mask": {0: "T"}},
        assertions=["S <= 64", "T == S + P"],
    )
    model: Any = nnefc.compile(path)
    assert [shape.extents for shape in model.shapes][:2] == [("2", "S", "4"), ("2", "P", "4")]
    assert "tract_assert S <= 64" in text_of(path)
    other = torch.randn(2, 2, 4), torch.randn(2, 9, 4), torch.randn(11, 1)
    require_equal(path, other, [Join()(*other)])


class Counter(nn.Module):
    """A mean with a number without dimensions, and flags; old and new values are results."""

    def __init__(self) -> None:
        super().__init__()
        self.mean: Tensor
        self.Count: Tensor
        self.register_buffer("Count", torch.zeros(()))
        self.register_buffer("mean", torch.arange(6.0).reshape(2, 3))
        self.register_buffer("seen", torch.zeros(3, dtype=torch.bool))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        self.Count = self.Count + 1
        old = self.mean.clone()
        self.mean.mul_(0.5).add_(x.sum(0))
        self.seen = self.seen | (x[0, 0] > 1)
        return self.mean * 2, old, self.Count + 3, self.seen.clone()


def test_buffers_that_change_are_variables_that_the_document_updates(tmp_path: Path) -> None:
    """The first values are those of the module, which it keeps."""
    torch.manual_seed(0)
    module, x = Counter(), torch.randn(2, 2, 3)
    module(x)
    model: Any = nnefc.compile(nnefc.pytorch.export(module, x, tmp_path / "net.nnef.tgz"))
    for _ in range(3):
        x = 2 * torch.randn(2, 2, 3)
        for y, expected in zip(model(x.numpy()), module(x), strict=True):
            np.testing.assert_allclose(y, expected.numpy(), 1e-6, 1e-6)
    assert "update(Count, " in text_of(tmp_path / "net.nnef.tgz")


def test_tokens_of_64_bits_are_read_on_request(tmp_path: Path) -> None:
    """NNEF 1.0.2 has integers without a width."""
    module, tokens = nn.Embedding(10, 4), torch.tensor([[3, 9]])
    path = nnefc.pytorch.export(module, tokens, tmp_path / "net.nnef.tgz", to="nnef")
    model: Any = nnefc.compile(path, integer="int64")
    assert np.array_equal(model(tokens.numpy()), module(tokens).detach().numpy())


LINEAR, X = nn.Linear(3, 2), torch.randn(4, 2, 3)


@pytest.mark.parametrize(
    ("module", "options", "message"),
    [
        (Counter(), {"to": "tract"}, "states that a call replaces: 'Count', 'mean', 'seen'"),
        (LINEAR, {"version": "0.23.9"}, "version: no option of this exporter"),
        (LINEAR, {"exporter": "other"}, "exporter = 'other'"),
        (LINEAR, {"dynamic_axes": {"input": {2: "F"}}}, "the module fixes it to 3"),
        (LINEAR, {"output_names": ["a", "b"]}, "2 names, expected 1"),
        (LINEAR, {"to": "onnx"}, "to = 'onnx': must be one of 'auto', 'nnef', 'tract'"),
        (LINEAR, {"to": "nnef", "dynamic_axes": {"input": {0: "B"}}}, "NNEF 1.0.2 has no symbols"),
    ],
)
def test_nothing_is_written_after_an_error(
    module: nn.Module, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(NnefError) as caught:
        nnefc.pytorch.export(module, X, tmp_path / "net.nnef.tgz", **options)
    assert message in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_messages_of_torch_to_nnef_are_short() -> None:
    """Its exceptions may show tensors with all their items."""
    pages = "\n".join(["cannot export aten::special_i0", *["tensor([1e-38, 3e-41])"] * 150])
    with pytest.raises(NnefError) as caught, _one_message():
        raise RuntimeError(f"{pages} __module.layers.0.gate")
    (error,) = caught.value.errors
    assert error.message == (
        "torch_to_nnef cannot export the module: in 'layers.0.gate': "
        "RuntimeError: cannot export aten::special_i0"
    )
    assert error.hint
