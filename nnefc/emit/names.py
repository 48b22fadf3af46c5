"""Names of models and tensors as identifiers of C and C++."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from nnefc.support.errors import NnefError

_WORDS: Final = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class co_await co_return co_yield compl concept const const_cast consteval constexpr
    constinit continue decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto if inline int linux long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires
    restrict return short signed sizeof static static_assert static_cast struct switch template
    this thread_local throw true try typedef typeid typename typeof typeof_unqual union unix
    unsigned using virtual void volatile wchar_t while xor xor_eq
"""
_RESERVED: Final = frozenset(_WORDS.split())
"""Keywords of C and C++ and other names that no member of a structure can have."""
_FILES: Final = frozenset(["main", "example", "c", "m", "dl", "rt", "pthread", "gcc", "stdc"])
"""Names that no model can have: `main.o` is the object of `main.c`, `libc.so` the C library."""
_IDENTIFIER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def identifier(name: str) -> str:
    """A C and C++ identifier similar to a name, and no keyword.

    Letters lose their accents; those of other alphabets become their numbers, as `u7f51` for
    U+7F51; all other characters become `_`.
    """
    plain = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    text = "".join(c if c.isascii() or not c.isalnum() else f"_u{ord(c):x}_" for c in plain)
    text = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")
    if not text or not text[0].isalpha():
        text = f"x{text}" if text else "x"
    return f"{text}_" if text in _RESERVED else text


def identifiers(names: list[str]) -> list[str]:
    """The identifiers of names, unique even without regard to case."""
    taken: set[str] = set()
    unique: list[str] = []
    for name in names:
        base = text = identifier(name)
        number = 2
        while text.lower() in taken:
            text, number = f"{base}_{number}", number + 1
        taken.add(text.lower())
        unique.append(text)
    return unique


def model_name(name: str) -> str:
    """The prefix of functions and files for a graph of this name."""
    text = identifier(name)
    return f"{text}_" if text.lower() in _FILES else text


def check_name(name: str) -> str:
    """The name, checked; raises NnefError `input/option` if no model can have it."""
    value: object = name
    if not isinstance(value, str) or not _IDENTIFIER.fullmatch(value):
        raise NnefError.of(
            "input/option",
            f"{value!r} cannot begin the names of C functions",
            hint="letters, digits and underscores, a letter first",
        )
    if value.lower() in _FILES:
        raise NnefError.of(
            "input/option",
            f"files of a model {value!r} would be taken for others of a C program",
            hint=f"another name: {value}_net",
        )
    return value
