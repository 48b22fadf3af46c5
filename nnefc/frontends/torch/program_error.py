"""Errors of a program that name its nodes, for callers that compute these nodes otherwise."""

from __future__ import annotations

from collections.abc import Iterable

from nnefc.support.errors import Diagnostic, Diagnostics, NnefError


class ProgramError(NnefError):
    """Nodes of a program cannot be computed."""

    def __init__(self, errors: Iterable[Diagnostic], nodes: Iterable[str] = ()) -> None:
        """`nodes`: their names; empty if the errors are of none."""
        super().__init__(errors)
        self.nodes = frozenset(nodes)


def raise_errors(diagnostics: Diagnostics, nodes: Iterable[str]) -> None:
    """Raise ProgramError with the errors, if there are some, and the names of their nodes."""
    try:
        diagnostics.raise_errors()
    except NnefError as error:
        raise ProgramError(error.errors, nodes) from None
