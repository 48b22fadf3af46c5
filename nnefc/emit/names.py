"""Names of models and tensors as identifiers of C and C++."""

from __future__ import annotations

import re
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
"""What no member of a structure can be called."""
_FILES: Final = frozenset(["main", "example", "c", "m", "dl", "rt", "pthread", "gcc", "stdc"])
"""What no model can be called: `main.o` would be that of `main.c`, `libc.so` the C library."""
_IDENTIFIER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def identifier(name: str) -> str:
    """The identifier that is most like a name, and no word of C or C++."""
    text = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    if not text or not text[0].isalpha():
        text = f"x{text}" if text else "x"
    return f"{text}_" if text in _RESERVED else text


def identifiers(names: list[str]) -> list[str]:
    """The same of each, all different, also where case does not count."""
    taken: set[str] = set()
    found: list[str] = []
    for name in names:
        base = text = identifier(name)
        number = 2
        while text.lower() in taken:
            text, number = f"{base}_{number}", number + 1
        taken.add(text.lower())
        found.append(text)
    return found


def model_name(name: str) -> str:
    """What functions and files are called of a graph of that name."""
    text = identifier(name)
    return f"{text}_" if text.lower() in _FILES else text


def check_name(name: str) -> str:
    """A name that a caller chose; raises NnefError `input/option` if no model can have it."""
    given: object = name
    if not isinstance(given, str) or not _IDENTIFIER.fullmatch(given):
        raise NnefError.of(
            "input/option",
            f"{given!r} cannot begin the names of C functions",
            hint="letters, digits and underscores, a letter first",
        )
    if given.lower() in _FILES:
        raise NnefError.of(
            "input/option",
            f"files of a model {given!r} would be taken for others of a C program",
            hint=f"another name: {given}_net",
        )
    return given
