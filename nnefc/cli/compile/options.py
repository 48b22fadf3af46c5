"""The options that only `nnefc compile` has, and their checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnefc.cli.compile.emit_c import FORMATS, EmitOptions, check_emit
from nnefc.cli.support.artifacts import check_output, complete_targets
from nnefc.cli.support.options import usage

if TYPE_CHECKING:
    from nnefc.options.compile_config import CompileConfig

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE.nnefc",
        readable=False,
        help="Write the compiled model to an artifact, which other commands and nnefc.load run "
        "without a compiler. With --emit: the folder to write.",
    ),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        metavar="NAME[,NAME...]",
        help="Instruction sets to generate code for, such as x86-64-v3 or aarch64 (default: "
        "native, this processor with all its features), with extensions as in aarch64+dotprod or "
        "x86-64-v4+vnni+amx; repeatable. Weights are packed for the first one.",
        autocompletion=complete_targets,
    ),
]
Emit = Annotated[
    str | None,
    typer.Option(
        "--emit",
        metavar="c|openvx",
        help="Write a folder for C programs instead of an artifact: object file, header, "
        "weights, example; openvx: also a module that vxLoadKernels loads. -o names the folder, "
        "which must be new or empty, or have an earlier version of the model.",
        autocompletion=lambda: list(FORMATS),
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="With --emit: prefix of the names of functions and files (default: the name of the "
        "graph).",
    ),
]
FixedPointPosition = Annotated[
    int | None,
    typer.Option(
        "--fixed-point-position",
        metavar="N",
        min=0,
        max=15,
        help="With --emit openvx: the fraction bits of tensors of int16, such as 8 for Q7.8 "
        "(default: 0).",
    ),
]
StateCapacity = Annotated[
    int | None,
    typer.Option(
        "--state-capacity",
        metavar="N",
        min=1,
        help="With --dynamic --emit c: the most items of states that grow, such as the tokens of a "
        "key-value cache.",
    ),
]
Dynamic = Annotated[
    bool,
    typer.Option(
        "--dynamic",
        help="Keep symbols and states in what is written: --symbol (or --shape) names a length to "
        "plan for, and similar ones need no compiler. Repeat it for several: --symbol S=64 "
        "--symbol S=1.",
    ),
]
Plan = Annotated[bool, typer.Option("--plan", help="List the launches of the plan.")]
Explain = Annotated[
    bool, typer.Option("--explain", help="Show what each pass changed, and what it gained.")
]
Tune = Annotated[
    bool,
    typer.Option(
        "--tune",
        help="Measure which algorithm is fastest for each convolution on this machine, and store "
        "the choices for all commands and for nnefc.compile.",
    ),
]


@dataclass(frozen=True, slots=True)
class Destination:
    """The output of a compilation: an artifact, a folder for C programs, or none."""

    targets: Sequence[str]
    """Checked targets; empty if nothing is written."""
    artifact: Path | None
    emit_options: EmitOptions | None

    @classmethod
    def of(
        cls,
        output: Path | None,
        targets: Sequence[str] | None,
        emit: str | None,
        name: str | None,
        state_capacity: int | None,
        fixed_point_position: int | None,
    ) -> Destination:
        """The checked options; raises NnefError for wrong ones, before anything is compiled."""
        emit_options = check_emit(emit, output, name, targets, state_capacity, fixed_point_position)
        if emit_options is not None:
            return cls([emit_options.target], None, emit_options)
        return cls(check_output(output, targets), output, None)


@dataclass(frozen=True, slots=True)
class CodeOptions:
    """Options of compiling a graph, and of the report about it."""

    config: CompileConfig
    tune: bool
    explain: bool

    @classmethod
    def of(cls, config: CompileConfig, tune: bool, explain: bool) -> CodeOptions:
        """The checked options."""
        if tune and config.is_strict:
            raise usage(
                "--tune has no algorithms to choose from with --accuracy strict", "leave one out"
            )
        return cls(config, tune, explain)
