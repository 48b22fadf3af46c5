"""FlexBuffers, compared with Google's package; damaged ones are errors."""

from __future__ import annotations

from typing import Any

import pytest
from flatbuffers import flexbuffers as package
from hypothesis import given
from hypothesis import strategies as st

from nnefc.formats.flatbuffers.flexbuffers import read_flexbuffer
from nnefc.formats.flatbuffers.reader import FlatBufferError
from tests.helpers.examples import examples
from tests.helpers.tflite.flexbuffer import flexbuffer

flexbuffers: Any = package
TEXT = st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=9)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(-1e38, 1e38)
    | TEXT
    | st.binary(max_size=9)
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda each: st.lists(each, max_size=4) | st.dictionaries(TEXT, each, max_size=4),
    max_leaves=20,
)


@given(VALUES)
@examples(1)
def test_values_are_those_that_were_written(value: Any) -> None:
    assert read_flexbuffer(flexbuffer(value)) == value


def test_typed_vectors_and_indirect_numbers() -> None:
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.FixedTypedVectorFromElements("f", [1.5, -2.0, 3.0])
        builder.TypedVectorFromElements("i", [1, -300, 70000])
        builder.TypedVectorFromElements("b", [True, False])
        builder.TypedVectorFromElements("k", ["x", "y"])
        builder.IndirectInt("n", -5)
        builder.IndirectFloat("r", 0.25)
        builder.Key("key")
        builder.Key("name")
    data = bytes(builder.Finish())
    assert read_flexbuffer(data) == flexbuffers.Loads(data)


@given(st.binary(max_size=40) | st.tuples(VALUES, st.data()))
@examples(2)
def test_damaged_ones_are_errors_or_values(drawn: Any) -> None:
    """No other error, and no endless values."""
    if isinstance(drawn, bytes):
        data = drawn
    else:
        content = bytearray(flexbuffer(drawn[0]))
        position = drawn[1].draw(st.integers(0, len(content) - 1))
        content[position] = drawn[1].draw(st.integers(0, 255))
        data = bytes(content)
    try:
        read_flexbuffer(data)
    except FlatBufferError as error:
        assert str(error)


def test_faults_are_named() -> None:
    with pytest.raises(FlatBufferError, match="at least 3 bytes, not 2"):
        read_flexbuffer(b"ab")
    with pytest.raises(FlatBufferError, match="there is no type 63"):
        read_flexbuffer(b"\0\x01\xfc\x01")
