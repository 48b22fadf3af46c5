"""Split text into tokens (section 3.1).

One regular expression splits the text into pieces, and each distinct piece is classified once, so
most of the work runs in C.  An invalid piece becomes a `Finding` and an ILLEGAL token.  The parser
accepts ILLEGAL tokens in any position, so that a lexical error is reported once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, compress
from typing import Final

from nnefc.support.errors import Diagnostics, NnefError, Place, Severity
from nnefc.support.limits import Limits, how_to_raise
from nnefc.syntax.ast import SourceText

DEFAULT_LIMITS: Final = Limits()

# The kind of a keyword, operator or punctuation character is its text; other kinds:
IDENTIFIER: Final = "identifier"
NUMBER: Final = "number"
STRING: Final = "string literal"
LOGICAL: Final = "logical literal"
ILLEGAL: Final = "illegal token"
END: Final = "the end of the document"
_SPACE: Final = ""

QUOTED: Final = "syntax/quoted-identifier"
"""The rule against quoted names, which only the dialect of tract has."""

BUILTINS: Final = frozenset(
    ("shape_of", "length_of", "range_of", "integer", "scalar", "logical", "string")
)
TYPE_NAMES: Final = frozenset(("integer", "scalar", "logical", "string", "?"))
KEYWORDS: Final = BUILTINS | frozenset(
    ("version", "extension", "graph", "fragment", "tensor", "for", "in", "yield", "if", "else")
)
_CHARACTERS = "+-*/^<>!()[]{}:=,;?"
_PAIRS = ("<=", ">=", "==", "!=", "&&", "||", "->")

_WORD = "A-Za-z0-9_"
# The other characters of tokens, without the point.  All further ones are valid in comments and
# strings only.  Patterns negate this class: compiling a range up to U+10FFFF takes milliseconds.
_TOKEN = r"""\t\n\v\f\r !"#&'()*+,\-/:;<=>?\[\]^{|}"""


def _string_patterns(quote: str) -> tuple[str, str, str]:
    """Patterns of a closed string, a string with a line break, and an unclosed string."""
    inside = rf"(?:[^{quote}\\\n\r]|\\[^\n\r])*+"
    # A string that ends on the next line, before a separator, counts as one string with a line
    # break.  Otherwise its closing quote would open another string.
    line = rf"[^{quote}\n\r]*+"
    return (
        rf"{quote}{inside}{quote}",
        rf"{quote}{line}(?:\r\n|\n|\r){line}{quote}(?=[ \t]*[,;)\]])",
        rf"{quote}[^\n\r]*+",
    )


