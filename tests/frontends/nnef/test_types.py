"""Casts, common types and deduction (3.3.1)."""

from __future__ import annotations

import pytest

from nnefc.frontends.nnef.types import (
    ANY,
    EMPTY,
    Array,
    Primitive,
    Tensor,
    Tuple,
    Type,
    castable,
    common,
    deduce,
    from_spec,
    instantiate,
    mixes_tensors_and_attributes,
)
from nnefc.syntax import ast
from nnefc.syntax.parser import parse_declaration


def type_of(text: str) -> Type:
    if text == "[]":
        return EMPTY
    declaration = parse_declaration(f"fragment f<?>( x: {text} ) -> ( y: tensor<?> )")
    return from_spec(declaration.parameters[0].type)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("integer", "tensor<integer>"),
        ("scalar", "tensor<scalar>"),
        ("string", "?"),
        ("scalar", "tensor<?>"),
        ("scalar", "tensor<>"),
        ("tensor<logical>", "tensor<?>"),
        ("tensor<logical>", "tensor<>"),
        ("tensor<?>", "tensor<>"),
        ("scalar[]", "tensor<scalar>[]"),
        ("[]", "integer[]"),
        ("[]", "tensor<scalar>[][]"),
        ("(integer,scalar)", "(tensor<integer>,tensor<scalar>)"),
        ("(integer[],scalar)[]", "(integer[],scalar)[]"),
    ],
)
def test_allowed_casts_give_the_common_type(source: str, target: str) -> None:
    assert castable(type_of(source), type_of(target))
    assert common(type_of(source), type_of(target)) == type_of(target)
    assert common(type_of(target), type_of(source)) == type_of(target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("integer", "scalar"),
        ("scalar", "integer"),
        ("logical", "integer"),
        ("integer", "tensor<scalar>"),
        ("tensor<scalar>", "scalar"),
        ("tensor<scalar>", "tensor<integer>"),
        ("tensor<>", "tensor<?>"),
        ("?", "scalar"),
        ("integer", "integer[]"),
        ("integer[]", "integer"),
        ("integer[]", "scalar[]"),
        ("(integer,integer)", "integer[]"),
        ("(integer,integer)", "(integer,integer,integer)"),
        ("string", "string[]"),
    ],
)
def test_other_casts_are_not_allowed(source: str, target: str) -> None:
    assert not castable(type_of(source), type_of(target))


@pytest.mark.parametrize(
    ("left", "right"),
    [("integer", "scalar"), ("string", "logical"), ("integer[]", "integer"), ("?", "tensor<>[]")],
)
def test_incompatible_types_have_no_common_type(left: str, right: str) -> None:
    assert common(type_of(left), type_of(right)) is None


def test_the_common_type_is_more_specific_than_the_empty_array() -> None:
    assert common(EMPTY, Array(Primitive("integer"))) == Array(Primitive("integer"))
    assert common(Array(Primitive("integer")), EMPTY) == Array(Primitive("integer"))
    assert common(ANY, Tensor("scalar")) == Tensor("scalar")


@pytest.mark.parametrize(
    ("declared", "actual", "candidates"),
    [
        ("tensor<?>", "tensor<integer>", ["integer"]),
        ("tensor<?>", "scalar", ["scalar"]),
        ("?", "logical", ["logical"]),
        ("?[]", "integer[]", ["integer"]),
        ("?[]", "[]", []),
        ("(tensor<?>,tensor<?>)", "(tensor<integer>,scalar)", ["integer", "scalar"]),
        ("tensor<?>", "tensor<>", []),
        ("integer", "integer", []),
    ],
)
def test_generic_types_are_deduced_from_operands(
    declared: str, actual: str, candidates: list[str]
) -> None:
    found: dict[str, None] = {}
    deduce(type_of(declared), type_of(actual), found)
    assert list(found) == candidates


def test_instantiation_replaces_the_generic_type() -> None:
    type_ = instantiate(type_of("(tensor<?>[],?,integer)"), "logical")
    assert str(type_) == "(tensor<logical>[],logical,integer)"


def test_tuples_of_tensors_and_attributes_are_detected() -> None:
    assert mixes_tensors_and_attributes(type_of("(integer,tensor<scalar>)"))
    assert mixes_tensors_and_attributes(type_of("((integer,tensor<scalar>),integer)[]"))
    assert not mixes_tensors_and_attributes(type_of("(tensor<integer>,tensor<scalar>[])"))
    assert not mixes_tensors_and_attributes(type_of("(integer,scalar[])"))


def test_types_print_as_they_are_written() -> None:
    for text in ("integer", "tensor<>", "tensor<?>[]", "(integer,scalar[])[][]", "[]"):
        assert str(type_of(text)) == text


def test_every_spec_has_a_type() -> None:
    spec = ast.TupleSpec(0, (ast.PrimitiveSpec(0, "string"), ast.TensorSpec(0, None)))
    assert from_spec(spec) == Tuple((Primitive("string"), Tensor(None)))
