"""Parse type specifications (section 3.2.2)."""

from __future__ import annotations

from typing import cast

from nnefc.syntax.ast import (
    ArraySpec,
    PrimitiveName,
    PrimitiveSpec,
    TensorSpec,
    TupleSpec,
    TypeSpec,
)
from nnefc.syntax.cursor import Cursor
from nnefc.syntax.lexer import IDENTIFIER, TYPE_NAMES


class TypeParser(Cursor):
    """Parses the types of parameters and results."""

    def type(self) -> TypeSpec:
        """One type, including `[]` suffixes."""
        i = self.index
        kind, at = self.kinds[i], self.starts[i]
        outer, self.deepest = self.deepest, self.depth
        self.index = i + 1
        if kind in TYPE_NAMES:
            spec: TypeSpec = PrimitiveSpec(at, kind)
        elif kind == IDENTIFIER:
            self.unknown_type(i)
            spec = PrimitiveSpec(at, "scalar")
        elif kind == "tensor":
            spec = self._tensor_type(at)
        elif kind == "(":
            spec = self._tuple_type(at)
        else:
            self.index = i
            self.unexpected(
                "a type", "integer, scalar, logical, string, ?, tensor<...>, an array or a tuple"
            )
        arrays = 0
        while self.kinds[self.index] == "[":
            self.index += 1
            self.expect("]", "", "the length of an array is not part of its type: integer[]")
            spec = ArraySpec(at, spec)
            arrays += 1
        self.enclose(outer, arrays)
        return spec

    def _tensor_type(self, at: int) -> TensorSpec:
        self.expect("<", "'tensor'", "for example tensor<scalar>")
        dtype = None
        if self.kinds[self.index] in TYPE_NAMES:
            dtype = cast(PrimitiveName, self.kinds[self.index])
            self.index += 1
        elif self.kinds[self.index] == IDENTIFIER:
            self.unknown_type(self.index)
            self.index += 1
        self.close_angle("the item type of a tensor is one of integer, scalar, logical, string, ?")
        return TensorSpec(at, dtype)

    def _tuple_type(self, at: int) -> TypeSpec:
        self.enter()
        items = [self.type()]
        while self.accept(","):
            items.append(self.type())
        self.expect(")", "", "is a comma missing?" if self.kinds[self.index] in TYPE_NAMES else "")
        self.depth -= 1
        if len(items) == 1:
            self.error("syntax/tuple", "a tuple type has at least two items", at)
            return items[0]
        return TupleSpec(at, tuple(items))

    def close_angle(self, hint: str = "") -> None:
        i = self.index
        if self.kinds[i] == ">=":  # tensor<scalar>= 1.0
            self.kinds[i] = self.texts[i] = "="
            self.starts[i] += 1
        else:
            self.expect(">", "", hint)
