"""Sequences, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for
from tests.helpers.onnx.onnxruntime_oracle import reals
from tests.helpers.onnx.text_models import check, parsed


@pytest.mark.parametrize("position", [-2, 0, 2])
def test_an_item_may_be_chosen_at_run_time(position: int) -> None:
    text = """(float[6, 2] x, int64 i) => (float[2, 2] y, int64 n) <int64 two = {2}> {
      s = SplitToSequence <axis = 0> (x, two)
      y = SequenceAt (s, i)
      n = SequenceLength (s)
    }"""
    check(text, reals(6, 2), np.array(position))


@pytest.mark.parametrize(
    ("attributes", "split"),
    [("axis = 1", "parts"), ("axis = -1", "two"), ("keepdims = 0", ""), ("axis = 1", "")],
)
def test_tensors_are_split_into_sequences_and_joined(attributes: str, split: str) -> None:
    text = f"""(float[2, 5] x) => (float[M, N] y, float[K, L] z)
      <int64[3] parts = {{1, 3, 1}}, int64 two = {{2}}, int64 first = {{0}}> {{
      s = SplitToSequence <{attributes}> (x{f", {split}" if split else ""})
      t = SequenceErase (s, first)
      v = SequenceAt (s, first)
      u = SequenceInsert (t, v)
      y = ConcatFromSequence <axis = -1> (u)
      w = SequenceConstruct (v, v)
      z = ConcatFromSequence <axis = 0> (w)
    }}"""
    check(text.replace("float[M, N]", "float").replace("float[K, L]", "float"), reals(2, 5))


def test_positions_outside_of_a_sequence_are_errors() -> None:
    text = """(float[2] x) => (float[2] y) <int64 i = {2}> {
      s = SequenceConstruct (x, x)
      y = SequenceAt (s, i)
    }"""
    with pytest.raises(NnefError, match="position 2 is not in a sequence of 2 items"):
        graph_for(parsed(text), [reals(2)])
