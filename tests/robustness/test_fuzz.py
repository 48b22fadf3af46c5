"""A short run of the fuzzer; `python -m tests.fuzz` is the long one."""

from __future__ import annotations

import pytest

from tests.fuzz.inputs import KINDS, make
from tests.fuzz.runner import try_one
from tests.fuzz.seeds import DOCUMENTS


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_input_does_harm(kind: str) -> None:
    for number in range(250):
        what = try_one(kind, make(kind, 2026, number))
        assert not what, f"--seed 2026 --only {kind} {number}: {what}"


@pytest.mark.parametrize("text", DOCUMENTS)
def test_seeds_are_valid(text: str) -> None:
    KINDS["document"][1](text.encode())
