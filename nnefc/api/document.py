"""Generate docs/reference.md: `python -m nnefc.api.document > docs/reference.md`."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any, Final

MODULES: Final = {
    "nnefc": None,
    "nnefc.onnx": None,
    "nnefc.onnx.backend": ("is_compatible", "prepare", "run_model", "run_node", "supports_device"),
    "nnefc.openvx": None,
    "nnefc.pytorch": None,
    "nnefc.tflite": None,
}
"""The public modules, with their public names; None: those of `__all__`."""

INTRODUCTION: Final = """\
# Python reference

Every public name of nnefc, generated from signatures and docstrings. [The guide](guide.md) shows
them in use, [errors](errors.md) lists the rules of an `NnefError`.
"""
_CONSTRUCTORS: Final = ("of", "of_artifact")
"""Class methods that the compiler builds objects with."""
_SECTION: Final = re.compile(r"^(Args|Returns|Raises|Yields):$")
_ITEM: Final = re.compile(r"^(\**\w+): ")


class _Annotation:
    """An annotation that a signature shows without quotes."""

    def __init__(self, value: Any) -> None:
        self._text = str(getattr(value, "__forward_arg__", value))

    def __repr__(self) -> str:
        return self._text


def document() -> str:
    """The page of all public names, in Markdown."""
    lines = [INTRODUCTION]
    for name, names in MODULES.items():
        module = importlib.import_module(name)
        lines.append(f"## {name}\n")
        for member in sorted(names or module.__all__, key=str.lower):
            lines.extend(_entry(f"{name}.{member}", getattr(module, member)))
    return "\n".join(lines).rstrip() + "\n"


def _entry(name: str, value: Any) -> Iterator[str]:
    """The lines of one public name."""
    yield f"### {name}\n"
    if inspect.isclass(value):
        yield from _class(name, value)
    elif callable(value):
        yield f"```python\n{_signature(name, value)}\n```\n"
        yield _prose(value) + "\n"
    else:
        yield f"A `{type(value).__name__}`: the version of nnefc.\n"


def _class(name: str, value: type) -> Iterator[str]:
    """The lines of a class: its bases, description, fields and members."""
    bases = [base.__name__ for base in value.__bases__ if base is not object]
    yield f"```python\nclass {name}{'(' + ', '.join(bases) + ')' if bases else ''}\n```\n"
    yield _prose(value) + "\n"
    constructor = vars(value).get("__init__")
    if "Args:" in (getattr(constructor, "__doc__", None) or ""):
        call = _signature(name.rpartition(".")[2], constructor).removesuffix(" -> None")
        yield f"```python\n{call}\n```\n"
        yield _prose(constructor) + "\n"
    fields = list(_fields(value))
    yield from fields
    if fields:
        yield ""
    for member, attribute in _members(value):
        if isinstance(attribute, property) or hasattr(attribute, "func"):
            getter: Any = getattr(attribute, "fget", None) or getattr(attribute, "func", None)
            result = _Annotation(inspect.signature(getter).return_annotation)
            yield f"#### {member}: `{result}`\n"
            yield _prose(getter) + "\n"
        else:
            yield f"#### {member}\n"
            function = getattr(value, member)
            yield f"```python\n{_signature(member, function)}\n```\n"
            yield _prose(function) + "\n"


def _fields(value: type) -> Iterator[str]:
    """A line for each annotated public field, with the string that follows it in the source."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(value))).body
    assert isinstance(body, ast.ClassDef)
    for node, after in zip(body.body, [*body.body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if node.target.id.startswith("_") or "ClassVar" in ast.unparse(node.annotation):
            continue
        if node.value is not None and "RefusedAttribute" in ast.unparse(node.value):
            continue  # reading it is an error
        default = "" if node.value is None else f" = {ast.unparse(node.value)}"
        text = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            text = ": " + _spaced(str(after.value.value))
        yield f"- `{node.target.id}: {ast.unparse(node.annotation)}{default}`{text}"


def _members(value: type) -> Iterator[tuple[str, Any]]:
    """The documented public methods and properties that nnefc defines, by name."""
    internal = {*_CONSTRUCTORS, *getattr(value, "_internal", ())}
    for name in sorted(dir(value)):
        if (name.startswith("_") and name != "__call__") or name in internal:
            continue
        homes = [base for base in value.__mro__ if name in vars(base)]
        if not homes or not homes[0].__module__.startswith("nnefc."):
            continue
        attribute = vars(homes[0])[name]
        if "ClassVar" in str(homes[0].__annotations__.get(name)):
            continue  # a hook, not a method
        described = isinstance(attribute, (property, classmethod, staticmethod))
        if described or inspect.isfunction(attribute) or hasattr(attribute, "func"):
            yield name, attribute


def _signature(name: str, function: Any) -> str:
    """The call of a function; one parameter a line if it is long."""
    signature = inspect.signature(function)
    parameters = [
        parameter
        if parameter.annotation is parameter.empty
        else parameter.replace(annotation=_Annotation(parameter.annotation))
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    result = signature.return_annotation
    if result is not signature.empty:
        result = _Annotation(result)
    text = f"{name}{signature.replace(parameters=parameters, return_annotation=result)}"
    if len(text) <= 90:
        return text
    lines = [str(parameter) for parameter in parameters]
    first = next((i for i, p in enumerate(parameters) if p.kind is p.KEYWORD_ONLY), None)
    variadic = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
    if first is not None and not variadic:
        lines.insert(first, "*")
    listed = "".join(f"    {line},\n" for line in lines)
    ending = "" if result is signature.empty else f" -> {result}"
    return f"{name}(\n{listed}){ending}"


def _prose(value: Any) -> str:
    """The docstring in Markdown: sections are bold, their items a list, examples code."""
    text = inspect.getdoc(value) or ""
    paragraphs = (_paragraph(part) for part in re.split(r"\n\s*\n", text))
    return "\n\n".join(paragraphs)


def _spaced(text: str) -> str:
    """The words of a text with single spaces between them."""
    return " ".join(text.split())


def _paragraph(text: str) -> str:
    """One paragraph of a docstring."""
    heading, _, rest = text.partition("\n")
    section = _SECTION.match(heading)
    if section is None:
        return f"```python\n{text}\n```" if text.startswith(">>>") else _spaced(text)
    items: list[str] = []
    for line in textwrap.dedent(rest).splitlines():
        if (line.startswith(" ") and items) or (section[1] == "Returns" and items):
            items[-1] += " " + line.strip()
        else:
            items.append(_ITEM.sub(r"`\1`: ", line))
    return f"{section[1]}:\n\n" + "\n".join(f"- {_spaced(item)}" for item in items)


if __name__ == "__main__":
    print(document(), end="")
