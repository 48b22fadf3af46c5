"""What is applied to a result while it is in the first cache: an expression over a block."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (llvmlite and numba are untyped)

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from nnefc.kernels.expression import emit
from nnefc.kernels.lanes import BITS, load, load_item, store
from nnefc.kernels.scalar import Expression
from nnefc.kernels.vector import I64, Vector, lanes_of, vector_function

APPLY_ARGUMENTS = 6


@dataclass(frozen=True, slots=True)
class Epilogue:
    """`expression` over a result, its first input, and operands with rows of their own.

    `repeated` says of each operand whether all items of a row are the same one.
    """

    expression: Expression
    repeated: tuple[bool, ...]


@cache
def apply_rows(item: str, epilogue: Epilogue) -> Any:
    """Function `apply(rows, n, c, c_row, operands, libm)`: over the block at c, in place.

    The n items of each row become those of the expression.  `operands` has two words for each
    operand: the address of its first item, and the bytes from row to row.
    """

    @vector_function(item, lanes_of(item), APPLY_ARGUMENTS)
    def apply(v: Vector, rows, n, c, c_row, operands, libm):
        builder = v.builder
        table = v.pointer(operands)
        words = [
            builder.load(v.at(table, 8 * i), typ=I64, align=8)
            for i in range(2 * len(epilogue.repeated))
        ]
        places = [v.pointer(x) for x in (c, *words[::2])]
        pitches = [c_row, *words[1::2]]
        dtypes = epilogue.expression.inputs
        whole = builder.and_(n, v.word(-v.lanes))
        with v.loop(0, rows, 1) as row:
            starts = [v.at(x, builder.mul(row.index, p)) for x, p in zip(places, pitches)]
            items = [
                load_item(v, dtype, start) if repeated else None
                for start, dtype, repeated in zip(starts, dtypes, (False, *epilogue.repeated))
            ]

            def columns(index, mask):
                values = []
                for start, dtype, known in zip(starts, dtypes, items):
                    at = v.at(start, builder.mul(index, v.word(BITS[dtype] // 8)))
                    values.append(load(v, dtype, at, mask) if known is None else known)
                (result,) = emit(v, epilogue.expression, values, libm)
                at = v.at(starts[0], builder.mul(index, v.word(v.itemsize)))
                store(result, at, mask)

            with v.loop(0, whole, v.lanes) as column:
                columns(column.index, None)
            with v.loop(whole, n, v.lanes) as column:
                columns(column.index, v.mask(builder.sub(n, column.index)))

    return apply
