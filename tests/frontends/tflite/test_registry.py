"""Operators are registered with options and versions that exist."""

from __future__ import annotations

import pytest

from nnefc.formats.tflite.enumerations import ITEM_TYPES, OPERATORS, PLACEHOLDER
from nnefc.formats.tflite.schema import schema
from nnefc.frontends.tflite.check_operators import REFUSED
from nnefc.frontends.tflite.registry import Operator, operators
from nnefc.frontends.tflite.versions import VERSIONS

PLACEHOLDER_NAME = OPERATORS[PLACEHOLDER]
REGISTERED = [each for functions in operators().values() for each in functions]


def test_there_are_operators() -> None:
    assert len(operators()) > 80


def test_every_operator_is_known_or_refused_with_a_reason() -> None:
    known = set(operators()) | set(REFUSED) | {PLACEHOLDER_NAME}
    assert set(OPERATORS) - known == set()
    assert not set(operators()) & set(REFUSED)


@pytest.mark.parametrize("operator", REGISTERED, ids=lambda each: each.name)
def test_options_and_types_exist(operator: Operator) -> None:
    assert operator.name in OPERATORS
    assert set(operator.types) <= set(ITEM_TYPES)
    wanted = operator.parameters.options
    fields = schema().tables[operator.options] if operator.options else ()
    assert set(wanted) <= {each.name for each in fields}
    assert bool(wanted) <= bool(operator.options)


def test_versions_are_of_operators() -> None:
    assert set(VERSIONS) <= set(OPERATORS)
