"""Graphs of `torch.compile(module, backend="nnefc")` compute what eager mode computes."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
import torch._dynamo
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from nnefc.pytorch import native_piece
from nnefc.pytorch.backend import nnefc
from nnefc.pytorch.compile_module import compile as compile_module
from nnefc.pytorch.memory.input_changes import InputChanges
from nnefc.pytorch.pieces import pieces_of, unsupported_nodes
from nnefc.runtime.run.executable import run_in_place
from nnefc.support.errors import NnefError, NnefWarning


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    """Dynamo compiles here, unlike in the other tests of this folder, and reports errors."""
    torch.compiler.reset()
    reported: Any = torch._dynamo.config.patch(suppress_errors=False)  # pyright: ignore[reportPrivateUsage]
    with torch.compiler.set_stance("default"), torch.no_grad(), reported:
        yield


class Counting(nn.Module):
    """A module that changes a buffer and its input."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        self.count += 1
        y = self.linear(x)
        x.mul_(2)
        return y + self.count, x.shape[0], x[1:]


def assert_same(found: Any, want: Any) -> None:
    torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-5)


def test_results_buffers_and_changed_inputs_are_those_of_eager_mode() -> None:
    """Also for other extents, and after a change of the weights."""
    torch.manual_seed(0)
    module = Counting().eval()
    other = copy.deepcopy(module)
    compiled: Any = torch.compile(module, backend=nnefc)
    for rows in (5, 5, 7, 4):
        x = torch.randn(rows, 3)
        y = x.clone()
        assert_same(compiled(x), other(y))
        assert_same((x, module.count), (y, other.count))
        for each in (module, other):
            each.linear.weight.add_(1)


def test_unknown_operators_alone_are_run_by_pytorch() -> None:
    """Also operators of types that nnefc does not have, and between others, for several shapes."""

    def function(x: Any, count: int) -> Any:
        y = torch.special.i0(torch.relu(x) @ x) @ x + count
        return y.reshape(count, -1).cumsum(0), (x * 1j).abs() * 2

    compiled: Any = torch.compile(function, backend=nnefc)
    with pytest.warns(NnefWarning, match=r"test_backend.*aten.i0"):
        for n, count in ((4, 2), (6, 3), (6, 2)):
            x = torch.randn(n, n)
            assert_same(compiled(x, count), function(x, count))


def test_a_graph_is_cut_around_unknown_operators() -> None:
    def function(x: Any) -> Any:
        return torch.special.i0(torch.relu(x) @ x) @ torch.relu(x) + 1

    x = torch.randn(3, 3)
    graph: Any = make_fx(function)(x)
    pieces = pieces_of(graph, unsupported_nodes(graph))
    assert [each.is_native for each in pieces] == [True, False, True]
    nodes = [[node.name for node in each.module.graph.nodes] for each in pieces]
    assert nodes[1] == ["mm", "i0", "output"]
    for each in pieces:
        x_like = [torch.randn(3, 3) for _ in each.inputs]
        assert len(each.module(*x_like)) == len(each.outputs)


