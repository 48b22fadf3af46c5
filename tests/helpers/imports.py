"""Models of files, imported or refused."""

from __future__ import annotations

from pathlib import Path

from nnefc.formats.fingerprints import take_fingerprint
from nnefc.frontends.common.graph_source import sample_graph
from nnefc.frontends.read_model import read_model
from nnefc.ir import Graph
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.support.limits import Limits


def import_or_refuse(path: Path, limits: Limits) -> NnefError | None:
    """Import a model for sample shapes; the error, or None if it is valid.

    Any other exception passes.  Errors that report a bug of nnefc are failures.
    """
    diagnostics = Diagnostics(limit=limits.errors)
    take_fingerprint(path)
    try:
        source = read_model(path, ImportConfig(chosen_limits=limits), diagnostics, sources=True)
        assert not isinstance(source, Graph)
        source.files()
        sample_graph(source, {}, diagnostics)
    except NnefError as error:
        for each in error.errors:
            assert not each.rule.startswith("internal"), str(error)
            assert each.message
        return error
    return None
