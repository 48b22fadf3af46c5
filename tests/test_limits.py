"""Limits as options of the command line."""

from __future__ import annotations

from dataclasses import fields

import pytest

from nnefc.cli.options import parse_limits
from nnefc.errors import NnefError
from nnefc.limits import Limits


def test_limits_are_listed_in_their_order() -> None:
    with pytest.raises(NnefError) as caught:
        parse_limits(["foo=3"])
    (error,) = caught.value.errors
    assert error.hint == "one of " + ", ".join(field.name for field in fields(Limits))
