"""The format of packs: what is written is read, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnefc.runtime.shipped import pack_file
from nnefc.runtime.shipped.pack_file import KEY_BYTES, Pack, UnusablePack, pack
from tests.helpers.examples import examples

keys = st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES)
long = st.binary(max_size=12).map(lambda piece: piece * 400)
"""Pieces of several chunks."""
short = st.binary(max_size=12) | st.sampled_from([b"one", b"another"])
pieces = st.lists(short | long, max_size=5)
contents = st.dictionaries(keys, pieces, max_size=8)

Codes = dict[bytes, list[bytes]]


def joined(codes: Codes) -> dict[bytes, bytes]:
    return {key: b"".join(each) for key, each in codes.items()}


def content(data: bytes, wanted: Codes) -> dict[bytes, bytes | None]:
    """The code of each wanted key."""
    opened = Pack(data)
    return {key: opened.code(key) for key in wanted}


@given(contents, keys)
@examples(1)
def test_packs_hold_what_was_packed(codes: Codes, other: bytes) -> None:
    data = pack(codes)
    assert content(data, codes) == joined(codes)
    assert Pack(data).count == len(codes)
    assert (other in Pack(data)) == (other in codes)
    assert Pack(data).code(other) == joined(codes).get(other)


@given(contents, st.randoms())
@examples(0.5)
def test_bytes_do_not_depend_on_the_order(codes: Codes, random: object) -> None:
    assert pack(dict(reversed(codes.items()))) == pack(codes)


def test_equal_code_is_stored_once() -> None:
    code = [bytes(range(256)) * 40]
    one, two = (pack({bytes([i]) * KEY_BYTES: code for i in range(n)}) for n in (1, 2))
    assert len(two) - len(one) == KEY_BYTES + 4


def test_equal_pieces_are_stored_once() -> None:
    shared, first, other = bytes(range(250)) * 8, b"f" * 10, b"o" * 10
    key, key2 = b"a" * KEY_BYTES, b"b" * KEY_BYTES
    one, two = pack({key: [first, shared]}), pack({key: [first, shared], key2: [shared, other]})
    assert len(two) - len(one) < 200
    assert content(two, {key2: []}) == {key2: shared + other}


def test_pieces_are_compressed_beside_similar_ones() -> None:
    random = np.random.default_rng(0).bytes(8000)
    codes = {bytes([i]) * KEY_BYTES: [random + bytes([i]) * 10] for i in range(20)}
    data = pack(codes)
    assert len(data) < 100_000  # not 160,000
    assert content(data, codes) == joined(codes)


@given(contents, st.data())
@examples(2)
def test_a_flipped_bit_is_detected(codes: Codes, data: st.DataObject) -> None:
    whole = bytearray(pack(codes))
    place = data.draw(st.integers(0, 8 * len(whole) - 1))
    whole[place // 8] ^= 1 << place % 8
    with pytest.raises(UnusablePack):
        content(bytes(whole), codes)


@given(contents, st.data())
@examples(1)
def test_another_size_is_detected(codes: Codes, data: st.DataObject) -> None:
    whole = pack(codes)
    size = data.draw(st.integers(0, len(whole) - 1))
    for damaged in (whole[:size], whole + whole[:size] + b"\0"):
        with pytest.raises(UnusablePack):
            Pack(damaged)


@given(st.binary(max_size=400))
@examples(1)
def test_other_files_are_no_packs(data: bytes) -> None:
    for start in (b"", pack_file.MAGIC, pack({})[:60]):
        with pytest.raises(UnusablePack):
            Pack(start + data)


def test_other_versions_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_file, "VERSION", "0.0.9")
    before = pack({})
    monkeypatch.undo()
    with pytest.raises(UnusablePack, match=r"belongs to nnefc 0\.0\.9"):
        Pack(before)
    with pytest.raises(UnusablePack, match="another format"):
        Pack(pack({}).replace(pack_file.MAGIC, b"nnefc pack 0001\n"))


def test_versions_of_development_builds_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_file, "VERSION", "0.1.0.dev12+g1234567.d20260101")
    assert Pack(pack({bytes(KEY_BYTES): [b"code"]})).code(bytes(KEY_BYTES)) == b"code"
    monkeypatch.setattr(pack_file, "VERSION", "1." * 33)
    with pytest.raises(ValueError, match="has more than 64 bytes"):
        pack({})
