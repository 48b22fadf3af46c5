"""Keys and values that a compiled graph extends are written once, and callers may keep all of them.

Eager PyTorch, whose results are new memory, is the reference.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportPrivateUsage=false
from __future__ import annotations

import copy
import gc
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import torch
from torch.nn.functional import scaled_dot_product_attention

from nnefc.pytorch.backend import nnefc
from nnefc.pytorch.memory import growing_memory
from nnefc.support.errors import NnefError


def step(past: Any, q: Any, k: Any, v: Any, index: Any) -> tuple[Any, Any]:
    """The result of a step, and the extended keys and values."""
    keys, values = torch.cat([past[0], k], -2), torch.cat([past[1], v], 2)
    y = scaled_dot_product_attention(q, keys, values) + past[0].sum() + past[1].mean(2, True)
    return y[index], (keys, values)


class Steps:
    """Compares the steps of a compiled function with those of eager mode, and keeps all results."""

    def __init__(self) -> None:
        self.graphs = 0
        self.compiled: Any = torch.compile(step, backend=self._counted)
        self.kept: list[tuple[Any, Any]] = []

    def _counted(self, *args: Any, **named: Any) -> Any:
        self.graphs += 1
        return nnefc(*args, **named)

    def __call__(self, past: Any, rows: int = 1) -> Any:
        q, k, v = (torch.randn(*past[0].shape[:2], rows, 8) for _ in range(3))
        index = torch.tensor([0])
        own: list[Any] = [x.clone(memory_format=torch.contiguous_format) for x in past]
        y, found = self.compiled(past, q, k, v, index)
        want, extended = step(own, q, k, v, index)
        torch.testing.assert_close(y, want, rtol=1e-4, atol=1e-5)
        self.kept.append((found, extended))
        return found

    def check(self) -> None:
        """Compare all results so far, which later steps must not have changed."""
        for found, want in self.kept:
            assert all(map(torch.equal, found, want))


@pytest.fixture
def steps() -> Iterator[Steps]:
    torch.compiler.reset()
    torch.manual_seed(0)
    reported: Any = torch._dynamo.config.patch(suppress_errors=False)
    with torch.compiler.set_stance("default"), torch.no_grad(), reported:
        yield Steps()


def first() -> tuple[Any, Any]:
    return torch.randn(2, 3, 5, 8), torch.randn(2, 3, 5, 8)


def test_rows_are_appended_in_place_and_kept_results_stay(steps: Steps) -> None:
    """Also beyond the room of a memory, in which no graph is compiled again."""
    past, places = first(), list[int]()
    for _ in range(65):
        past = steps(past)
        places.append(past[0].data_ptr())
    assert steps.graphs == 2
    assert len(set(places)) == 3  # of 32, 64 and 128 rows
    steps.check()

    # another future of a step before, and of its first rows
    for old in (steps.kept[40][0], tuple(x[:, :, :20] for x in past)):
        forks = [steps(steps(old)) for _ in range(2)]
        assert len({x[0].data_ptr() for x in (past, *forks)}) == 3
    # copies, other orders of the samples, and the same tensor twice
    reordered = tuple(x.index_select(0, torch.tensor([1, 0])) for x in past)
    for other in (copy.deepcopy(past), reordered, (past[0], past[0]), past[::-1]):
        steps(steps(other))
    # a tensor that its caller has changed
    past[0].mul_(2)
    steps.kept = steps.kept[:30]
    steps(past)
    steps.check()

    before = [each[0] for each in steps.kept]
    with pytest.raises(NnefError, match="input/index"):
        new = torch.randn(2, 3, 1, 8)
        steps.compiled(before[-1], new, new, new, torch.tensor([7]))
    assert steps(before[-1])[0].data_ptr() == before[-1][0].data_ptr()  # its rows are free again
    steps.check()


def test_several_rows_and_memory_without_tensors(steps: Steps) -> None:
    past = first()
    for rows in (1, 1, 3, 4, 1, 4, 60, 2):
        past = steps(past, rows)
    steps.check()
    del past
    steps.kept.clear()
    gc.collect()
    assert not growing_memory._memories
