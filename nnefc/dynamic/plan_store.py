"""`PlanStore`: where a dynamic model keeps its plans for other processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from nnefc.frontends.common.graph_source import GraphSource
    from nnefc.options.compile_config import CompileConfig


M = TypeVar("M", covariant=True)


class PlanStore(Protocol[M]):
    """The plans of one document and one set of options, for models of type `M`."""

    @property
    def config(self) -> CompileConfig:
        """How the model is compiled."""
        ...

    def find(self) -> M | None:
        """The model with the stored plans; None if there are none."""
        ...

    def document(self) -> GraphSource:
        """The document, read again; raises NnefError if it has been changed."""
        ...

    def store(self, planner: Any) -> None:
        """Store the latest plan of a `Planner`, beside the stored ones, if that is possible."""
        ...

    def with_states(self, pairs: Mapping[str, str]) -> PlanStore[M]:
        """The store of the model whose sessions keep these inputs, with outputs by input."""
        ...
