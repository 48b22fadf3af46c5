"""The text of a document that is a template."""

from __future__ import annotations

import re
from typing import Any, Final

from jinja2 import Environment, TemplateSyntaxError, nodes

from nnefc.formats.container import Container
from nnefc.frontends.common.budget import Budget, Exhausted
from nnefc.frontends.tract.resources import json_value
from nnefc.frontends.tract.templates.statements import Statements
from nnefc.frontends.tract.templates.values import TemplateError, UndefinedName
from nnefc.support.errors import Diagnostic, NnefError, Place
from nnefc.support.limits import Limits, how_to_raise

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LONG_NUMBER: Final = re.compile("[0-9][0-9_]{3999,}")
_CHARACTERS_PER_STEP: Final = 10
_HINT: Final = (
    "as there are JSON files beside the document, '{{', '{%' and '{#' begin parts of a template"
)


def render(text: str, file: str, container: Container, limits: Limits) -> str:
    """What a template gives with the JSON files of its container, each under its name.

    Raises NnefError `tract/template`, `tract/resource`, `limit/...` with the line of the template.
    """
    budget = Budget(limits, len(text))
    names = set(container.json_names())
    values: dict[str, Any] = {}
    statements = Statements(budget)

    def resource(name: str) -> Any:
        if name not in names:
            return UndefinedName(name)
        if name not in values:
            values[name] = json_value(container, name)
        return values[name]

    try:
        _check_size(text, limits)
        result = statements.render(_parse(text, file), resource)
        if "\0" in result or _SURROGATE.search(result):
            raise TemplateError("it gives characters that no text has")
        return result
    except TemplateError as fault:
        found = Diagnostic("tract/template", f"in the template: {fault}")
    except Exhausted as exhausted:
        message, hint = f"in the template: {exhausted.message}", how_to_raise(exhausted.limit)
        found = Diagnostic(f"limit/{exhausted.limit}", message, hint=hint)
    except RecursionError:
        message = "expressions and macros of the template nest too deeply"
        found = Diagnostic("limit/recursion", message)
    except NnefError as error:
        (found,) = error.errors
    raise NnefError([found._replace(place=found.place or Place(file, statements.line, 1))])


def _parse(text: str, file: str) -> nodes.Template:
    try:
        return Environment(cache_size=0).parse(text)
    except TemplateSyntaxError as error:
        line, message, hint = error.lineno, error.message, _HINT
    except ValueError:  # numbers that are too long for Python have no place
        number = _LONG_NUMBER.search(text)
        line = text.count("\n", 0, number.start()) + 1 if number else 1
        message, hint = "a number has thousands of digits", ""
    message = f"the template cannot be read: {message}"
    raise NnefError.of("tract/template", message, Place(file, line, 1), hint)


def _check_size(text: str, limits: Limits) -> None:
    """The tree of a template takes a thousand times the memory of its text, at worst."""
    most = _CHARACTERS_PER_STEP * limits.steps
    if len(text) > most:
        raise Exhausted("steps", f"{len(text)} characters, more than the {most} allowed")
