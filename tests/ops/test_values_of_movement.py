"""References of reductions and data movement against formulas, NumPy and PyTorch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (formulas as lambdas over arrays of any type)

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.ops.tools.table import operations
from tests.helpers.examples import examples
from tests.helpers.references import compute, random, same

torch: Any = pytest.importorskip("torch")
SETTINGS = examples(0.4)

Array = np.ndarray[Any, Any]

# -- reductions


@pytest.mark.parametrize("axes", [(), (0,), (1,), (2, 0), (0, 1, 2)])
def test_reductions_match_pytorch(axes: tuple[int, ...]) -> None:
    x = random(3, 4, 5)
    rest = [d for d in range(3) if d not in axes]
    moved = x.transpose(*rest, *sorted(axes)).reshape(*(x.shape[d] for d in rest), -1)
    shape = [1 if d in axes else n for d, n in enumerate(x.shape)]
    flat = torch.from_numpy(moved.copy())

    def check(name: str, theirs: Any, operand: Array = x, **attributes: Any) -> None:
        same(compute(name, operand, axes=axes, **attributes), theirs.numpy().reshape(shape))

    check("sum_reduce", flat.sum(-1))
    check("sum_reduce", flat.mean(-1), normalize=True)
    check("mean_reduce", flat.mean(-1))
    check("max_reduce", flat.amax(-1))
    check("min_reduce", flat.amin(-1))
    check("all_reduce", (flat > -2).all(-1), x > -2)
    check("any_reduce", (flat > 2).any(-1), x > 2)
    mean, variance = compute("moments", x, axes=axes)
    same(mean, flat.mean(-1).numpy().reshape(shape))
    same(variance, flat.var(-1, unbiased=False).numpy().reshape(shape))
    for name, best in (("argmax_reduce", max), ("argmin_reduce", min)):
        first = [row.index(best(row)) for row in moved.reshape(-1, moved.shape[-1]).tolist()]
        assert compute(name, x, axes=axes).ravel().tolist() == first


def test_indices_are_those_of_the_first_of_equal_items() -> None:
    x = np.asarray([[1.0, 3.0, 3.0, 1.0]])
    assert compute("argmax_reduce", x, axes=(1,)).tolist() == [[1]]
    assert compute("argmin_reduce", x, axes=(1,)).tolist() == [[0]]


# -- shapes and parts


def test_reshapes_match_numpy() -> None:
    x = random(2, 3, 4)
    same(compute("reshape", x, shape=(0, -1), axis_start=0, axis_count=-1), x.reshape(2, 12))
    same(compute("reshape", x, shape=(2, 2), axis_start=2, axis_count=1), x.reshape(2, 3, 2, 2))
    same(compute("reshape", x, shape=(1,), axis_start=1, axis_count=0), x.reshape(2, 1, 3, 4))
    same(compute("reshape", x, shape=(-1, 0), axis_start=0, axis_count=2), x.reshape(2, 3, 4))
    same(compute("squeeze", x.reshape(2, 1, 12, 1), axes=(1, 3)), x.reshape(2, 12))
    same(compute("unsqueeze", x, axes=(4, 0)), x.reshape(1, 2, 3, 4, 1))


@given(axes=st.integers(0, 4).flatmap(lambda n: st.permutations(range(n))))
def test_transpose_matches_its_definition(axes: list[int]) -> None:
    x = random(2, 3, 4, 5)
    full = [*axes, *range(len(axes), 4)]
    y = compute("transpose", x, axes=tuple(axes))
    assert y.shape == tuple(x.shape[d] for d in full)
    for index in itertools.product(*map(range, x.shape)):
        assert y[tuple(index[d] for d in full)] == x[index]


def test_split_concat_stack_and_unstack_match_pytorch() -> None:
    x = random(2, 6, 3)
    t = torch.from_numpy(x)
    parts = compute("split", x, axis=1, ratios=(1, 2))
    for ours, theirs in zip(parts, t.split([2, 4], 1), strict=True):
        same(ours, theirs)
    same(compute("concat", parts, axis=1), x)
    slices = compute("unstack", x, axis=2)
    for ours, theirs in zip(slices, t.unbind(2), strict=True):
        same(ours, theirs)
    same(compute("stack", slices, axis=0), torch.stack(t.unbind(2), 0))
    same(compute("tile", x, repeats=(3, 1, 2)), t.tile(3, 1, 2))
    assert len(compute("copy_n", x, times=3)) == 3
    same(compute("add_n", [x, x[:, :1], np.asarray(1.0)]), t + t[:, :1] + 1.0)
    same(compute("add_n", []), 0.0)


def test_slices_match_numpy() -> None:
    x = random(5, 7)
    same(compute("slice", x, axes=(1,), begin=(2,), end=(0,)), x[:, 2:])
    same(compute("slice", x, axes=(1, 0), begin=(-6, 1), end=(-1, 5)), x[1:5, 1:6])
    same(compute("slice", x, axes=(1,), begin=(1,), end=(6,), stride=(2,)), x[:, 1:6:2])
    same(compute("slice", x, axes=(0,), begin=(-1,), end=(-99,), stride=(-1,)), x[::-1])
    same(compute("slice", x, axes=(1,), begin=(5,), end=(0,), stride=(-2,)), x[:, 5:0:-2])
    same(compute("slice", x, axes=(1,), begin=(1,), end=(99,), stride=(1,)), x[:, 1:])
    same(compute("slice", x, axes=(1,), begin=(1,), end=(0,), stride=(1,)), x[:, 1:])


@pytest.mark.parametrize("border", ["constant", "replicate", "reflect"])
@SETTINGS
@given(
    padding=st.tuples(st.integers(-1, 3), st.integers(-1, 3)),
    rows=st.tuples(st.integers(-1, 2), st.integers(-1, 2)),
)
def test_pad_matches_pytorch(border: str, padding: tuple[int, int], rows: tuple[int, int]) -> None:
    x = random(1, 4, 5)
    mode = {"constant": "constant", "replicate": "replicate", "reflect": "reflect"}[border]
    theirs = torch.nn.functional.pad(
        torch.from_numpy(x)[None],
        (*padding, *rows),
        mode,
        *((-1.5,) if mode == "constant" else ()),
    )
    ours = compute("pad", x, padding=((0, 0), rows, padding), border=border, value=-1.5)
    same(ours, theirs[0])


def test_pad_of_an_empty_tensor_is_the_value() -> None:
    pad = operations()["pad"].reference
    assert pad is not None
    same(pad(np.zeros((2, 0)), padding=((0, 1), (2, 1)), value=7.0), np.full((3, 3), 7.0))


@given(padding=st.tuples(st.integers(0, 4), st.integers(0, 4)))
def test_reflect_even_padding_matches_its_formula(padding: tuple[int, int]) -> None:
    """The formula is that of section "Border Modes"."""
    x, z = random(4), 4
    extended = [
        x[-i - 1] if i < 0 else x[i] if i < z else x[z - 1 - (i - z)]
        for i in range(-padding[0], z + padding[1])
    ]
    same(compute("pad", x, padding=(padding,), border="reflect-even", value=0.0), extended)


@given(padding=st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_pad_reflects_again_beyond_the_extent(padding: tuple[int, int]) -> None:
    x = random(3)
    for border, mode in (("reflect", "reflect"), ("reflect-even", "symmetric")):
        ours = compute("pad", x, padding=(padding,), border=border, value=0.0)
        same(ours, np.pad(x, padding, mode=mode))  # type: ignore[call-overload]


def test_gather_matches_pytorch() -> None:
    x = random(2, 4, 3)
    i = np.asarray([[3, 0], [1, 1]])
    theirs = torch.from_numpy(x).index_select(1, torch.from_numpy(i.ravel()))
    same(compute("gather", x, i, axis=1), theirs.reshape(2, 2, 2, 3))
    assert compute("gather", np.arange(4.0), np.asarray([-1, -4])).tolist() == [3, 0]
