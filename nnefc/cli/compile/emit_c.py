"""`nnefc compile --emit`: a folder for C programs, or with a module for OpenVX besides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nnefc.cli.support.options import usage
from nnefc.cli.support.printing import size
from nnefc.formats.atomic import require_new_folder

if TYPE_CHECKING:
    from rich.console import Console

    from nnefc.cli.compile.generated_code import CompileResult
    from nnefc.ir import Graph


FORMATS: Final = ("c", "openvx")
"""The values of `--emit`."""


@dataclass(frozen=True, slots=True)
class EmitOptions:
    """The options of `--emit`, checked."""

    folder: Path
    name: str | None
    target: str
    state_capacity: int | None = None
    """The most items of growing states."""
    fixed_point_position: int | None = None
    """Of int16 tensors in a module for OpenVX; None: no module is written."""


def check_emit(
    emit: str | None,
    output: Path | None,
    name: str | None,
    targets: Sequence[str] | None,
    state_capacity: int | None = None,
    fixed_point_position: int | None = None,
) -> EmitOptions | None:
    """The checked options of `--emit`; None without it.

    Raises NnefError for wrong options and for a folder that cannot be written.
    """
    from nnefc.driver.targets import check_targets
    from nnefc.emit.earlier_folder import EarlierFolder
    from nnefc.emit.names import check_name
    from nnefc.kernels.target.isa import NATIVE

    if fixed_point_position is not None and emit != "openvx":
        raise usage(
            f"--fixed-point-position {fixed_point_position} is for a kernel of OpenVX",
            "add --emit openvx -o FOLDER",
        )
    if emit is None:
        if name is not None:
            raise usage(f"--name {name} needs --emit", "add --emit c -o FOLDER")
        if state_capacity is not None:
            raise usage(
                f"--state-capacity {state_capacity} needs --emit",
                "add --dynamic --emit c -o FOLDER",
            )
        return None
    if emit not in FORMATS:
        raise usage(f"--emit {emit}: unknown format", "--emit c or --emit openvx")
    if output is None:
        raise usage(f"--emit {emit} needs a folder to write", "add -o FOLDER")
    if name is not None:
        check_name(name)
    earlier = EarlierFolder.of(output)
    if not earlier.has_model:
        require_new_folder(output)
    elif name is not None:
        earlier.check(name)
    wanted = check_targets([each for text in targets or [NATIVE] for each in text.split(",")])
    if len(wanted) > 1:
        raise usage(
            f"--target {','.join(wanted)}: an object file has code for one target",
            "write a folder for each",
        )
    position = (fixed_point_position or 0) if emit == "openvx" else None
    return EmitOptions(output, name, wanted[0], state_capacity, position)


def check_fraction_bits(graph: Graph, emit_options: EmitOptions) -> None:
    """Raise NnefError for fraction bits of a model without inputs and results of int16."""
    from nnefc.ir import DType

    position = emit_options.fixed_point_position
    tensors = (*graph.inputs, *graph.outputs)
    if position and not any(each.type.dtype is DType.INT16 for each in tensors):
        raise usage(
            f"--fixed-point-position {position}: no input and no result of the model is int16",
            "leave it out; the kernel has tensors of the types of the model",
        )


def write_folder(result: CompileResult, emit_options: EmitOptions) -> dict[str, Any]:
    """Write the folder and return the sizes of its files, for JSON."""
    names = result.emit_c(emit_options.folder, emit_options.name, emit_options.fixed_point_position)
    return emit_facts(emit_options, names)


def emit_facts(emit_options: EmitOptions, names: Sequence[str]) -> dict[str, Any]:
    """The sizes of the files of a folder, for JSON."""
    folder = emit_options.folder
    return {
        "path": str(folder),
        "target": emit_options.target,
        "files": {name: (folder / name).stat().st_size for name in names},
    }


def print_emitted(out: Console, facts: dict[str, Any]) -> None:
    """Print the folder and its files on one line."""
    files = [f"{name} ({size(nbytes)})" for name, nbytes in facts["files"].items()]
    out.print(f"{facts['path']}: {', '.join(files)}")
