"""The base class of the parsers: tokens, findings, depth of nesting.

Error recovery is in panic mode: a construct that cannot be completed raises `Panic`; statements and
definitions catch it and resume after their end.  Findings are collected and reported in the order
of the text.  ILLEGAL tokens, which the lexer has reported, cause no further errors.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NoReturn

from nnefc.support.errors import Diagnostic, Diagnostics, Severity
from nnefc.support.limits import Limits, how_to_raise
from nnefc.syntax.ast import SourceText
from nnefc.syntax.lexer import (
    END,
    IDENTIFIER,
    ILLEGAL,
    KEYWORDS,
    LOGICAL,
    NUMBER,
    STRING,
    Finding,
    check_size,
    tokenize,
)

FRAGMENTS = "KHR_enable_fragment_definitions"
OPERATORS = "KHR_enable_operator_expressions"


_LINE_END = re.compile(r"[\n\r]")


class Panic(Exception):
    """The current construct cannot be completed; the error has been reported."""


class Abort(Exception):
    """Parsing stops; the error has been reported."""


class Cursor:
    """A position in the tokens of one text.

    `depth` counts the open constructs; `deepest` is its maximum so far.  Postfixes count as if they
    were written first, since they enclose the operand before them.
    """

    def __init__(self, text: str, file: str, limits: Limits) -> None:
        check_size(len(text), file, limits)
        self.source = SourceText(text, file)
        self.limits = limits
        tokens = tokenize(text, limits.errors + 1)
        self.kinds: list[str] = tokens.kinds
        self.texts: list[str] = tokens.texts
        self.starts: list[int] = tokens.starts
        self.lexical: list[Finding] = tokens.problems
        self.is_cut: bool = tokens.is_cut
        self.problems: list[Finding] = []
        self.errors: int = 0
        self.numbers: dict[str, int | float] = {}
        """Values of numeric literals by text."""
        self.index: int = 0
        self.depth: int = 0
        self.deepest: int = 0
        self.last = len(tokens.kinds) - 4
        """Index of the first END token."""
        # whether extensions are enabled, and their first use while they are not
        self.has_operators = True
        self.has_fragments = True
        self.is_extended = False
        """Whether the document names unknown extensions, which may enable anything."""
        self.is_tract = False
        """Whether the document is in the dialect of tract."""
        self.operator_use: Finding | None = None
        self.fragment_use: Finding | None = None
        self.chained: int | None = None
        """Offset of the first invocation within an expression."""

    # -- findings

    def error(self, rule: str, message: str, at: int, hint: str = "") -> None:
        self.problems.append(Finding(at, rule, message, hint))
        self.errors += 1
        if self.errors > 2 * self.limits.errors:
            raise Abort

    def warn(self, rule: str, message: str, at: int, hint: str = "") -> None:
        self.problems.append(Finding(at, rule, message, hint, "warning"))

    def has_errors(self) -> bool:
        return self.errors > 0 or any(p.severity == "error" for p in self.lexical)

    def drop_findings(self, low: int, high: int, since: int) -> None:
        """Drop findings between two offsets; of those of the parser, from index `since` on."""
        if self.lexical and not self.is_cut:  # a cut list must keep its errors
            self.lexical = [p for p in self.lexical if not low < p.at < high]
        recent = self.problems[since:]
        self.problems[since:] = [p for p in recent if not low < p.at < high]
        self.errors -= sum(p.severity == "error" for p in recent if low < p.at < high)

    def unexpected(self, expected: str, hint: str = "") -> NoReturn:
        """Report that `expected` should be in place of the current token, and raise Panic.

        The position is after the previous token if the end of a line seems to be missing.
        """
        i = self.index
        if self.kinds[i] != ILLEGAL and (i == 0 or self.kinds[i - 1] != ILLEGAL):
            at, end = self.starts[i], self.previous_end()
            is_lacking = expected.startswith("'") and _LINE_END.search(self.source.text, end, at)
            if self.kinds[i] == END or is_lacking:
                at = end
            message = f"expected {expected}, found {self.describe_token()}"
            self.error("syntax/expected", message, at, hint)
        raise Panic

    def unknown_type(self, i: int) -> None:
        """Report token `i`, a name in place of a type."""
        message = f"{self.describe_token(i)} is not a type"
        hint = "the types are integer, scalar, logical and string"
        self.error("syntax/expected", message, self.starts[i], hint)

    def describe_token(self, index: int | None = None) -> str:
        """The current or another token for messages."""
        i = self.index if index is None else index
        kind, text = self.kinds[i], self.texts[i]
        short = text if len(text) <= 40 else text[:37] + "..."
        if kind in (NUMBER, STRING, LOGICAL):
            return f"{kind.removesuffix(' literal')} {short}"
        if kind == IDENTIFIER:
            return f"{short!r}"
        if kind == END:
            return kind
        return f"keyword {short!r}" if kind in KEYWORDS else f"{short!r}"

    def previous_end(self) -> int:
        """The end of the previous token, the position of missing tokens."""
        if self.index == 0:
            return self.starts[0]
        return self.starts[self.index - 1] + len(self.texts[self.index - 1])

    def finish(self, diagnostics: Diagnostics | None) -> None:
        """Report the findings in the order of the text; raise NnefError if any is an error."""
        diagnostics = diagnostics or Diagnostics(limit=self.limits.errors)
        for use in (self.operator_use, self.fragment_use):
            if use is not None:
                self.problems.append(replace(use, severity=self.severity))
        failed = False
        for p in sorted([*self.lexical, *self.problems], key=lambda p: p.at):
            failed = failed or p.severity == "error" or diagnostics.strict
            place = self.source.place(p.at)
            diagnostics.add(Diagnostic(p.rule, p.message, place, p.severity, (), p.hint))
        if failed:
            diagnostics.raise_errors()

    # -- tokens

    def accept(self, kind: str) -> bool:
        """Skip the current token if it is of this kind; returns whether it was."""
        if self.kinds[self.index] == kind:
            self.index += 1
            return True
        return False

    def expect(self, kind: str, after: str = "", hint: str = "") -> int:
        """Skip a token of this kind and return its offset; otherwise `unexpected`."""
        i = self.index
        if self.kinds[i] != kind:
            self.unexpected(f"{kind!r}{after and ' after ' + after}", hint)
        self.index = i + 1
        return self.starts[i]

    def identifier(self, what: str) -> str:
        """Skip an identifier and return it; a keyword in its place is reported and used."""
        i = self.index
        kind = self.kinds[i]
        if kind in KEYWORDS or kind == LOGICAL:
            word = "keyword" if kind in KEYWORDS else "literal"
            message = f"{word} {self.texts[i]!r} cannot be the name of {what}"
            self.error("syntax/keyword", message, self.starts[i], "choose another name")
        elif kind not in (IDENTIFIER, ILLEGAL):
            is_last = kind in ")]" and self.kinds[i - 1] == ","
            hint = "a list does not end with a comma" if is_last else ""
            self.unexpected(f"an identifier, the name of {what}", hint)
        self.index = i + 1
        return self.texts[i]

    def skip_to(self, *kinds: str) -> None:
        """Skip to the next token of one of these kinds, or to the end."""
        while self.kinds[self.index] not in kinds and self.kinds[self.index] != END:
            self.index += 1

    # -- nesting

    def enter(self, levels: int = 1) -> None:
        self.depth += levels
        if self.depth > self.deepest:
            self.deepest = self.depth
            if self.deepest > self.limits.nesting:
                self.too_deep()

    def enclose(self, outer: int, levels: int) -> None:
        """Count `levels` postfixes around the operand; `outer` is `deepest` before the operand."""
        self.deepest += levels
        if self.deepest > self.limits.nesting:
            self.too_deep()
        self.deepest = max(self.deepest, outer)

    def too_deep(self) -> NoReturn:
        self.error(
            "limit/nesting",
            f"expressions are nested more than {self.limits.nesting} levels deep",
            self.starts[self.index],
            "split the expression; or " + how_to_raise("nesting"),
        )
        raise Abort

    # -- extensions

    @property
    def severity(self) -> Severity:
        """The severity of constructs that only an unknown extension could allow."""
        return "warning" if self.is_extended else "error"

    def needs_operators(self, at: int, what: str) -> None:
        """Record a construct of section 3.2.3; the first one without the extension is reported."""
        if not self.has_operators and self.operator_use is None:
            self.operator_use = Finding(
                at,
                "extension/operator-expressions",
                f"{what} needs the extension {OPERATORS}",
                f"add the line 'extension {OPERATORS};' after the version",
            )

    def needs_fragments(self, at: int) -> None:
        """Record a fragment; the first one without the extension is reported."""
        if not self.has_fragments and self.fragment_use is None:
            self.fragment_use = Finding(
                at,
                "extension/fragment-definitions",
                f"a fragment needs the extension {FRAGMENTS}",
                f"add the line 'extension {FRAGMENTS};' after the version",
            )
