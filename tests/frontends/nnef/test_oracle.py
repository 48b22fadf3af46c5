"""Khronos' parser as the oracle for the structure and the types of invocations.

It knows no shapes, so `argument/...` and the number of results are not compared.  Where it is
known to be wrong (explicit types of operations that are not generic, operators on attributes)
nothing is asked.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from nnefc.frontends.nnef import import_text
from nnefc.frontends.nnef.operation_declarations import Declaration, standard
from nnefc.frontends.nnef.types import Array, Primitive, Tensor, Tuple, Type
from nnefc.ops.tools import table
from nnefc.support.errors import NnefError

nnef: Any = pytest.importorskip("nnef")

TENSORS = {"scalar": ("x", "x", "1.5"), "logical": ("l", "true"), "integer": ("i", "3")}
PRIMITIVES = {"scalar": "0.5", "logical": "false", "integer": "1", "string": "'constant'"}
OTHERS = ("x", "l", "i", "1", "1.5", "true", "'a'", "[x]", "[1]", "[1.0]", "[]", "(1,1)", "[(0,0)]")

NAMES = sorted(
    name
    for name, spec in table.standard().items()
    if spec.section != "beyond" and name not in ("external", "update", "variable", "argmax_pool")
)

DIFFERENT = frozenset({"elu", "slice", "roi_resample"})
"""Signatures that their version of the standard library declares otherwise."""

NOT_COMPARED = ("argument/", "type/unpack")


def expression(type_: Type, dtype: str, choose: random.Random) -> str:
    """A literal expression or an identifier of a type, `?` being `dtype`."""
    match type_:
        case Primitive(name):
            return PRIMITIVES[dtype if name == "?" else name]
        case Tensor(name):
            return choose.choice(TENSORS[dtype if name in ("?", None) else name])
        case Array(item):
            items = [expression(item, dtype, choose) for _ in range(choose.randint(1, 2))]
            return f"[{','.join(items)}]"
        case Tuple(items):
            return f"({','.join(expression(i, dtype, choose) for i in items)})"
        case _:
            raise AssertionError(type_)


def invocation(declaration: Declaration, choose: random.Random) -> str:
    """An invocation that is right, or has a mistake."""
    dtype = choose.choice(["scalar", "logical", "integer"])
    arguments: list[str] = []
    named = False
    for parameter in declaration.parameters:
        if parameter.optional and choose.random() < 0.5:
            named = True
            continue
        if choose.random() < 0.04:
            continue
        value = expression(parameter.type, dtype, choose)
        if choose.random() < 0.1:
            value = choose.choice(OTHERS)
        named = named or not parameter.is_tensor or choose.random() < 0.05
        if choose.random() < 0.03:
            named = not named
        arguments.append(f"{parameter.name} = {value}" if named else value)
    if choose.random() < 0.05:
        arguments.append(choose.choice([*arguments, "x", "nope = 1", "axes = [1]"]))
    explicit = f"<{dtype}>" if declaration.generic and choose.random() < 0.5 else ""
    return f"{declaration.name}{explicit}({', '.join(arguments or ['x'])})"


def target(type_: Type) -> str:
    """A left-hand side of the structure of a type."""
    match type_:
        case Tuple(items):
            return ", ".join(f"r{i}" for i in range(len(items)))
        case Array():
            return "[r0, r1]"
        case _:
            return "r0"


def khronos_accepts(text: str) -> bool:
    try:
        nnef.parse_string(text)
    except nnef.Error:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in NAMES if n not in DIFFERENT])
def test_invocations_are_checked_alike(name: str) -> None:
    declaration = standard(name)
    assert declaration is not None
    choose = random.Random(name)
    accepted = 0
    for _ in range(25):
        text = f"""version 1.0;
graph g( x, l, i ) -> ( r0 )
{{
    x = external(shape = [2,3]);
    l = external<logical>(shape = [2,3]);
    i = external<integer>(shape = [2,3]);
    {target(declaration.result_type)} = {invocation(declaration, choose)};
}}
"""
        found: list[Any] = []
        try:
            import_text(text)
        except NnefError as error:
            found = [e for e in error.errors if not e.rule.startswith(NOT_COMPARED)]
        expected = khronos_accepts(text)
        assert (not found) == expected, f"{text}\n{found}"
        accepted += expected
    assert accepted
