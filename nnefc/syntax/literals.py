"""Parse literals (section 3.2.1); numbers out of range are errors."""

from __future__ import annotations

from nnefc.syntax.ast import Literal_
from nnefc.syntax.cursor import Cursor
from nnefc.syntax.lexer import NUMBER, STRING, number_value, string_value


class LiteralParser(Cursor):
    """Parses literals."""

    def _literal(self, i: int, *, negative: bool = False) -> Literal_:
        """The literal at token `i`; `negative`: including the minus sign before it."""
        kind, text, at = self.kinds[i], self.texts[i], self.starts[i]
        if kind == NUMBER:
            if negative:
                at, text = self.starts[i - 1], f"-{text}"
            value = self.numbers.get(text)
            return Literal_(at, self._number(i, text) if value is None else value, text)
        if kind == STRING:
            return Literal_(at, string_value(text), text)
        return Literal_(at, text == "true", text)

    def _number(self, i: int, text: str) -> int | float:
        try:
            value = self.numbers[text] = number_value(text)
        except OverflowError:
            return self._out_of_range(i, text)
        return value

    def _out_of_range(self, i: int, text: str) -> int | float:
        """Report a number that is out of range; returns a value to continue with."""
        short = text if len(text) <= 40 else text[:37] + "..."
        if text.lstrip("-").isdigit():
            if i and self.kinds[i - 1] == "-" and text.lstrip("0") == str(1 << 63):
                return 1 << 63  # the operand of a unary minus
            hint = "integers have 64 bits; with a point or an exponent it is a scalar"
            message = f"{short} is out of the range of integers"
            self.error("syntax/integer-range", message, self.starts[i], hint)
            return 0
        hint = "the largest scalar is about 1.8e308"
        message = f"{short} is out of the range of scalars"
        self.error("syntax/scalar-range", message, self.starts[i], hint)
        return 0.0
