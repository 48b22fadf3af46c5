"""The signature of a program: user inputs, with symbols in their shapes and ranges of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnefc.frontends.common.extents import names_of
from nnefc.frontends.common.signature import Assertion, Signature, SymbolicInput
from nnefc.frontends.torch.item_types import DTYPES
from nnefc.frontends.torch.program import Input, InputKind, Program
from nnefc.ir import DType
from nnefc.support.errors import Place
from nnefc.support.value_inputs import ValueInput
from nnefc.syntax import ast
from nnefc.syntax.parser import parse_expression


def user_inputs(program: Program) -> list[Input]:
    """The inputs that are given in a call: tensors, and numbers that no shape tells."""
    return [each for each in program.inputs if each.kind in (InputKind.USER, InputKind.VALUE)]


def signature_of(program: Program, shapes: Mapping[str, Sequence[int]]) -> Signature:
    """The signature; `shapes` replace those of inputs."""
    place = Place(program.file)
    inputs: list[SymbolicInput] = []
    for each in user_inputs(program):
        chosen = shapes.get(each.label)
        extents = (
            tuple(map(parse_expression, each.extents))
            if chosen is None
            else tuple(ast.Literal_(0, extent) for extent in chosen)
        )
        dtype = DTYPES.get(each.dtype, DType.FLOAT32)
        value = None
        if each.kind is InputKind.VALUE:
            extents = (parse_expression(each.extents[0]),)
            value = ValueInput(each.extents[0], 0, None, dtype.value)
        inputs.append(SymbolicInput(each.label, place, extents, dtype, value))
    known = Signature(tuple(inputs)).free_symbols
    return Signature(tuple(inputs), (), tuple(_assertions(program, known, place)))


def _assertions(program: Program, symbols: Sequence[str], place: Place) -> list[Assertion]:
    """The ranges of symbols, and the guards of the program."""
    found: list[Assertion] = []
    for name, allowed in program.ranges.items():
        if name not in symbols:
            continue
        if allowed.least > 1:
            found.append(Assertion(f"{name} >= {allowed.least}", place))
        if allowed.most is not None:
            found.append(Assertion(f"{name} <= {allowed.most}", place))
    for text in program.conditions:
        if set(names_of([parse_expression(text)])).issubset(symbols):
            found.append(Assertion(text, place))
    return found
