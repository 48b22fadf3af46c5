"""Groups of options that several commands share, as dataclasses whose fields are the options.

A command takes a group as one parameter; `expand_groups` replaces the parameter by the options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, get_type_hints

from nnefc.cli.support.batch import batch_shapes
from nnefc.cli.support.options import (
    Accuracy,
    Batch,
    Dialect,
    Inputs,
    LimitOptions,
    NoCheckIndices,
    Precision,
    RandomWeights,
    Scalar,
    Shapes,
    StrictQuantization,
    parse_import,
)
from nnefc.cli.support.pictures import Layout, Mean, PictureOptions, Std
from nnefc.cli.support.symbol_option import Symbols

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nnefc.options.compile_config import CompileConfig
    from nnefc.options.import_config import ImportConfig


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """How a document is read, as typed."""

    shape: Shapes = None
    symbol: Symbols = None
    dialect: Dialect = "auto"
    limit: LimitOptions = None

    def import_config(self, *, load_data: bool) -> ImportConfig:
        """The checked options; `load_data`: read the data of variables."""
        return parse_import(
            shapes=self.shape,
            symbols=self.symbol,
            dialect=self.dialect,
            limits=self.limit,
            data=load_data,
        )


@dataclass(frozen=True, slots=True)
class DocumentOptions(SourceOptions):
    """How a document becomes a graph that can run, as typed."""

    random_weights: RandomWeights = None
    batch: Batch = None
    scalar: Scalar = "float32"

    def shapes(self, model: str) -> list[str]:
        """The `--shape` options, and one for each external of a model that `--batch` changes.

        With `--batch` this reads the model, without the data of variables.
        """
        return batch_shapes(model, self.batch, self.shape, self.symbol, self.limit, self.dialect)

    def changed(self) -> list[str]:
        """The options whose values are not the default ones."""
        changed = [each.name for each in fields(self) if getattr(self, each.name) != each.default]
        return [f"--{name.replace('_', '-')}" for name in changed]

    def config_of(self, model: str, *, strict: bool = False) -> ImportConfig:
        """The checked options, for a model; with `--batch` this reads it, as `shapes` does."""
        return self.config_for(self.shapes(model), strict=strict)

    def config_for(self, shapes: Sequence[str] | None, *, strict: bool = False) -> ImportConfig:
        """The checked options, with these `--shape` options instead."""
        return parse_import(
            shapes=shapes,
            symbols=self.symbol,
            random_weights=self.random_weights,
            scalar=self.scalar,
            dialect=self.dialect,
            strict=strict,
            limits=self.limit,
        )


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How a graph is compiled, as typed."""

    accuracy: Accuracy = "fast"
    no_check_indices: NoCheckIndices = False
    precision: Precision = "float32"
    strict_quantization: StrictQuantization = False

    def check(self) -> None:
        """Raise NnefError `input/argument` for an unknown accuracy or precision."""
        from nnefc.options.compile_config import CompileConfig

        CompileConfig.of(None, self.accuracy, precision=self.precision)

    def config(
        self, threads: int | None, algorithms: Mapping[str, str] | None = None
    ) -> CompileConfig:
        """The checked options, for `threads` threads; `algorithms`: see `CompileConfig`."""
        from nnefc.driver.precision import warn_of_precision
        from nnefc.options.compile_config import CompileConfig

        config = CompileConfig.of(
            threads,
            self.accuracy,
            check_indices=not self.no_check_indices,
            precision=self.precision,
            strict_quantization=self.strict_quantization,
        )
        warn_of_precision(config)
        return config._replace(algorithms=algorithms)


@dataclass(frozen=True, slots=True)
class InputOptions:
    """Files for inputs, and how pictures become arrays, as typed."""

    input: Inputs = None
    mean: Mean = None
    std: Std = None
    layout: Layout = "auto"

    def pictures(self) -> PictureOptions:
        """The checked options of pictures; raises NnefError with all errors."""
        return PictureOptions.of(self.mean, self.std, self.layout)


def expand_groups(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of each group that `command` takes, instead of the group."""
    groups: dict[str, Any] = {}
    options: list[Parameter] = []
    for parameter in signature(command, eval_str=True).parameters.values():
        if is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            options += _options_of(parameter.annotation)
        else:
            options.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def expanded(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{each.name: values.pop(each.name) for each in fields(group)})
        command(**values)

    described: Any = expanded
    described.__signature__ = signature(command).replace(parameters=options)
    described.__annotations__ = {option.name: option.annotation for option in options}
    return expanded


def _options_of(group: Any) -> Iterator[Parameter]:
    """The options of a group: those of the class itself, then those that it inherits."""
    hints = get_type_hints(group, include_extras=True)
    defaults = {each.name: each.default for each in fields(group)}
    for kind in group.__mro__[:-1]:
        for name in kind.__annotations__:
            yield Parameter(
                name, Parameter.KEYWORD_ONLY, default=defaults[name], annotation=hints[name]
            )
