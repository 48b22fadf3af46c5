"""Write the folder of a model for C programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from nnefc.emit.earlier_folder import WRITTEN, EarlierFolder, marked
from nnefc.emit.embed_static import EmbeddedObject, embedded_object
from nnefc.emit.header import Interface, header
from nnefc.emit.main_program import cmake_file, main_program
from nnefc.emit.names import check_name, model_name
from nnefc.emit.openvx.cmake import openvx_cmake
from nnefc.emit.openvx.module import openvx_module
from nnefc.emit.session_states import SessionStates
from nnefc.emit.shared import link_shared
from nnefc.formats.atomic import replace_folder, require_new_folder
from nnefc.formats.files import FilePath
from nnefc.runtime.artifact.build_static import CodeBuild, TargetBuild
from nnefc.runtime.artifact.write_static import PortableModel
from nnefc.runtime.memory.caller_arrays import TensorSpec
from nnefc.support.package import VERSION

if TYPE_CHECKING:
    from nnefc.runtime.artifact.build_dynamic import DynamicBuild, PatternBuild
    from nnefc.runtime.artifact.write_dynamic import PortableSource
    from nnefc.symbolic.linear_shapes import LinearShapes

Array = np.ndarray[Any, Any]


def c_interface(model: PortableModel, build_states: Sequence[str], name: str | None) -> Interface:
    """The C interface of a model, with states in the order of a build."""
    states = {state.label.lower(): state for state in model.states}
    ordered = [states[key] for key in build_states]
    return Interface.of(
        model_name(model.name) if name is None else check_name(name),
        model.inputs,
        model.outputs,
        [TensorSpec(s.label, s.initial.shape, s.initial.dtype) for s in ordered],
    )


def write_c(
    path: FilePath,
    model: PortableModel,
    build: TargetBuild,
    name: str | None,
    fixed_point_position: int | None = None,
) -> list[str]:
    """Write the folder of a build, whole or not at all; returns the names of its files.

    `fixed_point_position`: of int16 tensors in a module for OpenVX; None: without a module.
    Raises NnefError `data/write`, and the errors of `Interface.of`.
    """
    interface = c_interface(model, build.states, name)
    initial = {state.label.lower(): state.initial for state in model.states}
    states, arrays = [initial[key] for key in build.states], list(model.arrays.values())
    return _write(
        path,
        build,
        interface,
        lambda file: embedded_object(build, arrays, states, interface, file),
        fixed_point_position,
    )


def write_c_patterns(
    path: FilePath,
    model: PortableSource,
    build: DynamicBuild,
    linear: LinearShapes | None,
    tensors: tuple[Sequence[TensorSpec], Sequence[TensorSpec]],
    name: str | None,
) -> list[str]:
    """As `write_c`, for a model with symbols; `tensors`: its inputs and outputs, -1 for extents
    that vary.

    Raises NnefError `artifact/c-shape` for plans whose numbers cannot be computed in C.
    """
    from nnefc.emit.embed_dynamic import embedded_patterns

    first = build.patterns[0]
    inputs, outputs = tensors
    states = SessionStates.of(build.patterns)
    _, returned = states.positions(first)
    results = len(outputs)
    hidden = [i for i in range(results, len(first.outputs)) if i not in returned]
    counts = [first.outputs[i] for i in hidden]  # of valid items of the outputs
    if states.specs:
        outputs = [_varying(build.patterns, i) for i in range(results)]
    prefix = model_name(model.name) if name is None else check_name(name)
    symbols = first.conditions.symbols
    interface = Interface.of(
        prefix, inputs, (*outputs, *counts), states.specs, symbols, growing=states.axes
    )
    arrays = list(model.arrays.values())
    return _write(
        path,
        build,
        interface,
        lambda file: embedded_patterns(build, arrays, linear, interface, states, file),
    )


def _varying(patterns: Sequence[PatternBuild], number: int) -> TensorSpec:
    """An output of several plans, with -1 for extents that vary."""
    specs = [each.outputs[number] for each in patterns]
    varies = any(number in each.template.outputs for each in patterns)
    name, shape, dtype = specs[0]
    extents = zip(*(spec.shape for spec in specs), strict=True)
    shape = tuple(-1 if varies or len(set(each)) > 1 else each[0] for each in extents)
    return TensorSpec(name, shape, dtype)


def _write(
    path: FilePath,
    build: CodeBuild,
    interface: Interface,
    embed: Callable[[BinaryIO], EmbeddedObject],
    position: int | None = None,
) -> list[str]:
    """Write the folder; `embed` writes the weights, and returns the object file."""
    earlier = EarlierFolder.of(path)
    earlier.check(interface.name)
    if not earlier.has_model:
        require_new_folder(path)
    with replace_folder(path, merge=earlier.has_model) as folder:
        weights = folder / f"{interface.name}.weights"
        with weights.open("xb") as file:
            embedded = embed(file)
        if not embedded.has_weights:
            weights.unlink()
        (folder / f"{interface.name}.o").write_bytes(embedded.object)
        about = f"code for {build.target}{', this processor' if build.cpu else ''}"
        _text(folder / f"{interface.name}.h", header(interface, about, embedded.has_weights))
        cmake = cmake_file(interface)
        if position is not None:
            module = openvx_module(interface, embedded.has_weights, position)
            _text(folder / f"{interface.name}_openvx.c", f"/* {WRITTEN} {VERSION}. */\n{module}")
            cmake += openvx_cmake(interface, embedded.has_weights)
        examples = {
            "main.c": main_program(interface, embedded.has_weights),
            "CMakeLists.txt": cmake,
        }
        for file, text in examples.items():
            _text(folder / file, marked(text, is_c=file.endswith(".c")))
        link_shared(folder, interface.name, build.isa)
        names = sorted(entry.name for entry in folder.iterdir())
        earlier.leave_changed(folder, examples)
    earlier.remove_others(interface.name, names)
    return names


def _text(path: Path, text: str) -> None:
    path.write_text(text, encoding="ascii", newline="\n")
