"""The text of a document that is a template."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from jinja2 import Environment, TemplateSyntaxError

from nnefc.errors import Diagnostic, NnefError, Place
from nnefc.formats.container import Container
from nnefc.frontends.budget import Budget, Exhausted
from nnefc.frontends.tract.resources import json_value
from nnefc.frontends.tract.templates.statements import Statements
from nnefc.frontends.tract.templates.values import Fault, Undefined
from nnefc.limits import Limits, how_to_raise

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
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
            return Undefined(name)
        if name not in values:
            values[name] = json_value(container, name)
        return values[name]

    try:
        _check_size(text, limits)
        result = statements.render(Environment(cache_size=0).parse(text), resource)
        if "\0" in result or _SURROGATE.search(result):
            raise Fault("it gives characters that no text has")
        return result
    except TemplateSyntaxError as error:
        found = Diagnostic("tract/template", f"the template cannot be read: {error.message}")
        found = replace(found, place=Place(file, error.lineno, 1), hint=_HINT)
    except ValueError as error:  # of numbers with thousands of digits, which have no place
        found = Diagnostic("tract/template", f"the template cannot be read: {error}")
    except Fault as fault:
        found = Diagnostic("tract/template", f"in the template: {fault}")
    except Exhausted as exhausted:
        message, hint = f"in the template: {exhausted.message}", how_to_raise(exhausted.limit)
        found = Diagnostic(f"limit/{exhausted.limit}", message, hint=hint)
    except RecursionError:
        message = "expressions and macros of the template nest too deeply"
        found = Diagnostic("limit/recursion", message)
    except NnefError as error:
        (found,) = error.errors
    raise NnefError([replace(found, place=found.place or Place(file, statements.line, 1))])


def _check_size(text: str, limits: Limits) -> None:
    """The tree of a template takes a thousand times the memory of its text, at worst."""
    most = _CHARACTERS_PER_STEP * limits.steps
    if len(text) > most:
        raise Exhausted("steps", f"{len(text)} characters, more than the {most} allowed")
