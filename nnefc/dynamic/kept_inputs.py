"""Inputs of a model that a session keeps: pairs of inputs and outputs, by patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from nnefc.support.errors import Diagnostic, NnefError


def pairs_of(
    patterns: Mapping[str, str], inputs: Sequence[str], outputs: Sequence[str]
) -> dict[str, str]:
    """The names of outputs by those of inputs, for patterns such as {"past.*": "present.*"}.

    Each pattern has one `*` in both of its names, or none.  Raises NnefError `input/state` with
    all errors: patterns without a match, and names in two pairs; `input/argument` for other objects
    than texts by texts.
    """
    given: object = patterns
    if not isinstance(given, Mapping) or not all(
        isinstance(text, str) for pair in cast(Mapping[Any, Any], given).items() for text in pair
    ):
        message = f"states = {given!r}: expected names of outputs by those of inputs"
        hint = "for example {'past_key_values.*': 'present.*'}"
        raise NnefError.of("input/argument", message, hint=hint)
    problems: list[Diagnostic] = []
    pairs: dict[str, str] = {}

    def wrong(message: str, hint: str = "") -> None:
        text = f"states[{pattern!r}] = {target!r}: {message}"
        problems.append(Diagnostic("input/state", text, hint=hint))

    for pattern, target in patterns.items():
        if pattern.count("*") != target.count("*") or pattern.count("*") > 1:
            wrong("both names have one *, or none")
            continue
        found = {name: part for name in inputs if (part := _matched(pattern, name)) is not None}
        if not found:
            wrong("no input has such a name", f"the inputs are {', '.join(inputs)}")
        for name, part in found.items():
            output = target.replace("*", part)
            if output not in outputs:
                wrong(f"there is no output {output!r}", f"the outputs are {', '.join(outputs)}")
            elif name in pairs or output in pairs.values():
                wrong(f"{name!r} or {output!r} is in another pair")
            else:
                pairs[name] = output
    if problems:
        raise NnefError(problems)
    return pairs


def _matched(pattern: str, name: str) -> str | None:
    """What `*` stands for in a name; None if the pattern does not match."""
    before, star, after = pattern.partition("*")
    if not star:
        return "" if name == pattern else None
    if len(name) <= len(before) + len(after):
        return None
    if not (name.startswith(before) and name.endswith(after)):
        return None
    return name[len(before) : len(name) - len(after)]
