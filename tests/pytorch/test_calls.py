"""Calls of compiled modules: arguments have the form of the example, errors name them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
from torch import nn

import nnefc
import nnefc.pytorch
from nnefc.support.errors import NnefError

X = torch.arange(8.0).reshape(2, 4)


class Scaled(nn.Module):
    def forward(self, x: Any, by: Any, pair: Any = None) -> Any:
        factor = by if isinstance(by, int | float) else 2
        return x * factor if pair is None else pair["a"] - pair["b"] * x * factor


def refuse(message: str, model: Any, *args: Any, **kwargs: Any) -> None:
    """A call is one error with a message that matches."""
    with pytest.raises(NnefError) as raised:
        model(*args, **kwargs)
    assert re.search(message, str(raised.value), re.DOTALL), raised.value


@pytest.mark.parametrize(
    ("example", "other"), [(3, 4), (3, 3.0), (1, True), (2.5, 3.5), ("a", "b"), (None, 3)]
)
def test_values_that_are_no_tensors_are_constants(example: Any, other: Any) -> None:
    model = nnefc.pytorch.compile(Scaled(), (X, example))
    torch.testing.assert_close(model(by=example, x=X), Scaled()(X, example))
    message = f"'by' is {re.escape(repr(other))}, but {re.escape(repr(example))} in the example"
    refuse(f"{message}.*input/argument", model, X, other)


def test_integers_may_be_dynamic(tmp_path: Path) -> None:
    """Also that of a file, and one that is an extent of a tensor."""
    dynamic: Any = torch.export.Dim.DYNAMIC

    class Times(nn.Module):
        def forward(self, x: Any, by: Any) -> Any:
            return x * by

    model = nnefc.pytorch.compile(Times(), (X, 3), dynamic_shapes=(None, dynamic))
    for n in (3, 5, -2):
        torch.testing.assert_close(model(X, n), X * n)
    refuse("argument 'by' is of type float, expected an integer", model, X, 1.5)
    exported = torch.export.export(Times(), (X, 3), dynamic_shapes=(None, dynamic))
    torch.export.save(exported, tmp_path / "scaled.pt2")
    saved: Any = nnefc.compile(tmp_path / "scaled.pt2")
    np.testing.assert_array_equal(saved(X.numpy(), np.array(5)), X.numpy() * 5)

    class Rows(nn.Module):
        def forward(self, x: Any, n: Any) -> Any:
            return x.reshape(n, -1) + x.view(n, 4)

    rows = nnefc.pytorch.compile(Rows(), (X, 2), dynamic_shapes=({0: dynamic}, dynamic))
    torch.testing.assert_close(rows(torch.ones(3, 4), 3), torch.full((3, 4), 2.0))
    refuse("input/shape", rows, torch.ones(3, 4), 2)


def test_arguments_of_another_form_are_named() -> None:
    pair = {"a": X, "b": X * 2}
    model = nnefc.pytorch.compile(Scaled(), (X, 2), {"pair": pair})
    want = Scaled()(X, 2, pair)
    torch.testing.assert_close(model(X, 2, {"b": X * 2, "a": X}), want)
    refuse("4 arguments are given by position.* x, by, pair", model, X, 2, pair, X)
    refuse("'pair' is missing: the example had x, by, pair", model, X, 2)
    refuse("'pairs' is given, but the example had x, by, pair", model, X, 2, pairs=pair)
    refuse("'x' is given twice", model, X, 2, pair, x=X)
    refuse("'pair' is a dictionary of 'a', but a dictionary of 'a', 'b'", model, X, 2, {"a": X})
    refuse(r"'pair\['b'\]' is of type str, expected a tensor", model, X, 2, {"a": X, "b": "x"})


def test_tensors_that_do_not_fit_are_named() -> None:
    """With the names of dimensions that `dynamic_shapes` gives."""
    batch = torch.export.Dim("batch", max=64)

    class Sum(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x + y

    model = nnefc.pytorch.compile(Sum(), (X, X), dynamic_shapes=({0: batch}, {0: batch}))
    assert "batch" in repr(model)
    big, small = torch.ones(65, 4), torch.ones(3, 4)
    refuse("axis 0 of argument 'x' is 65, but batch is at most 64", model, big, big)
    refuse("axis 0 of argument 'y' is 3, but batch is 2 at axis 0 of argument 'x'", model, X, small)
    refuse("axis 1 of argument 'x' is 3, expected 4.*dynamic_shapes", model, X[:, :3], X)
    refuse(r"'y' has the shape \[4\], expected \[batch, 4\]", model, X, X[0])
    refuse(r"'x' is of the type float64.*x.to\(torch.float32\)", model, X.double(), X)
    refuse("'y' is on the device 'meta'", model, X, X.to("meta"))
    refuse("'x' is sparse", model, X.to_sparse(), X)


@pytest.mark.parametrize(
    ("args", "shapes", "message"),
    [
        ((X,), None, r"test_calls.py:\d+:1: .*forward\(x, by, pair\): .*'by'"),
        ((X, 2), ({5: torch.export.Dim("n")}, None), "'x' of rank 2 has no axis 5"),
        ((X, 2), torch.export.Dim("n"), "dynamic_shapes is of type Dim"),
        ((X[:1], 2), ({0: torch.export.Dim("n")}, None), r"constant \(1\).*above 1"),
        ((X, 2), {"z": None}, r"must be the arg names \['x', 'by'\]"),
    ],
)
def test_examples_that_do_not_fit_are_one_error(args: Any, shapes: Any, message: str) -> None:
    with pytest.raises(NnefError) as raised:
        nnefc.pytorch.compile(Scaled(), args, dynamic_shapes=shapes)
    assert re.search(message, str(raised.value), re.DOTALL), raised.value
    assert "TORCH_LOGS" not in str(raised.value)


def test_tensors_in_the_memory_of_others_that_change() -> None:
    class Adding(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            x.add_(1)
            return y * 2

    model = nnefc.pytorch.compile(Adding(), (torch.zeros(2, 4), torch.zeros(2, 4)))
    both = torch.zeros(4, 4)
    torch.testing.assert_close(model(both[:2], both[2:]), torch.zeros(2, 4))
    assert both.sum() == 8
    refuse("'x' and 'y' share memory", model, both[:2], both[1:3])
    refuse("'x' is sparse", model, both[:2].to_sparse(), both[2:])


def test_weights_that_change_are_an_error() -> None:
    """Packed weights would be old ones, others new ones."""
    module = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 3)).eval()
    model = nnefc.pytorch.compile(module, (torch.tensor([1]),))
    model(torch.tensor([2]))
    module.load_state_dict(nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 3)).state_dict())
    refuse("'0.weight' of the module has been changed.*compile it again", model, torch.tensor([1]))


def test_batch_normalization_in_training_mode_is_an_error() -> None:
    with pytest.raises(NnefError, match=r"(?s)torch/training.*module.eval\(\)"):
        nnefc.pytorch.compile(nn.BatchNorm1d(4).train(), (X,))


class Item(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * x.sum().item()


def test_numbers_out_of_computed_tensors_are_refused() -> None:
    message = r"test_calls.py:\d+:1: .*a number out of a tensor that it computes, as item"
    with pytest.raises(NnefError, match=message):
        nnefc.pytorch.compile(Item(), (X,))
