"""Check a document with its data and quantization."""

from __future__ import annotations

from typing import Final

from nnefc.frontends.common.graph_source import DECLARED_RULE, sample_graph
from nnefc.frontends.common.symbolic_graph import check_declared_extents
from nnefc.frontends.read_model import read_model
from nnefc.ir import Graph
from nnefc.options.arguments import check_dialect
from nnefc.options.import_config import ImportConfig, Path
from nnefc.support.errors import Diagnostic, Diagnostics, NnefError, Place
from nnefc.support.limits import Limits

FATAL: Final = (DECLARED_RULE,)
"""Rules of warnings that are errors of a check, for `Diagnostics`."""


def check_model(
    source: Path, diagnostics: Diagnostics, limits: Limits, dialect: str = "auto"
) -> None:
    """Check a document with its data and quantization; nothing is compiled.

    Missing data is not an error: a document is valid without it.  Symbols without a value get small
    ones, which a note names; operators with states are checked for a first and for a second call.
    """
    config = ImportConfig(chosen_limits=limits, dialect=check_dialect(dialect), require_data=False)
    model = read_model(source, config, diagnostics)
    if isinstance(model, Graph):
        return
    try:
        trial = sample_graph(model, {}, diagnostics)
    except NnefError as error:
        if not model.value_inputs:
            raise
        names = ", ".join(model.value_inputs)
        message = f"{model.name} is not checked whole: no sample values of {names}, which decide "
        message += f"shapes, are possible: {error.errors[0].message}"
        diagnostics.add(Diagnostic("input/trial", message, Place(str(source)), "note"))
        return
    if trial.values:
        check_declared_extents(model, {}, Place(str(source)), diagnostics)
        message = f"{model.name} is checked with {trial}: extents of its inputs are symbols"
        diagnostics.add(Diagnostic("input/trial", message, Place(str(source)), "note"))
    if states := trial.graph.state_shapes:
        model.graph(trial.shapes, diagnostics, states=states)
    diagnostics.raise_errors()
