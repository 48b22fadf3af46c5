"""Parse documents and quantization files (sections 3.2.4, 5.3, appendix A).

One parser covers both grammars: it parses the compositional one and records uses of constructs that
need an extension.  An invocation as an argument is only a warning: the flat grammar forbids it, but
files use it.  In documents with unknown extensions, missing extensions and fragments without
parameters are warnings as well; documents of tract have them.

Positions: a definition is at its keyword, a parameter at its name, an assignment and an argument at
their start, a binary or if-else expression at the operator or `if`, a subscript at `[`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

from nnefc.support.errors import Diagnostics, NnefError
from nnefc.support.limits import Limits, no_collection, room_for_recursion
from nnefc.syntax.ast import (
    Document,
    Expression,
    Extension,
    Fragment,
    Graph,
    Identifier,
    Literal_,
    QuantizationEntry,
    QuantizationFile,
)
from nnefc.syntax.cursor import FRAGMENTS, OPERATORS, Abort, Panic
from nnefc.syntax.definitions import DEFINITIONS, DefinitionParser
from nnefc.syntax.lexer import (
    DEFAULT_LIMITS,
    END,
    IDENTIFIER,
    ILLEGAL,
    NUMBER,
    QUOTED,
    STRING,
    decode,
    string_value,
)

_T = TypeVar("_T")
TRACT: Final = "tract_"
"""Prefix of the extensions of tract."""
_FRAMES = 8
"""Most stack frames per level of nesting."""


def parse(
    text: str,
    file: str = "<document>",
    *,
    limits: Limits = DEFAULT_LIMITS,
    diagnostics: Diagnostics | None = None,
    tract: bool | None = False,
) -> Document:
    """The tree of a document.

    `tract`: whether it is in the dialect of sonos/tract, which has the syntax of all extensions,
    any text in `extension` lines, and quoted names; None: decided by the extensions it names.
    Raises NnefError with all syntax errors; warnings go to `diagnostics`.
    """
    parser = _DocumentParser(text, file, limits)
    parser.may_be_tract = tract is not False
    parser.is_strict = diagnostics is not None and diagnostics.strict
    if tract:
        parser.enter_tract()
    return _finish(parser, parser.document, diagnostics)


def parse_quantization(
    text: str,
    file: str = "<quantization>",
    *,
    limits: Limits = DEFAULT_LIMITS,
    diagnostics: Diagnostics | None = None,
) -> QuantizationFile:
    """The tree of a quantization file (5.3).

    Comments, any expressions and several entries on a line are allowed.  Raises NnefError with all
    syntax errors; warnings go to `diagnostics`.
    """
    parser = _QuantizationParser(text, file, limits)
    return _finish(parser, parser.entries, diagnostics)


def parse_fragments(text: str, file: str = "<fragments>") -> tuple[Fragment, ...]:
    """The fragments of a text without version and graph; both extensions are enabled.

    Raises NnefError.
    """
    parser = _DocumentParser(text, file, DEFAULT_LIMITS)
    return _finish(parser, parser.fragments, None)


def parse_declaration(text: str, file: str = "<declaration>") -> Fragment:
    """A fragment declaration; the keyword and the ';' are optional.  Raises NnefError."""
    parser = _DocumentParser(text, file, DEFAULT_LIMITS)
    return _finish(parser, parser.declaration, None)


def parse_expression(text: str, file: str = "<expression>") -> Expression:
    """The tree of a single expression; raises NnefError."""
    parser = _DocumentParser(text, file, DEFAULT_LIMITS)
    return _finish(parser, parser.whole_expression, None)


def _finish(
    parser: DefinitionParser, rule: Callable[[], _T | None], diagnostics: Diagnostics | None
) -> _T:
    """The result of a grammar rule; raises NnefError with all errors."""
    result = None
    try:
        with no_collection(), room_for_recursion(_FRAMES * parser.limits.nesting):
            result = rule()
    except (Panic, Abort):
        pass
    except RecursionError:
        parser.error(
            "limit/nesting",
            "expressions are nested too deep for the stack of the interpreter",
            parser.starts[parser.index],
            "split the expression",
        )
    parser.finish(diagnostics)
    assert result is not None, "a document without errors has a tree"
    return result


class _DocumentParser(DefinitionParser):
    may_be_tract = False
    is_strict = False

    def enter_tract(self) -> None:
        """Switch to the dialect of tract."""
        self.is_tract = self.is_extended = True
        self.has_operators = self.has_fragments = True
        self.lexical = [p for p in self.lexical if p.rule != QUOTED]

    def document(self) -> Document | None:
        """The whole document; None after an error."""
        version = self._version()
        if not self.is_tract:
            self.has_operators = self.has_fragments = False
        extensions: list[Extension] = []
        fragments: list[Fragment] = []
        graphs: list[Graph] = []
        while self.kinds[self.index] != END:
            self.signed = not self.has_operators
            at = self.starts[self.index]
            try:
                match self.kinds[self.index]:
                    case "extension":
                        if fragments or graphs:
                            message = "an extension must precede all definitions"
                            self.error("syntax/order", message, at, "move it after the version")
                        extensions.append(self._extension())
                    case "fragment":
                        if graphs:
                            message = "a fragment must precede the graph"
                            self.error("syntax/order", message, at, "the graph comes last")
                        fragments.append(self.fragment())
                    case "graph":
                        if graphs:
                            message = "a document has one graph only"
                            line = self.source.place(graphs[0].at).line
                            hint = f"the first is on line {line}"
                            self.error("syntax/order", message, at, hint)
                        graphs.append(self.graph())
                    case "version":
                        self.error("syntax/order", "a document has one version only", at)
                        self.skip_to(";", *DEFINITIONS[1:])
                        self.accept(";")
                    case _:
                        self._unexpected_definition(bool(graphs))
            except Panic:
                self.depth = 0
                self.skip_to(*DEFINITIONS)
        if not graphs and not self.has_errors():
            hint = "graph name( inputs ) -> ( outputs ) { assignments }"
            self.error("syntax/graph", "the document has no graph", self.previous_end(), hint)
        if self.chained is not None and not self.has_operators and self.operator_use is None:
            message = f"an invocation as an argument needs the extension {OPERATORS}"
            hint = f"add the line 'extension {OPERATORS};' after the version"
            self.warn("extension/operator-expressions", message, self.chained, hint)
        if version is None or not graphs:
            return None
        return Document(
            self.source, version, tuple(extensions), tuple(fragments), graphs[0], self.is_tract
        )

    def _unexpected_definition(self, is_behind: bool) -> None:
        kind = self.kinds[self.index]
        if is_behind:
            hint = "nothing may follow the graph"
            if kind == "}":
                hint = "there is one '}' too many"
            self.unexpected("the end of the document", hint)
        hint = ""
        if kind == IDENTIFIER and self.kinds[self.index + 1] in ("=", ","):
            hint = "assignments belong in the body of the graph or of a fragment"
        self.unexpected("an extension, a fragment or the graph", hint)

    def _version(self) -> Literal_ | None:
        """The version line; raises Abort if the major version is not supported."""
        i = self.index
        hint = "the document begins with 'version 1.0;'"
        if not self.accept("version"):
            if self.kinds[i] == ILLEGAL:
                self.skip_to(*DEFINITIONS)
                return self._version() if self.kinds[self.index] == "version" else None
            message = f"expected the version, found {self.describe_token()}"
            self.error("version/missing", message, self.starts[i], hint)
            self.skip_to(*DEFINITIONS)
            return self._version() if self.kinds[self.index] == "version" else None
        at, text = self.starts[i + 1], self.texts[i + 1]
        value = 1.0
        if self.kinds[i + 1] == ILLEGAL:
            self.index += 1
        elif self.kinds[i + 1] != NUMBER or not re.fullmatch(r"[0-9]+\.[0-9]+", text):
            message = f"{self.describe_token(i + 1)} is not a version"
            self.error("version/form", message, at, "major and minor version, as in 1.0")
            self.skip_to(";", *DEFINITIONS)
        else:
            self.index += 1
            value = float(text)
            major, minor = (digits.lstrip("0") or "0" for digits in text.split("."))
            if major != "1":
                self.error("version/unsupported", f"version {text} is not supported", at)
                raise Abort
            if minor != "0":
                message = f"version {text} is newer than 1.0; it is read as 1.0"
                self.warn("version/newer", message, at)
        if not self.accept(";"):
            self.missing("';'", "the version")
            self.skip_to(";", *DEFINITIONS)
            self.accept(";")
        return Literal_(at, value, text)

    # -- extensions

    def _extension(self) -> Extension:
        """One `extension` line; commas between names are optional, the Khronos parser needs them.

        After an unknown name any text is allowed up to the ';'.
        """
        at = self.expect("extension")
        first, known = self.index, len(self.problems)
        names = [Identifier(self.starts[first], self.identifier("an extension"))]
        while self.accept(",") or self.kinds[self.index] == IDENTIFIER:
            names.append(Identifier(self.starts[self.index], self.identifier("an extension")))
        text = ""
        if self.kinds[self.index] != ";" and not _is_known(names[0].name):
            end = self.index
            self.skip_to(";", "{", *DEFINITIONS)
            if self.kinds[self.index] == ";":
                del names[1:]
                text = self.source.text[self.starts[first + 1] : self.starts[self.index]].rstrip()
                self.drop_findings(self.starts[first], self.starts[self.index], known)
            else:
                self.index = end
        if self.kinds[self.index] in (*DEFINITIONS, END):
            self.missing("';'", "the extension")
        else:
            self.expect(";", "the extension")
        self._enable(names)
        return Extension(at, tuple(names), text)

    def _enable(self, names: list[Identifier]) -> None:
        self.has_fragments |= any(name.name == FRAGMENTS for name in names)
        self.has_operators |= any(name.name == OPERATORS for name in names)
        unknown = [name for name in names if not _is_known(name.name)]
        for name in unknown:
            if name.name.startswith("KHR_"):
                hint = f"the extensions of NNEF 1.0 are {FRAGMENTS} and {OPERATORS}"
                message = f"extension {name.name} is not known"
                self.error("extension/unknown", message, name.at, hint)
                return
        if unknown and self.may_be_tract and unknown[0].name.startswith(TRACT):
            self.enter_tract()
        elif unknown and self.is_strict and unknown[0].name.startswith(TRACT):
            message = (
                f"'{unknown[0].name}' belongs to the dialect of sonos/tract, not to NNEF 1.0.2"
            )
            hint = "leave out --strict, strict=True, dialect='nnef'"
            place = self.source.place(unknown[0].at)
            raise NnefError.of("tract/dialect", message, place, hint)
        elif unknown:
            self.is_extended = True
            # further names may be arguments, as in 'extension tract_symbol B;'
            message = f"extension {unknown[0].name!r} is not known and has no effect"
            self.warn("extension/unknown", message, unknown[0].at)

    # -- parts of documents

    def fragments(self) -> tuple[Fragment, ...]:
        definitions: list[Fragment] = []
        while self.kinds[self.index] != END:
            try:
                definitions.append(self.fragment())
            except Panic:
                self.depth = 0
                self.skip_to("fragment")
        return tuple(definitions)

    def whole_expression(self) -> Expression:
        value = self.expression()
        if self.kinds[self.index] != END:
            self.unexpected("the end of the expression")
        return value

    def declaration(self) -> Fragment:
        fragment = self.fragment(is_bodyless=True)
        if self.kinds[self.index] != END:
            self.unexpected("the end of the declaration")
        return fragment


def _is_known(extension: str) -> bool:
    return extension in (FRAGMENTS, OPERATORS)


class _QuantizationParser(DefinitionParser):
    signed = True

    def entries(self) -> QuantizationFile:
        entries: list[QuantizationEntry] = []
        while self.kinds[self.index] != END:
            try:
                entries.append(self._entry())
            except Panic:
                self.depth = 0
                self.skip_to(";")
                self.accept(";")
        return QuantizationFile(self.source, tuple(entries))

    def _entry(self) -> QuantizationEntry:
        i = self.index
        at = self.starts[i]
        if self.kinds[i] != STRING:
            hint = "an entry is written 'tensor': operation(name = value);"
            if self.kinds[i] == IDENTIFIER:
                hint = f"put the name in quotes: '{self.texts[i]}'"
            self.unexpected("the name of a tensor in quotes", hint)
        self.index += 1
        if self.kinds[self.index] == IDENTIFIER:
            self.missing("':'", "the name of the tensor")
        else:
            self.expect(":", "the name of the tensor")
        if self.kinds[self.index] != IDENTIFIER:
            self.unexpected("the name of a quantization operation")
        invocation = self.invocation()
        for argument in invocation.arguments:
            if argument.name is None:
                message = "an argument in a quantization file must be named"
                hint = "the tensor itself is not an argument; write name = value"
                self.error("quantization/positional", message, argument.at, hint)
        if self.kinds[self.index] in (STRING, END):
            self.missing("';'", "the entry")
        else:
            self.expect(";", "the entry")
        return QuantizationEntry(at, string_value(self.texts[i]), invocation)


__all__ = [
    "decode",
    "parse",
    "parse_declaration",
    "parse_expression",
    "parse_fragments",
    "parse_quantization",
]
