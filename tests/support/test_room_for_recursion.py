"""The recursion limit is raised as far as the stack allows."""

from __future__ import annotations

import sys

import pytest

from nnefc.support import limits


@pytest.mark.parametrize(("needs_none", "most"), [(True, 51_000), (False, 6_000)])
def test_frames_on_the_stack_are_fewer(
    needs_none: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch's Dynamo evaluates frames on the stack."""
    monkeypatch.setattr(limits, "_calls_need_no_stack", lambda: needs_none)
    before = sys.getrecursionlimit()
    with limits.room_for_recursion(50_000):
        assert sys.getrecursionlimit() == max(before, most)
    assert sys.getrecursionlimit() == before
