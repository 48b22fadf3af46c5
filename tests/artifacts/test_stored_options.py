"""The options of compiling are stored in artifacts and pickles, for code that is compiled later."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.artifacts.artifact_origin import FromArtifact
from nnefc.dynamic.dynamic_model import DynamicModel
from nnefc.options.compile_config import CompileConfig
from nnefc.runtime.run.compiled_model import CompiledModel
from tests.helpers.artifacts.saved import compiled

STATIC = """\
version 1.0;
graph g( x ) -> ( y )
{
    x = external(shape = [1, 4]);
    y = relu(x);
}
"""
DYNAMIC = """\
version 1.0;
extension tract_registry tract_core;
extension tract_symbol S;
graph g(x) -> (y) {
  x = tract_core_external(shape = [1, S], datum_type = 'f32');
  y = relu(x);
}"""
OPTIONS = [
    {"tuned": False},
    {"check_indices": False},
    {"accuracy": "strict"},
    {"precision": "bfloat16"},
    {},
]


def config_of(model: Any) -> CompileConfig:
    """The options with which a loaded model is compiled for another processor or shape."""
    if isinstance(model, DynamicModel):
        return model._parts.planner.config  # pyright: ignore[reportPrivateUsage]
    assert isinstance(model, CompiledModel)
    origin = model._origin  # pyright: ignore[reportPrivateUsage]
    assert isinstance(origin, FromArtifact)
    return origin.config


@pytest.mark.filterwarnings("ignore:.*products of bfloat16")
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("document", [STATIC, DYNAMIC], ids=["static", "dynamic"])
def test_options_of_loaded_models(document: str, options: dict[str, Any], tmp_path: Path) -> None:
    model: Any = compiled(tmp_path, document, **options)
    model(np.ones((1, 4), np.float32))
    want = CompileConfig.of(**options)
    for number in range(3):
        path = tmp_path / f"{number}.nnefc"
        model.save(path)
        model = nnefc.load(path) if number < 1 else pickle.loads(pickle.dumps(model))
        found = config_of(model)
        assert found._replace(threads=None) == want
        assert found.algorithms == ({} if options.get("tuned") is False else None)
