"""The labels in the text of a document, which name the files that an import of it may read.

The text is not parsed: a model from the cache needs no parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from nnefc.formats.paths import TENSOR_SUFFIX, label_path
from nnefc.support.errors import NnefError

_VARIABLE: Final = b"variable"
_READERS: Final = (_VARIABLE, b"tract_core_submodel", b"tract_resource_get")
"""The operations that read files; the label is a path without suffix."""
_TEMPLATE: Final = (b"{{", b"{%")
_STRING: Final = rb"""'[^'\\\r\n]*'|"[^"\\\r\n]*\""""
"""String literals without escapes."""
_CALL: Final = re.compile(
    rb"\#[^\r\n\f]*"
    rb"|'(?:[^'\\\r\n]|\\[^\r\n])*'"
    rb'|"(?:[^"\\\r\n]|\\[^\r\n])*"'
    rb"|(?P<name>%b)\b"
    rb"(?:\s*(?:<[^<>'\"#]*>\s*)?\([^()'\"#]*?\blabel\s*=\s*(?P<label>%b)\s*[,)])?"
    % (b"|".join(rb"%b(?<!\w%b)" % (name, name) for name in _READERS), _STRING)
)
"""Comments, strings, and calls of `_READERS`; without `label` where that is no string literal."""


class Labels(NamedTuple):
    """Labels in lower case, since files also match them ignoring case."""

    variables: frozenset[str]
    all: frozenset[str]
    folders: frozenset[str]
    """The folders around the files."""

    def is_named(self, path: str) -> bool:
        """Whether a label names the file or folder `path`, without suffix, or a folder around it.

        `path`: relative to the document, in lower case, with `/` between folders.
        """
        return any(stem in self.all for stem in _stems(path))


def labels_in(text: bytes) -> Labels | None:
    """The labels of all files that an import of a document may read, beside `*.safetensors`.

    None if the text does not tell, as in templates, or where labels are computed.
    """
    if any(sign in text for sign in _TEMPLATE):
        return None
    variables: set[str] = set()
    others: set[str] = set()
    for call in _CALL.finditer(text):
        name, label = call["name"], call["label"]
        if name is None:
            if call[0][1:-1] in _READERS:  # names may be quoted in the dialect of tract
                return None
        elif label is None:
            return None
        else:
            try:
                path = label_path(label[1:-1].decode(), "").removesuffix(TENSOR_SUFFIX).lower()
            except (NnefError, UnicodeDecodeError):
                return None
            (variables if name == _VARIABLE else others).add(path)
    both = frozenset(variables | others)
    return Labels(frozenset(variables), both, frozenset(_folders(both)))


def _folders(paths: frozenset[str]) -> Iterator[str]:
    """The folders around each path."""
    for path in paths:
        while "/" in path:
            path = path.rpartition("/")[0]
            yield path


def _stems(path: str) -> Iterator[str]:
    """The path without its suffixes, one after the other, and the folders around it."""
    folder, _, name = path.rpartition("/")
    start = folder and f"{folder}/"
    while name:
        yield start + name
        name = name.rpartition(".")[0]
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]
