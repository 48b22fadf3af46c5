"""Documents that invoke operators of tract with random, mostly invalid arguments."""

from __future__ import annotations

import inspect
from functools import cache
from random import Random

from nnefc.frontends.tract.registry import REGISTRIES, Operator, operators

_TENSORS = (
    "x", "x", "y", "y", "z", "w", "s", "i", "i", "b", "h", "u", "c", "g", "t", "n", "q",
    "[1.0, 2.0]", "[[1.0, 2.0]]", "0.5", "3", "true", "[]", "tract_core_shape_of(x)", "v",
)  # fmt: skip
_INTEGERS = ("0", "1", "2", "3", "-1", "-2", "4", "8", "16", "S", "true", "k", "0.0", "2.0")
_HUGE = (
    "1000000000", "9223372036854775807", "-9223372036854775808", "99999999999999999999",
    "4294967296", "inf", "-inf", "nan", "1e308", "0.5", "''", "'f32'", "'constant'", "x", "[]",
    "[[]]", "P", "false", "[1, [2, 3]]", "['a']", "(1, 'a')", "[x, y]", "kept", "[inf]",
    "[nan, 1.0]", "1000000 * 1000000",
)  # fmt: skip
_WORDS = (
    "f32", "f16", "i64", "i8", "bool", "tdim", "QU8(Z:3 S:0.5)", "string", "constant", "reflect",
    "ignore", "replicated", "ij,jk->ik", "abc->ab", "ii->i", "ij,ij->", "a,b->ab", "turn", "add",
    "nearest", "linear", "cubic", "half_pixel", "align_corners", "w", "blocks", "", "none", "mul",
    "uniform", "normal", "SUM", "AVERAGE",
)  # fmt: skip

HEAD = """\
version 1.0;
{registries}extension tract_symbol S;
extension tract_symbol P;
fragment turn( a: tensor<scalar>, h: tensor<scalar> ) -> ( r: tensor<scalar>, o: tensor<scalar> )
{{
    r = tanh(a + h);
    o = r * 2.0;
}}
graph net( x, y, z, w, s, i, b, h, u, c, g ) -> ( {results} )
{{
    x = tract_core_external(shape = [1, 3, 8, 8], datum_type = 'f32');
    y = tract_core_external(shape = [1, 4, S, 4], datum_type = 'f32');
    z = tract_core_external(shape = [2, 6, 4], datum_type = 'f32');
    w = tract_core_external(shape = [4, 4], datum_type = 'f32');
    s = tract_core_external(shape = [], datum_type = 'f32');
    i = tract_core_external(shape = [2, 2], datum_type = 'i64');
    b = tract_core_external(shape = [2, 2], datum_type = 'bool');
    h = tract_core_external(shape = [2, 6, 4], datum_type = 'f16');
    u = tract_core_external(shape = [4], datum_type = 'u8');
    c = tract_core_external(shape = [2, 8, 2], datum_type = 'f64');
    g = tract_core_external(shape = [1, 4, 5, 2], datum_type = 'f32');
    t = variable(shape = [4, 3, 3, 3], label = 't');
    v = variable(shape = [8, 32], label = 'v');
    k = tract_core_cast(2, to = 'i64');
    q = tract_core_inner_dim_to_complex(c);
    n = constant(shape = [2, 2], value = [1.0, 2.0, 3.0, 4.0]);
    kept = variable<integer>(shape = [2], label = 'kept');
"""


@cache
def _chosen() -> list[Operator]:
    return [operators()[name] for name in sorted(operators())]


@cache
def _kinds(operator: Operator) -> list[tuple[str, str, bool]]:
    """(name, annotation, whether it is optional) of the parameters."""
    _, *parameters = inspect.signature(operator.function).parameters.values()
    return [(p.name, str(p.annotation), p.default is not p.empty) for p in parameters]


def _array(random: Random) -> str:
    items = (random.choice(_INTEGERS) for _ in range(random.choice((0, 1, 1, 2, 3, 4, 4, 5))))
    return f"[{', '.join(items)}]"


def _argument(random: Random, kind: str) -> str:
    if random.random() < 0.08:
        return random.choice(_HUGE)
    if random.random() < 0.02:
        return f"[{', '.join(random.choice(_HUGE) for _ in range(random.randint(0, 4)))}]"
    match kind:
        case "int":
            return random.choice(_INTEGERS)
        case "bool":
            return random.choice(("true", "false", "1", "0"))
        case "float":
            return random.choice(("0.0", "1.0", "0.5", "2", "-1.5", "1e-5", "kept", "inf"))
        case "str":
            return f"'{random.choice(_WORDS)}'"
        case "tuple[int, ...]":
            return _array(random)
        case "Pairs":
            pairs = (random.choice(("(0, 0)", "(1, 2)", "[1, 1]", "(-1, 0)")) for _ in range(4))
            return f"[{', '.join([*pairs][: random.choice((0, 1, 2, 3, 4, 4))])}]"
        case "Operands":
            return f"[{', '.join(random.choice(_TENSORS) for _ in range(random.randint(0, 3)))}]"
        case "Operand" | "Operand | None":
            return random.choice(_TENSORS)
        case _:
            tuples = "[('a', z, 1, 1)]", "[('h', w, 'r')]", "[('o', 'full', 1, -1)]", "[('h', z)]"
            return random.choice(
                (random.choice(_TENSORS), f"'{random.choice(_WORDS)}'", _array(random), *tuples)
            )


def call(random: Random, operator: Operator) -> str:
    """An invocation of an operator."""
    written: list[str] = []
    named = random.random() < 0.6
    for name, kind, optional in _kinds(operator):
        if (optional and random.random() < 0.4) or random.random() < 0.01:
            named = True
            continue
        value = _argument(random, kind)
        named = named or (optional and random.random() < 0.5)
        written.append(f"{name.rstrip('_')} = {value}" if named else value)
    return f"{operator.name}({', '.join(written)})"


def calls(random: Random) -> str:
    """A document."""
    lines = "".join(f"extension tract_registry {name};\n" for name in REGISTRIES[1:])
    targets: list[str] = []
    body = ""
    for number in range(random.randint(1, 4)):
        target = f"r{number}"
        body += f"    {target} = {call(random, random.choice(_chosen()))};\n"
        targets.append(target)
    head = HEAD.format(registries=lines, results=", ".join(targets))
    return f"{head}{body}}}\n"
