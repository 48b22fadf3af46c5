"""`nnefc.pytorch.compile`: arguments that a module changes, caches, and tensors it cannot take."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
from torch import nn

import nnefc
import nnefc.pytorch
from nnefc.support.errors import NnefError


class Changing(nn.Module):
    """A module that changes its arguments, and returns one of them."""

    def forward(self, x: Any, kept: Any) -> Any:
        kept["sum"].add_(x)
        x[:, 0] = 3
        return x * 2, kept["sum"]


class Sparse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("turns", torch.ones(3).to_sparse())

    def forward(self, x: Any) -> Any:
        return (x * self.turns).abs()


class Training(nn.Module):
    """A module that changes a parameter, and needs a factorisation where `inverts`."""

    def __init__(self, inverts: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.inverts = inverts

    def forward(self, x: Any) -> Any:
        self.linear.weight.mul_(1.5)
        return torch.linalg.inv(self.linear(x)) if self.inverts else self.linear(x)


def test_parameters_that_a_module_changes_are_states() -> None:
    torch.manual_seed(0)
    module, x = Training(), torch.randn(3, 3)
    model = nnefc.pytorch.compile(copy.deepcopy(module), (x,))
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(model(x), module(x))


class Custom(nn.Module):
    def forward(self, x: Any) -> Any:
        y = x.clone()
        torch.ops.nnefc_tests.increment(y)
        return y * 2


def test_custom_operators_without_results_are_refused() -> None:
    """They may change their arguments."""

    @torch.library.custom_op("nnefc_tests::increment", mutates_args={"x"})
    def increment(x: torch.Tensor) -> None:
        x.add_(1)

    assert increment
    with pytest.raises(NnefError, match=r"nnefc_tests\.increment"):
        nnefc.pytorch.compile(Custom(), (torch.ones(3),))


def test_operators_with_effects_are_refused_by_name(tmp_path: Path) -> None:
    """PyTorch orders them by tokens, which have no values."""
    module, x = Training(inverts=True), torch.randn(3, 3)
    with pytest.raises(NnefError, match=r"aten\.linalg_inv_ex\.default: factorisations"):
        nnefc.pytorch.compile(module, (x,))
    with torch.no_grad():
        program = torch.export.export(module, (x,)).run_decompositions()
    torch.export.save(program, tmp_path / "inverse.pt2")
    with pytest.raises(NnefError, match=r"aten\.linalg_inv_ex\.default: factorisations"):
        nnefc.compile(tmp_path / "inverse.pt2")


def test_arguments_that_a_module_changes_are_changed() -> None:
    torch.manual_seed(0)
    module = Changing().eval()
    given = torch.randn(2, 3), {"sum": torch.randn(2, 3)}
    model = nnefc.pytorch.compile(module, given)
    other = copy.deepcopy(given)
    for _ in range(2):
        found, want = model(*given), module(*other)
        torch.testing.assert_close(found, want)
        torch.testing.assert_close(given, other)
        assert found[1] is given[1]["sum"]


class Optional(nn.Module):
    """A module with arguments that are no tensors."""

    def forward(self, x: Any, power: int, mask: Any = None, negates: bool = False) -> Any:
        y = x**power if mask is None else x**power * mask
        return -y if negates else y


def test_arguments_that_are_no_tensors_are_those_of_the_example() -> None:
    x = torch.ones(3)
    model = nnefc.pytorch.compile(Optional().eval(), (x, 3, None), {"negates": True})
    torch.testing.assert_close(model(x, 3, None, negates=True), -x)
    others: list[tuple[Any, ...]] = [(2, None, True), (3, x, True), (3, None, False), (3, None, 1)]
    for power, mask, negates in others:
        with pytest.raises(NnefError, match="in the example"):
            model(x, power, mask, negates=negates)


@pytest.mark.parametrize(
    ("module", "x", "message"),
    [
        (Sparse(), torch.randn(2, 3), r"test_compile.py:\d+:1: .*buffer 'turns' is sparse"),
        (Sparse(), torch.zeros(3).to_sparse(), r"buffer 'turns', argument \[0\] are"),
        (nn.ReLU(), torch.zeros(3, dtype=torch.complex64), r"argument \[0\] is complex"),
        (nn.Linear(3, 3, device="meta"), torch.randn(2, 3), "'weight', .*'bias' are on .* 'meta'"),
        (nn.ReLU(), torch.ones(3, device="meta"), r"argument \[0\] is on the device 'meta'"),
        (nn.ReLU(), torch.ones(3).to_sparse(), "sparse"),
        (nn.ReLU(), torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "quantized"),
    ],
)
def test_tensors_that_cannot_be_had_are_one_error(module: Any, x: Any, message: str) -> None:
    with pytest.raises(NnefError) as raised:
        nnefc.pytorch.compile(module, (x,))
    assert len(raised.value.errors) == 1
    assert re.search(message, str(raised.value))


def test_caches_of_transformers_are_arguments_and_results() -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 20}
    config = transformers.LlamaConfig(**sizes, num_attention_heads=2, num_key_value_heads=1)
    network = transformers.LlamaForCausalLM(config).eval()
    ids = torch.randint(20, (1, 5))
    static = transformers.StaticCache(config=config, max_cache_len=8)
    with torch.no_grad():
        grown = network(ids).past_key_values
        network(ids, past_key_values=static)
    for cache in (grown, static):
        given = {"input_ids": ids[:, :1], "past_key_values": cache}
        model = nnefc.pytorch.compile(network, kwargs=copy.deepcopy(given))
        other = copy.deepcopy(given)
        with torch.no_grad():
            found, want = model(**given), network(**other)
        torch.testing.assert_close(found.logits, want.logits, rtol=1e-4, atol=1e-4)
        pairs = zip(found.past_key_values.layers, want.past_key_values.layers, strict=True)
        for mine, theirs in pairs:
            torch.testing.assert_close(mine.keys, theirs.keys, rtol=1e-4, atol=1e-4)
        assert type(found.past_key_values) is type(cache)
    assert static.layers[0].keys is found.past_key_values.layers[0].keys