_CLOSED = [_string_patterns(quote)[0] for quote in "'\""]
_NUMBER = r"[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"
_SCAN = re.compile(
    "|".join(
        (
            r"[ \t\n\r\f\v]+",
            r'i"[^"\n\r]*"',
            rf"[A-Za-z_][{_WORD}]*+(?:[^{_WORD}{_TOKEN}][^{_TOKEN}]*)?+",
            r"->|[<>=!]=|&&|\|\||/(?![/*])|[-+*^<>!()\[\]{}:=,;?]",
            rf"{_NUMBER}(?![^{_TOKEN}])",
            rf"\.?[0-9](?:[eE][+-]|[^{_TOKEN}])*",
            *_string_patterns("'"),
            *_string_patterns('"'),
            r"#[^\n\r\f]*+",
            r"//[^\n\r\f]*+",
            r"/\*(?:[^*]|\*(?!/))*+(?:\*/)?",
            rf"[^.{_WORD}{_TOKEN}][^{_TOKEN}]*",
            r"[\s\S]",
        )
    )
)
_IS_WORD: Final[Callable[[str], object]] = re.compile(rf"[A-Za-z_][{_WORD}]*").fullmatch
_IS_NUMBER: Final[Callable[[str], object]] = re.compile(_NUMBER).fullmatch
_IS_STRING: Final[Callable[[str], object]] = re.compile("|".join(_CLOSED)).fullmatch
_IS_INTEGER: Final[Callable[[str], object]] = re.compile("-?[0-9]+").fullmatch
_ESCAPE = re.compile(r"\\([\\'\"])")
_LONE_BACKSLASH = re.compile(r"(?<!\\)(?:\\\\)*(\\)[^\\'\"]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding at a character offset."""

    at: int
    rule: str
    message: str
    hint: str = ""
    severity: Severity = "error"


@dataclass(slots=True)
class Tokens:
    """Parallel lists of tokens; END tokens at the end make lookahead safe without checks.

    `is_cut`: `problems` may lack errors.
    """

    kinds: list[str]
    texts: list[str]
    starts: list[int]
    problems: list[Finding]
    is_cut: bool


_FIXED: Final = {
    **{text: text for text in (*_CHARACTERS, *_PAIRS, *KEYWORDS)},
    "true": LOGICAL,
    "false": LOGICAL,
}
_LOOKAHEAD: Final = 4


def tokenize(text: str, problems: int = 100) -> Tokens:
    """The tokens of `text`, without white space and comments.

    `problems`: the most findings of each severity.
    """
    if text.startswith("\ufeff"):  # a byte order mark that decode() has not removed
        text = " " + text[1:]
    pieces: list[str] = _SCAN.findall(text)
    starts = list(accumulate(map(len, pieces), initial=0))
    kind_of = dict(_FIXED)
    noted: set[str] = set()
    for piece in set(pieces):
        if piece not in kind_of:
            kind_of[piece], is_noted = _classify(piece)
            if is_noted:
                noted.add(piece)
    findings: list[Finding] = []
    left: dict[Severity, int] = {"error": problems, "warning": problems}
    if noted:
        for piece, at in zip(pieces, starts, strict=False):
            if piece in noted:
                for problem in _diagnose(piece, at):
                    if left[problem.severity]:
                        left[problem.severity] -= 1
                        findings.append(problem)
                if not left["error"]:
                    break
    kinds = list(map(kind_of.__getitem__, pieces))
    if any(piece.startswith('i"') for piece in noted):
        pieces = [piece[2:-1] if piece.startswith('i"') else piece for piece in pieces]
    ends = [len(text)] * _LOOKAHEAD
    return Tokens(
        [*filter(None, kinds), *([END] * _LOOKAHEAD)],
        [*compress(pieces, kinds), *([""] * _LOOKAHEAD)],
        [*compress(starts, kinds), *ends],
        findings,
        not left["error"],
    )


def _classify(piece: str) -> tuple[str, bool]:
    """(kind, whether `_diagnose` has findings) of a piece that is not in _FIXED."""
    first = piece[0]
    if first in " \t\n\r\f\v#":
        return _SPACE, False
    if _IS_WORD(piece):
        return IDENTIFIER, False
    if piece.startswith('i"'):
        return IDENTIFIER, True
    if _IS_NUMBER(piece):
        return NUMBER, False
    if first in "'\"":
        if not _IS_STRING(piece) or _CONTROL.search(piece):
            return ILLEGAL, True
        return STRING, not piece.isascii() or _LONE_BACKSLASH.search(piece) is not None
    if first == "/":
        return _SPACE, True
    return ILLEGAL, True


def _diagnose(piece: str, at: int) -> list[Finding]:
    first = piece[0]
    if first in "'\"":
        return _diagnose_string(piece, at)
    if piece.startswith('i"'):
        message = f"the quoted name {_short(piece)} belongs to the dialect of tract"
        return [Finding(at, QUOTED, message, "names consist of letters, digits and _")]
    if first == "/":
        hint = "a comment begins with # and ends with the line"
        return [Finding(at, "syntax/comment", f"{piece[:2]} does not begin a comment", hint)]
    if first in "0123456789" or (first == "." and len(piece) > 1):
        return [Finding(at, "syntax/number", *_diagnose_number(piece))]
    bad = re.search(rf"[&|]|[^{_WORD}{_TOKEN}]", piece)
    assert bad is not None
    character = bad.group()
    hints = {
        "&": "the logical operator is &&",
        "|": "the logical operator is ||",
        "%": "NNEF has no remainder operator",
        "\ufeff": "a byte order mark is allowed only at the start of a file",
        "\xa0": "this is a no-break space; use a plain one",
    }
    hint = hints.get(character, "")
    if not hint and character in "\u2018\u2019\u201c\u201d":
        hint = "strings are enclosed in plain quotes, ' or \""
    if not hint and len(piece) > 1:
        hint = "identifiers consist of letters, digits and _"
    inside = f" in {_short(piece)!r}" if len(piece) > 1 else ""
    message = f"character {_character(character)} is not allowed here{inside}"
    return [Finding(at + bad.start(), "syntax/character", message, hint)]


def _diagnose_number(piece: str) -> tuple[str, str]:
    """Message and hint."""
    short = _short(piece)
    if piece[0] == ".":
        return f"{short} is not a number: there is no digit before the point", f"write 0{short}"
    if re.fullmatch(r"[0-9]+\.([eE].*)?", piece):
        mended = piece.replace(".", ".0", 1)
        return f"{short} is not a number: there is no digit after the point", (
            f"write {_short(mended)}"
        )
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?[eE][+-]?", piece):
        return f"{short} is not a number: the exponent has no digits", ""
    if piece.count(".") > 1:
        return f"{short} is not a number: it has {piece.count('.')} decimal points", ""
    if re.match(r"[0-9]+[A-Za-z_]", piece):
        return f"{short} is neither a number nor an identifier", (
            "an identifier must not start with a digit"
        )
    return f"{short} is not a number", ""


def _diagnose_string(piece: str, at: int) -> list[Finding]:
    if not _IS_STRING(piece):
        if "\n" in piece or "\r" in piece:
            message = f"string {_short(piece)!r} contains a line break"
            return [Finding(at, "syntax/string", message, "strings must end on the same line")]
        hint = f"close it with {piece[0]}"
        if f"\\{piece[0]}" in piece:
            hint = f"\\{piece[0]} is a quote within the string; write \\\\ for a backslash"
        elif ("'" if piece[0] == '"' else '"') in piece:
            hint += "; the quotes at both ends must be the same"
        return [Finding(at, "syntax/string", f"string {_short(piece)} is not closed", hint)]
    findings: list[Finding] = []
    if control := _CONTROL.search(piece):
        message = f"character {_character(control.group())} is not allowed in a string"
        hint = "strings contain printable characters only"
        findings.append(Finding(at + control.start(), "syntax/string", message, hint))
    if other := _NOT_ASCII.search(piece):
        message = f"string {_short(piece)} contains {_character(other.group())}"
        hint = "strings consist of printable ASCII characters; other tools may reject this one"
        findings.append(Finding(at + other.start(), "syntax/string", message, hint, "warning"))
    if lone := _LONE_BACKSLASH.search(piece):
        message = f"the backslash in {_short(piece)} escapes nothing; it stands for itself"
        findings.append(
            Finding(at + lone.start(1), "syntax/string", message, "write \\\\", "warning")
        )
    return findings


def _short(text: str, length: int = 40) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def _character(character: str) -> str:
    if character.isprintable() and character.isascii():
        return f"{character!r}"
    code = f"U+{ord(character):04X}"
    return f"{character!r} ({code})" if character.isprintable() else code


def number_value(text: str) -> int | float:
    """The value of a numeric literal: a float if it has a point or an exponent, else an int.

    A sign may precede it.  Raises OverflowError beyond the range of 64-bit integers or of double
    precision.
    """
    if not _IS_INTEGER(text):
        value = float(text)
        if value - value != 0:
            raise OverflowError
        return value
    digits = text.lstrip("-0") or "0"
    value = int(digits[:20]) * (-1 if text[0] == "-" else 1)
    if len(digits) > 19 or not -(1 << 63) <= value < 1 << 63:
        raise OverflowError
    return value


def string_value(text: str) -> str:
    r"""The characters of a string literal: \\, \' and \" are escapes, other backslashes stay."""
    inside = text[1:-1]
    return _ESCAPE.sub(r"\1", inside) if "\\" in inside else inside


def is_number(text: str) -> bool:
    """Whether `text` is a numeric literal, without a sign."""
    return _IS_NUMBER(text) is not None


def is_identifier(text: str) -> bool:
    """Whether `text` is a valid name of an operation, a parameter or a tensor."""
    return _IS_WORD(text) is not None and text not in _FIXED


def decode(
    data: bytes,
    file: str,
    *,
    limits: Limits = DEFAULT_LIMITS,
    diagnostics: Diagnostics | None = None,
) -> str:
    """The text of a file in UTF-8; outside comments the lexer reports characters beyond ASCII.

    A byte order mark is skipped with a warning to `diagnostics`.  Raises NnefError if the data is
    not UTF-8, contains NUL, or is larger than `limits.document_bytes`.
    """
    check_size(len(data), file, limits)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        hint = "save it as UTF-8 or ASCII"
        raise NnefError.of("syntax/encoding", "the text is in UTF-16", Place(file, 1, 1), hint)
    skipped = data.startswith(b"\xef\xbb\xbf")
    try:
        text = data[3:].decode() if skipped else data.decode()
    except UnicodeDecodeError as error:
        before = data[3 * skipped : 3 * skipped + error.start].decode()
        byte = data[3 * skipped + error.start]
        raise NnefError.of(
            "syntax/encoding",
            f"byte 0x{byte:02x} is not valid UTF-8",
            SourceText(before, file).place(len(before)),
            "is this a text file? NNEF is written in ASCII",
        ) from None
    if "\0" in text:
        place = SourceText(text, file).place(text.index("\0"))
        hint = "is this a text file?"
        raise NnefError.of("syntax/encoding", "the text contains NUL", place, hint)
    if skipped and diagnostics is not None:
        message = "the file begins with a byte order mark, which is skipped"
        diagnostics.warn("syntax/encoding", message, Place(file, 1, 1), hint="save it without")
    return text


def check_size(size: int, file: str, limits: Limits) -> None:
    """Raise NnefError `limit/document` if a document has more bytes than `limits` allow."""
    if size > limits.document_bytes:
        message = f"the document has {size:,} bytes, more than {limits.document_bytes:,}"
        hint = how_to_raise("document_bytes")
        raise NnefError.of("limit/document", message, Place(file), hint)
