"""The signatures of registered operators against the schemas of the package `onnx`.

A function may accept more than a version of its operator: attributes of later versions, or calls
that leave out an input.  It must accept all that the version has, with the same defaults.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any

import onnx
import pytest
from onnx import helper
from onnx.defs import OpSchema

from nnefc.frontends.onnx.registry import (
    CONSUMED_INPUTS,
    STANDARD,
    Operator,
    Parameter,
    find,
    operators,
)
from nnefc.frontends.onnx.standard_functions import is_standard_function
from nnefc.ops.core.interface import sequence

EMPTY = inspect.Parameter.empty


def schemas() -> list[OpSchema]:
    """All versions of the standard operators that are registered in at least one version."""
    names = {name for domain, name in operators() if domain == STANDARD}
    listed = onnx.defs.get_all_schemas_with_history()
    chosen = [s for s in listed if s.domain == STANDARD and s.name in names]
    return sorted(chosen, key=lambda s: (s.name, s.since_version))


def versions(name: str) -> list[OpSchema]:
    return [schema for schema in schemas() if schema.name == name]


@pytest.mark.parametrize("name", sorted({schema.name for schema in schemas()}))
def test_signature(name: str) -> None:
    """Inputs and attributes of each version are those of its schema."""
    problems: list[str] = []
    for schema in versions(name):
        found = find(STANDARD, name, schema.since_version)
        if schema.deprecated:
            continue
        where = f"{name} of version {schema.since_version}"
        if found is None:
            if not is_standard_function(STANDARD, name, schema.since_version):
                problems.append(f"{where} is not registered, though other versions are")
            continue
        problems += [f"{where}: {problem}" for problem in differences(found, schema)]
    assert not problems, "\n".join(problems)


def test_names_are_those_of_the_standard() -> None:
    known = {schema.name for schema in onnx.defs.get_all_schemas_with_history()}
    known |= {"SimplifiedLayerNormalization"}  # onnxruntime writes it in the standard's domain
    names = {name for domain, name in operators() if domain == STANDARD}
    assert names <= known, f"not in the standard: {sorted(names - known)}"


def differences(found: Operator, schema: OpSchema) -> list[str]:
    """How the function for an operator differs from a schema."""
    parameters = found.parameters
    problems = input_differences(parameters.inputs, parameters.rest is not None, schema)
    stated = {k: v for k, v in schema.attributes.items() if k != CONSUMED_INPUTS}
    for missing in sorted(stated.keys() - parameters.attributes.keys()):
        problems.append(f"the function has no attribute '{missing}'")
    later = {name for version in versions(found.name) for name in version.attributes}
    for extra in sorted(parameters.attributes.keys() - later):
        problems.append(f"no version of the schema has an attribute '{extra}'")
    for attribute in sorted(stated.keys() & parameters.attributes.keys()):
        own = parameters.attributes[attribute]
        problems += default_differences(own, stated[attribute])
    return problems


def input_differences(inputs: Sequence[Parameter], has_rest: bool, schema: OpSchema) -> list[str]:
    """How the inputs of a function differ from those of a schema."""
    problems: list[str] = []
    formal = list(schema.inputs)
    is_variadic = bool(formal) and formal[-1].option == OpSchema.FormalParameterOption.Variadic
    single = formal[:-1] if is_variadic else formal
    if is_variadic and not has_rest:
        problems.append("the schema takes any number of inputs, the function does not")
    if len(inputs) != len(single) and not (has_rest and len(inputs) < len(single)):
        names = ", ".join(each.name for each in single)
        problems.append(f"the function has {len(inputs)} inputs, the schema {len(single)}: {names}")
    for own, stated in zip(inputs, single, strict=False):
        is_optional = stated.option == OpSchema.FormalParameterOption.Optional
        if is_optional and own.default is EMPTY:
            problems.append(f"input '{own.name}' is optional in the schema ('{stated.name}')")
    return problems


def default_differences(own: Parameter, stated: OpSchema.Attribute) -> list[str]:
    """How the default of an attribute differs; attributes without one are None or empty."""
    if stated.required:
        return []
    if own.default is EMPTY:
        return [f"attribute '{own.name}' is optional in the schema"]
    proto = stated.default_value
    if not proto.type:
        return []
    default = plain(helper.get_attribute_value(proto))
    if is_same(own.default, default):
        return []
    return [f"the default of '{own.name}' is {own.default!r}, in the schema {default!r}"]


def plain(value: Any) -> Any:
    """The value of an attribute with text instead of bytes; lists become tuples."""
    if isinstance(value, bytes):
        return value.decode()
    items = sequence(value)
    return value if items is None else tuple(map(plain, items))


def is_same(own: Any, default: Any) -> bool:
    """Whether two defaults are the same; real numbers of a schema are rounded to float32."""
    if isinstance(own, int | float) and isinstance(default, int | float):
        return math.isclose(own, default, rel_tol=1e-6)
    return plain(own) == plain(default)


def test_a_wrong_signature_is_noticed() -> None:
    add, clip = find(STANDARD, "Add", 14), find(STANDARD, "Clip", 6)
    assert add is not None and clip is not None
    assert differences(add, onnx.defs.get_schema("Neg", 13))
    assert differences(add, onnx.defs.get_schema("Sum", 13))
    assert differences(clip, onnx.defs.get_schema("Clip", 11))
