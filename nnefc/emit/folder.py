"""The folder of a model for programs in C, written whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nnefc.emit.embedding import embedded_object
from nnefc.emit.example import cmake_file, main_program
from nnefc.emit.header import Interface, header
from nnefc.emit.names import check_name, model_name
from nnefc.emit.shared import link_shared
from nnefc.formats.atomic import replace_folder
from nnefc.formats.files import FilePath
from nnefc.runtime.artifact.build import TargetBuild
from nnefc.runtime.artifact.write import PortableModel
from nnefc.runtime.memory.tensors import TensorSpec

Array = np.ndarray[Any, Any]


def interface(model: PortableModel, build_states: Sequence[str], name: str | None) -> Interface:
    """What a C program sees of a model, whose states are in the order of a build."""
    states = {state.label.lower(): state for state in model.states}
    ordered = [states[key] for key in build_states]
    return Interface.of(
        model_name(model.name) if name is None else check_name(name),
        model.inputs,
        model.outputs,
        [TensorSpec(s.label, s.initial.shape, s.initial.dtype) for s in ordered],
    )


def write_c(
    path: FilePath, model: PortableModel, build: TargetBuild, name: str | None
) -> list[str]:
    """Write the folder of a build, whole or not at all: the names of the files in it.

    Raises NnefError `data/write`, and those of `Interface.of`.
    """
    face = interface(model, build.states, name)
    initial = {state.label.lower(): state.initial for state in model.states}
    with replace_folder(path) as folder:
        weights = folder / f"{face.name}.weights"
        with weights.open("xb") as file:
            made = embedded_object(
                build,
                list(model.arrays.values()),
                [initial[key] for key in build.states],
                face,
                file,
            )
        if not made.has_weights:
            weights.unlink()
        (folder / f"{face.name}.o").write_bytes(made.object)
        about = f"code for {build.isa}{', this processor' if build.cpu else ''}"
        _text(folder / f"{face.name}.h", header(face, about, made.has_weights))
        _text(folder / "main.c", main_program(face, made.has_weights))
        _text(folder / "CMakeLists.txt", cmake_file(face))
        link_shared(folder, face.name, build.isa)
        return sorted(entry.name for entry in folder.iterdir())


def _text(path: Path, text: str) -> None:
    path.write_text(text, encoding="ascii", newline="\n")
