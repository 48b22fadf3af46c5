"""Names that are unused, and identifiers."""

from __future__ import annotations

from string import ascii_letters, digits

from hypothesis import given
from hypothesis import strategies as st

from nnefc.support.names import identifier, unused_name


def test_numbers_are_appended_to_names_that_are_taken() -> None:
    assert unused_name("x", ()) == "x"
    assert unused_name("x", {"x"}) == "x_2"
    assert unused_name("x", ["x_2", "x", "x_4"]) == "x_3"


def test_case_counts_unless_it_is_ignored() -> None:
    assert unused_name("Weight", {"weight"}) == "Weight"
    assert unused_name("Weight", {"weight": 1, "weight_2": 2}, ignore_case=True) == "Weight_3"


@given(st.text(max_size=4))
def test_identifiers_have_letters_digits_and_underscores(name: str) -> None:
    made = identifier(name)
    assert made[0] in ascii_letters + "_"
    assert set(made) <= set(ascii_letters + digits + "_")
    assert identifier(made) == made, "identifiers stay"
