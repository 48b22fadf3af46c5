"""Fragments around every operation, with unknown arguments, are checked without false errors."""

from __future__ import annotations

import pytest

from nnefc.frontends.nnef import check_document
from nnefc.frontends.nnef.operation_declarations import ONLY_IN_GRAPH, Declaration, standard
from nnefc.frontends.nnef.types import Array
from nnefc.ops.tools import table
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.syntax.parser import parse
from tests.helpers.nnef.text import document, rules_of

NAMES = sorted(set(table.standard()) - ONLY_IN_GRAPH)


def wrapper(declaration: Declaration, **given: str) -> str:
    """A fragment with the signature of an operation that does nothing but invoke it."""
    generic = "<?>" if declaration.generic else ""
    parameters = ", ".join(f"{p.name}: {p.type}" for p in declaration.parameters)
    results = ", ".join(f"r_{name}: {type_}" for name, type_ in declaration.results)
    arguments = [
        p.name if p.is_tensor else f"{p.name} = {given.get(p.name, p.name)}"
        for p in declaration.parameters
    ]
    body: list[str] = []
    targets: list[str] = []
    for name, type_ in declaration.results:
        if isinstance(type_, Array):
            targets.append(f"[a_{name}, b_{name}]")
            body.append(f"r_{name} = [a_{name}, b_{name}];")
        else:
            targets.append(f"r_{name}")
    invocation = f"{declaration.name}{generic}({', '.join(arguments)})"
    body.insert(0, f"{', '.join(targets)} = {invocation};")
    lines = "\n".join(body)
    return f"fragment w{generic}( {parameters} ) -> ( {results} )\n{{\n{lines}\n}}\n"


@pytest.mark.parametrize("name", NAMES)
def test_unknown_arguments_cause_no_errors(name: str) -> None:
    declaration = standard(name)
    assert declaration is not None
    diagnostics = Diagnostics()
    text = document("y = copy(x);", wrapper(declaration))
    check_document(parse(text), diagnostics=diagnostics)
    assert {w.rule for w in diagnostics.warnings} <= {"invocation/beyond-1.0.2"}


@pytest.mark.parametrize("name", NAMES)
def test_one_known_attribute_causes_only_errors_of_its_operation(name: str) -> None:
    declaration = standard(name)
    assert declaration is not None
    values = {"integer": "-9", "integer[]": "[-9]", "scalar": "0.5", "string": "'nonsense'"}
    values |= {"logical": "true", "(integer,integer)[]": "[(-9,-9)]", "?[]": "[]"}
    for parameter in declaration.parameters:
        if not parameter.is_tensor:
            given = {parameter.name: values[str(parameter.type)]}
            text = document("y = copy(x);", wrapper(declaration, **given))
            try:
                check_document(parse(text))
            except NnefError as error:
                assert {e.rule for e in error.errors} == {f"argument/{name}"}


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("conv", {"stride": "[0,1]"}),
        ("box", {"border": "'mirror'"}),
        ("transpose", {"axes": "[0,0]"}),
        ("slice", {"axes": "[0]", "begin": "[0,1]"}),
        ("reshape", {"shape": "[-2]"}),
        ("linear_quantize", {"bits": "0"}),
        ("softmax", {"axes": "[1,1]"}),
    ],
)
def test_certain_errors_are_reported(name: str, given: dict[str, str]) -> None:
    declaration = standard(name)
    assert declaration is not None
    assert rules_of(document("y = copy(x);", wrapper(declaration, **given))) == [f"argument/{name}"]