def test_items_of_16_bits() -> None:
    """Results are at least as precise as PyTorch's, which rounds more often."""
    module = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4)).eval()
    x = torch.randn(3, 16)
    for dtype in (torch.float16, torch.bfloat16):
        other = copy.deepcopy(module).to(dtype)
        compiled: Any = torch.compile(other, backend=nnefc, mode="max-autotune")
        found = compiled(x.to(dtype))
        assert found.dtype is dtype
        torch.testing.assert_close(found.float(), module(x), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_caches_are_updated_in_their_memory(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, is_turned: bool
) -> None:
    """Nothing is copied if the cache is contiguous; then other graphs see that it changed."""
    results: list[Any] = []

    def run(*args: Any) -> Any:
        results.append(run_in_place(*args))
        return results[-1]

    monkeypatch.setattr(native_piece, "run_in_place", run)

    def function(cache: Any, new: Any, at: Any) -> Any:
        cache[:, at] = new
        return cache.float().sum(1), at + 1

    cache, at = torch.zeros(2, 5, 3, dtype=dtype), torch.tensor([3])
    cache = torch.zeros(3, 5, 2, dtype=dtype).permute(2, 1, 0) if is_turned else cache
    other = cache.clone()
    compiled: Any = torch.compile(function, backend=nnefc)
    for i in (3, 0, 3):
        new, at = torch.randn(2, 1, 3).to(dtype), torch.tensor([i])
        before = cache._version
        assert_same(compiled(cache, new, at), function(other, new, at))
        assert_same(cache, other)
        assert cache._version > before
    used = [
        each is not None and any(x.ctypes.data == cache.data_ptr() for x in each)
        for each in results
    ]
    assert used == ([] if is_turned and dtype is torch.bfloat16 else [not is_turned] * 3)


def test_a_cache_whose_former_value_is_read_is_copied() -> None:
    def function(cache: Any, new: Any, at: Any) -> Any:
        before = cache.clone()
        cache.index_copy_(0, at, new)
        return cache @ new.T, before @ new.T

    cache = torch.randn(5, 3)
    other = cache.clone()
    compiled: Any = torch.compile(function, backend=nnefc)
    for i in (3, 0):
        new, at = torch.randn(1, 3), torch.tensor([i])
        assert_same(compiled(cache, new, at), function(other, new, at))
        assert_same(cache, other)


def test_additions_to_a_cache_and_branches_of_unknown_operators() -> None:
    """An addition is not made in place, because it is not the same if the graph runs again."""

    def function(cache: Any, new: Any, at: Any) -> Any:
        cache.index_put_((at,), new, accumulate=True)
        choose: Any = torch.cond
        return choose(new.sum() > 0, torch.special.i0, torch.sin, (new,))

    cache = torch.randn(5, 3)
    other = cache.clone()
    graph: Any = torch.compile(function, backend=nnefc)
    new, at = torch.randn(2, 3), torch.tensor([3, 3])
    with pytest.warns(NnefWarning, match="higher_order.cond"):
        found = graph(cache, new, at)
    assert_same(found, function(other, new, at))
    assert_same(cache, other)


def test_large_inputs_are_changed_without_the_threads_of_pytorch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also those of other strides; small ones and 16 bits as PyTorch does it."""
    copied: list[int] = []

    def run(self: InputChanges, *args: Any) -> Any:
        copied.append(len(args))
        return plain(self, *args)

    plain = InputChanges.__call__
    monkeypatch.setattr(InputChanges, "__call__", run)

    def function(x: Any, y: Any, z: Any, new: Any) -> Any:
        z.copy_(x.sum(0) * 2)
        x.copy_(x @ new)
        y.add_(x.to(y.dtype).mT)
        return x.sum()

    new = torch.randn(200, 200) / 14
    x, y, z = torch.randn(200, 200).mT, torch.randn(200, 200).bfloat16(), torch.zeros(200)
    others: Any = [each.clone() for each in (x, y, z)]
    before = [each._version for each in (x, y, z)]
    compiled: Any = torch.compile(function, backend=nnefc)
    assert_same(compiled(x, y, z, new), function(others[0], others[1], others[2], new))
    torch.testing.assert_close([x, y, z], others, rtol=0.02, atol=0.02)
    assert copied == [6]
    assert all(a._version > b for a, b in zip((x, y, z), before, strict=True))


def test_training_is_refused() -> None:
    compiled: Any = torch.compile(nn.Linear(3, 4), backend=nnefc)
    with torch.enable_grad(), pytest.raises(NnefError, match=r"(?s)no gradients.*no_grad"):
        compiled(torch.randn(2, 3))


def test_batch_normalization_in_training_mode_is_run_by_pytorch() -> None:
    """Its statistics change, as in eager mode."""
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).train()
    other = copy.deepcopy(module)

    def function(x: Any) -> Any:
        return module(x)

    compiled: Any = torch.compile(function, backend=nnefc)
    x = torch.randn(5, 4)
    message = r"test_backend.py:\d+:1: .*batch normalization in training mode"
    with pytest.warns(NnefWarning, match=message):
        assert_same(compiled(x), other(x))
    assert_same(compiled(x), other(x))
    assert_same(module.state_dict(), other.state_dict())


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"options": {"thread": 2}}, "threads, precision"),
        ({"options": {"precision": "float8"}}, "'bfloat16'"),
        ({"options": {"accuracy": "best"}}, "must be 'fast' or 'strict'"),
        ({"options": {"threads": 0}}, "threads = 0"),
        ({"mode": "fast"}, "max-autotune"),
    ],
)
def test_unknown_options_are_refused(chosen: dict[str, Any], message: str) -> None:
    compiled: Any = torch.compile(nn.Linear(3, 4), backend=nnefc, **chosen)
    with pytest.raises(NnefError, match=message):
        compiled(torch.randn(2, 3))


def test_options_choose_threads_and_precision() -> None:
    module = nn.Linear(64, 8).eval()
    x = torch.randn(2, 64)
    options: Any = {"threads": 1, "precision": "float32"}
    compiled: Any = torch.compile(module, backend=nnefc, options=options)
    assert_same(compiled(x), module(x))


def test_strict_convolutions_are_sums_of_products() -> None:
    """Winograd's algorithm, which is faster here, has larger errors."""
    torch.manual_seed(0)
    module, x = nn.Conv2d(64, 64, 3).eval(), torch.randn(1, 64, 34, 34)
    want = copy.deepcopy(module).double()(x.double())
    strict: Any = torch.compile(module, backend=nnefc, options={"accuracy": "strict"})
    models = [compile_module(module, (x,), accuracy=each) for each in ("fast", "strict")]
    with torch.no_grad():
        fast, exact, compiled = ((each(x) - want).abs().max().item() for each in (*models, strict))
    assert max(exact, compiled) < fast / 2


def test_pytorch_finds_the_backend_by_its_name() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    found = project["project"]["entry-points"]["torch_dynamo_backends"]
    assert found == {"nnefc": f"{nnefc.__module__}:{nnefc.__name__}"}


def test_results_have_the_strides_of_eager_mode() -> None:
    """Views that are possible in `channels_last` alone, of results of nnefc and of PyTorch."""
    torch.manual_seed(0)
    conv: Any = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]

    def function(x: Any, y: Any) -> Any:
        z = conv(x).relu()
        rows = torch.special.i0(z).permute(0, 2, 3, 1).view(-1, 4)
        return z, rows, torch.as_strided(y * 2, (3,), (1,)), (y + 1).t()

    x = torch.randn(2, 3, 5, 5).to(memory_format=torch.channels_last)
    y = torch.randn(3, 5).t()
    with pytest.warns(NnefWarning, match="aten.as_strided|aten.special_i0"):
        found: Any = torch.compile(function, backend=nnefc)(x, y)
    want = function(x, y)
    assert_same(found, want)
    assert [each.stride() for each in found] == [each.stride() for each in want]
