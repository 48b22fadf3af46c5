"""Rendering of a document template, with errors at its lines."""

from __future__ import annotations

import re
from typing import Any, Final

from jinja2 import Environment, TemplateSyntaxError, nodes

from nnefc.formats.container import Container
from nnefc.frontends.common.budget import Budget, Exhausted
from nnefc.frontends.tract.resources import json_value
from nnefc.frontends.tract.templates.statements import TemplateRenderer
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
    """The rendered text; the JSON files of the container are variables of the template.

    Raises NnefError `tract/template`, `tract/resource`, `limit/...` with the line of the template.
    """
    budget = Budget(limits, len(text))
    names = set(container.json_names())
    values: dict[str, Any] = {}
    renderer = TemplateRenderer(budget)

    def resource(name: str) -> Any:
        if name not in names:
            return UndefinedName(name)
        if name not in values:
            values[name] = json_value(container, name)
        return values[name]

    try:
        _check_size(text, limits)
        result = renderer.render(_parse(text, file), resource)
        if "\0" in result or _SURROGATE.search(result):
            raise TemplateError("it renders NUL or surrogate characters")
        return result
    except TemplateError as fault:
        diagnostic = Diagnostic("tract/template", f"in the template: {fault}")
    except Exhausted as exhausted:
        message, hint = f"in the template: {exhausted.message}", how_to_raise(exhausted.limit)
        diagnostic = Diagnostic(f"limit/{exhausted.limit}", message, hint=hint)
    except RecursionError:
        message = "expressions and macros of the template nest too deeply"
        diagnostic = Diagnostic("limit/recursion", message)
    except NnefError as error:
        (diagnostic,) = error.errors
    raise NnefError([diagnostic._replace(place=diagnostic.place or Place(file, renderer.line, 1))])


def _parse(text: str, file: str) -> nodes.Template:
    """The syntax tree of a template; raises NnefError `tract/template`."""
    try:
        return Environment(cache_size=0).parse(text)
    except TemplateSyntaxError as error:
        line, message, hint = error.lineno, error.message, _HINT
    except ValueError:  # Python refuses to parse long numbers, without a line
        number = _LONG_NUMBER.search(text)
        line = text.count("\n", 0, number.start()) + 1 if number else 1
        message, hint = "a number has thousands of digits", ""
    message = f"the template cannot be parsed: {message}"
    raise NnefError.of("tract/template", message, Place(file, line, 1), hint)


def _check_size(text: str, limits: Limits) -> None:
    """Raise Exhausted for a long template: its tree may take a thousand times the memory."""
    most = _CHARACTERS_PER_STEP * limits.steps
    if len(text) > most:
        raise Exhausted("steps", f"{len(text)} characters, more than the {most} allowed")
