"""Names of symbols that users choose, in place of those of `torch.export`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Final

from nnefc.frontends.torch.program import Program
from nnefc.frontends.torch.signature import user_inputs
from nnefc.support.errors import NnefError

_NAME: Final = re.compile(r"[A-Za-z_]\w*")


def named_symbols(program: Program, axes: Mapping[str, Mapping[int, str]]) -> Program:
    """A program with the symbols of `axes`, by input and axis.

    An extent that depends on others, `s0 + s1`, has no symbol of its own.  Raises NnefError for an
    extent that the module fixes.
    """
    names: dict[str, str] = {}
    for each in user_inputs(program):
        for axis, name in axes.get(each.label, {}).items():
            extent = each.extents[axis]
            if extent.isdecimal():
                message = f"axis {axis} of '{each.label}' is '{name}', but the module fixes it to"
                hint = "leave it out of dynamic_axes, or take example inputs of other extents"
                raise NnefError.of("torch/export", f"{message} {extent}", hint=hint)
            if _NAME.fullmatch(extent):
                names.setdefault(extent, name)

    def renamed(text: str) -> str:
        return _NAME.sub(lambda found: names.get(found.group(), found.group()), text)

    return dataclasses.replace(
        program,
        inputs=tuple(
            dataclasses.replace(each, extents=tuple(map(renamed, each.extents)))
            for each in program.inputs
        ),
        ranges={renamed(symbol): allowed for symbol, allowed in program.ranges.items()},
        conditions=tuple(map(renamed, program.conditions)),
    )
