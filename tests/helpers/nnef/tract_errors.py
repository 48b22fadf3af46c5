"""Wrong documents in tract's dialect, and their errors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from nnefc.frontends.read_model import read_model
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import Diagnostic, NnefError
from nnefc.support.limits import Limits

HEAD = """\
version 1.0;
extension tract_registry tract_core;
extension tract_registry tract_transformers;
"""
Y = """\
graph net( x ) -> ( y )
{
    x = tract_core_external(shape = [2, 3], datum_type = 'f32');
    y = %s;
}
"""
"""A graph of one operation, whose text replaces `%s`."""
STEP = """\
fragment step( a: tensor<scalar>, h: tensor<scalar> ) -> ( r: tensor<scalar>, o: tensor<scalar> )
{
    r = tanh(a + h);
    o = r * 2.0;
}
"""
SCAN = (
    "tract_core_scan('step', scan = [('a', x, 0, 1)], full = [], "
    "state = [('h', [[0.0, 0.0, 0.0]], 'r')], output = [('o', 'full', 0, 1)])"
)
"""A loop whose body is the fragment `STEP`."""


def errors(
    folder: Path,
    text: str,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    files: Mapping[str, bytes | str] | None = None,
    limits: Limits | None = None,
) -> list[Diagnostic]:
    """The errors of a document in a folder; each has a position."""
    (folder / "graph.nnef").write_text(text)
    for name, content in (files or {}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(NnefError) as error:
        config = ImportConfig(shapes=shapes or {}, chosen_limits=limits)
        read_model(folder, config, dynamic=False)
    assert all(e.line and e.column for e in error.value.errors), error.value
    return list(error.value.errors)


def rules(found: list[Diagnostic]) -> list[str]:
    return [each.rule for each in found]
