"""The options that say which document a command reads, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from nnefc.cli.support.batch import batch_shapes
from nnefc.cli.support.options import parse_import

if TYPE_CHECKING:
    import typer

    from nnefc.options.import_config import ImportConfig


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """A model and its import options, as they were typed; the fields are named as parameters of
    commands are.
    """

    model: str
    batch: int | None = None
    shape: Sequence[str] | None = None
    symbol: Sequence[str] | None = None
    dialect: str = "auto"
    scalar: str = "float32"
    random_weights: int | None = None
    strict: bool = False
    limit: Sequence[str] | None = None

    @classmethod
    def of(cls, context: typer.Context) -> DocumentOptions:
        """The options of the command that runs; those it does not have get their defaults."""
        typed: dict[str, Any] = context.params
        return cls(**{f.name: typed[f.name] for f in fields(cls) if f.name in typed})

    def shapes(self) -> list[str]:
        """The `--shape` options, and one for each external that `--batch` changes.

        With `--batch` this reads the model, without the data of variables.
        """
        return batch_shapes(
            self.model, self.batch, self.shape, self.symbol, self.limit, self.dialect
        )

    def import_config(self, shapes: Sequence[str]) -> ImportConfig:
        """The checked import options; `shapes`: those of `shapes()`."""
        return parse_import(
            shapes=shapes,
            symbols=self.symbol,
            random_weights=self.random_weights,
            scalar=self.scalar,
            dialect=self.dialect,
            strict=self.strict,
            limits=self.limit,
        )
