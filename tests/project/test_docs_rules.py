"""The page of errors and the code name the same rules; its examples are what nnefc prints."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from nnefc.api.check import check_model
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError
from nnefc.support.limits import Limits
from tests.helpers.sources import modules, tree

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "errors.md").read_text()
OPERATORS = {
    ROOT / "nnefc" / "frontends" / "tract" / "operators",
    ROOT / "nnefc" / "frontends" / "common" / "operators",
    ROOT / "nnefc" / "frontends" / "onnx",
    ROOT / "nnefc" / "frontends" / "tflite",
}
"""Their rules `argument/...` are all of them `argument/OPERATION`."""

RULE = re.compile(r"[a-z]+/[A-Za-z0-9][A-Za-z0-9.-]*")
PREFIX = re.compile(r"[a-z]+/")

MADE = {
    "argument/": {"argument/OPERATION"},
    "data/": {"data/shape", "data/type"},
    "limit/": {"limit/items", "limit/operations", "limit/recursion", "limit/steps"},
}
"""Rules that are put together at run time, by what they begin with."""


@cache
def nodes() -> list[tuple[Path, ast.Constant | ast.Call]]:
    """Literals and calls of all sources."""
    return [
        (path, node)
        for path in modules().values()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant | ast.Call)
    ]


def families() -> list[str]:
    """The families of rules that the docstring of `Diagnostic` lists, in order."""
    assert Diagnostic.__doc__
    found = re.search(r"families are\s+(.*?)\.", Diagnostic.__doc__, re.DOTALL)
    assert found
    return re.findall(r"[a-z]+", found[1].replace(" and ", " "))


def strings() -> Iterator[tuple[Path, str]]:
    for path, node in nodes():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield path, node.value


def rules_of_code() -> set[str]:
    known = set(families())
    rules = {
        s
        for path, s in strings()
        if RULE.fullmatch(s)
        and s.partition("/")[0] in known
        and not (s.startswith("argument/") and OPERATORS & set(path.parents))
    }
    return rules.union(*MADE.values())


def rules_of_page() -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)


def first_arguments() -> Iterator[tuple[Path, str]]:
    """String literals that are the first argument of a call."""
    for path, node in nodes():
        if isinstance(node, ast.Call) and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield path, first.value


@pytest.mark.slow
def test_every_rule_is_on_the_page_once() -> None:
    page = rules_of_page()
    assert len(page) == len(set(page))
    assert sorted(rules_of_code() - set(page)) == [], "add them to docs/errors.md"
    assert sorted(set(page) - rules_of_code()) == [], "no code has them any more"


@pytest.mark.slow
def test_composed_rules_are_listed() -> None:
    known = set(families())
    prefixes = {s for _, s in strings() if PREFIX.fullmatch(s) and s[:-1] in known}
    assert prefixes == set(MADE), "say in MADE what the new ones become"
    limits = {
        node.args[0].value
        for _, node in nodes()
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Exhausted"
        and isinstance(node.args[0], ast.Constant)
    }
    assert {f"limit/{name}" for name in limits} == MADE["limit/"]


@pytest.mark.slow
def test_families_are_those_of_the_docstring_of_diagnostics() -> None:
    known = families()
    assert {rule.partition("/")[0] for rule in rules_of_page()} == set(known)
    assert re.findall(r"^\| \[([a-z]+)\]\(#\1\) \|", PAGE, re.MULTILINE) == known
    headings = re.findall(r"^## ([a-z]+)$", PAGE, re.MULTILINE)
    assert headings == known
    strange = {
        (path.name, text)
        for path, text in first_arguments()
        if re.fullmatch(r"[a-z]+/[a-z0-9.-]+", text) and text.partition("/")[0] not in known
    }
    assert not strange, "name the family in the docstring of Diagnostic"


def test_rules_are_in_the_section_of_their_family() -> None:
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        family = section.partition("\n")[0]
        for rule in re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE):
            assert rule.startswith(f"{family}/")


def examples() -> list[tuple[str, str, str]]:
    """(file, document, what `nnefc check` prints)."""
    found = re.findall(
        r"```nnef\n(# (\S+)\n.*?)```\n\n```\n\$ nnefc check (\S+)\n(.*?)```", PAGE, re.DOTALL
    )
    assert all(named == checked for _, named, checked, _ in found)
    return [(file, document, output) for document, file, _, output in found]


@pytest.mark.parametrize(("file", "document", "output"), examples(), ids=lambda text: text[:12])
def test_examples(
    file: str, document: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(file).write_text(document)
    diagnostics = Diagnostics()
    errors: tuple[Diagnostic, ...] = ()
    try:
        check_model(file, diagnostics, Limits())
    except NnefError as error:
        errors = error.errors
    printed = [str(diagnostic) for diagnostic in (*diagnostics.warnings, *errors)]
    assert "".join(f"{text}\n" for text in printed) == output


def test_there_are_examples() -> None:
    assert len(examples()) == 4
