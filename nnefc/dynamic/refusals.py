"""Errors of requests that a model with symbols or states refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nnefc.dynamic.states import stateful_model_error
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.support.wording import wording

if TYPE_CHECKING:
    from nnefc.frontends.common.graph_source import GraphSource


def unknown_shapes_error(
    what: str, source: GraphSource, shapes: Mapping[str, Sequence[int]]
) -> NnefError:
    """The error of a request that a model with symbols or states refuses.

    It names states, or gives `shapes` of inputs with examples of unknown extents as a hint.
    """
    from nnefc.frontends.common.graph_source import sample_graph

    try:
        trial = sample_graph(source, shapes, Diagnostics())
    except NnefError:
        example = "{...}"
    else:
        if states := trial.graph.state_shapes:
            return stateful_model_error(what, states)
        example = str({name: tuple(shape) for name, shape in trial.shapes.items()})
    hint = wording(
        f"model.for_shapes({example}) returns one",
        "nnefc compile MODEL --dynamic -o net.nnefc writes a file of the model",
    )
    return NnefError.of("input/shape", f"{what} needs a model with known shapes", hint=hint)
