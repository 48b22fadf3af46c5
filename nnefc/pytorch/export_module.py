"""Write modules as NNEF documents: exported by `torch.export`, then converted."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from nnefc.formats.container_writer import require_writable_container
from nnefc.formats.files import require_path
from nnefc.frontends.common.extents import assertion, names_of
from nnefc.frontends.torch.program import InputKind, OutputKind, Program
from nnefc.frontends.torch.signature import user_inputs
from nnefc.pytorch.arguments import (
    Axes,
    check_assertions,
    check_axes,
    check_inputs,
    check_module,
    check_tensor_names,
)
from nnefc.pytorch.export_program import export_program
from nnefc.pytorch.preserve_module import preserve_module
from nnefc.pytorch.rename_symbols import named_symbols
from nnefc.support.errors import NnefError, warn_python

if TYPE_CHECKING:
    import torch

    from nnefc.emit.convert.nnef_model import NnefModel

To = Literal["auto", "nnef", "tract"]
EXPORTERS = ("nnefc", "torch_to_nnef")


def export(
    module: torch.nn.Module,
    inputs: torch.Tensor | Sequence[Any],
    path: str | os.PathLike[str],
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    to: To = "auto",
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Mapping[str, Mapping[int, str]] | None = None,
    assertions: Sequence[str] = (),
    exporter: Literal["nnefc", "torch_to_nnef"] = "nnefc",
    **options: Any,
) -> Path:
    """Write a module in evaluation mode as an NNEF document, and return its path.

    The module is not changed.  Raises NnefError: `torch/...` for what cannot be exported,
    `flatten/...` for what the document cannot say; nothing is written then.

    Args:
        module: The module to export.
        inputs: Example arguments: tensors, and nested lists, tuples and dictionaries of tensors.
        path: An archive, such as `net.nnef.tgz`, or a folder.
        kwargs: Example keyword arguments.
        dynamic_shapes: The extents that may change, as in `torch.export.export`.
        to: "nnef" for NNEF 1.0.2, "tract" for the dialect of tract; "auto": the dialect where NNEF
            1.0.2 cannot say what the module computes.
        input_names: Names of the input tensors, in order; default: those of the arguments.
        output_names: Names of the results, in order; default: those of PyTorch's graph.
        dynamic_axes: Symbols for axes of inputs, which are tensors, instead of `dynamic_shapes`:
            `{"x": {0: "B"}}`. Extents with the same symbol are equal.
        assertions: Conditions on these symbols, which `inputs` must fulfil: `["S <= 512"]`.
        exporter: "torch_to_nnef" traces the module with the package of that name.
        options: For torch_to_nnef: `version`, `compression`, and options of its `TractNNEF`.
    """
    if exporter == "torch_to_nnef":
        from nnefc.pytorch.export_traced import export_traced

        names = {"input_names": input_names, "output_names": output_names}
        symbols = {"dynamic_axes": dynamic_axes, "assertions": assertions}
        return export_traced(module, inputs, path, **names, **symbols, **options)
    _check_options(exporter, to, options)
    require_path("the archive", path)
    require_writable_container(path)
    arguments = check_inputs(inputs)
    module, named = check_module(module), kwargs or {}
    axes: Axes = {}
    if dynamic_axes:
        dynamic_shapes, axes = _shapes_of(module, arguments, input_names, dynamic_axes, assertions)
    program, arrays = _program(module, arguments, named, dynamic_shapes)
    program = _with_names(program, input_names, output_names)
    conditions = list(assertions) if axes else []
    written = _document(named_symbols(program, axes), arrays, to, conditions)
    written.write(path)
    return Path(path)


def _check_options(exporter: str, to: str, options: Mapping[str, Any]) -> None:
    """Raise NnefError for unknown exporters, languages and options."""
    if exporter not in EXPORTERS or options:
        listed = ", ".join(options) or f"exporter = {exporter!r}"
        hint = 'exporter="torch_to_nnef" has version, compression and options of TractNNEF'
        if exporter not in EXPORTERS:
            hint = f"exporters are {', '.join(map(repr, EXPORTERS))}"
        raise NnefError.of("input/option", f"{listed}: no option of this exporter", hint=hint)
    if to not in get_args(To):
        known = ", ".join(map(repr, get_args(To)))
        hint = "nnefc convert network.pt2 -o network.onnx writes ONNX"
        raise NnefError.of("input/argument", f"to = {to!r}: must be one of {known}", hint=hint)


def _program(
    module: torch.nn.Module, arguments: tuple[Any, ...], kwargs: Mapping[str, Any], shapes: Any
) -> tuple[Program, Mapping[str, Any]]:
    """The program of a module in evaluation mode, and its arrays; raises NnefError."""
    with preserve_module(module):
        module.eval()
        found = export_program(module, arguments, kwargs, shapes).decomposed()
    return found.program, found.arrays


def _shapes_of(
    module: torch.nn.Module,
    arguments: tuple[Any, ...],
    input_names: Sequence[str] | None,
    dynamic_axes: Mapping[str, Mapping[int, str]],
    assertions: Sequence[str],
) -> tuple[Any, Axes]:
    """`dynamic_shapes` and checked symbols of `dynamic_axes`; raises NnefError."""
    import inspect

    import torch

    known = list(inspect.signature(module.forward).parameters)[: len(arguments)]
    if input_names is None and len(known) < len(arguments):
        known = [f"input_{i}" for i in range(len(arguments))]
    names = check_tensor_names(
        "input_names", input_names or known, "input", len(arguments), exact=True
    )
    shapes = {
        name: tuple(each.shape) if isinstance(each, torch.Tensor) else ()
        for name, each in zip(names, arguments, strict=True)
    }
    axes, values = check_axes(dynamic_axes, shapes)
    check_assertions(assertions, axes, values)
    exporting: Any = torch.export
    chosen = tuple(
        dict.fromkeys(axes[name], exporting.Dim.AUTO) if name in axes else None for name in names
    )
    return chosen, axes


def _with_names(
    program: Program, inputs: Sequence[str] | None, outputs: Sequence[str] | None
) -> Program:
    """A program with other names of its inputs and results; raises NnefError."""
    given, results = user_inputs(program), program.results
    names = [each.label for each in given]
    if inputs is not None:
        names = check_tensor_names("input_names", inputs, "input", len(given), exact=True)
    chosen = [each.label for each in results]
    if outputs is not None:
        chosen = check_tensor_names("output_names", outputs, "output", len(results), exact=True)
    left, right = iter(names), iter(chosen)
    kinds = (OutputKind.TENSOR, OutputKind.NUMBER)
    return dataclasses.replace(
        program,
        inputs=tuple(
            dataclasses.replace(x, label=next(left)) if x.kind is InputKind.USER else x
            for x in program.inputs
        ),
        outputs=tuple(
            dataclasses.replace(y, label=next(right)) if y.kind in kinds else y
            for y in program.outputs
        ),
    )


def _document(
    program: Program, arrays: Mapping[str, Any], to: To, assertions: Sequence[str]
) -> NnefModel:
    """The document of a program; raises NnefError."""
    from nnefc.emit.convert.tract_model import document_of
    from nnefc.frontends.torch.source import TorchSource
    from nnefc.options.import_config import ImportConfig

    config = ImportConfig()
    diagnostics = config.diagnostics()
    source = TorchSource(program, arrays, config.limits)
    source.check({})
    source.check_nodes({}, diagnostics)
    written = document_of(source, {}, to, diagnostics)
    for warning in diagnostics.warnings:
        warn_python(str(warning))
    known = set(source.signature.all_symbols)
    kept = [each for each in assertions if _names(each) <= known]
    lines = "".join(f"extension tract_assert {each};\n" for each in kept)
    head, graph, body = written.text.partition("\ngraph ")
    return dataclasses.replace(written, text=f"{head}{lines}{graph}{body}")


def _names(text: str) -> set[str]:
    """The symbols in an assertion; those of extents that depend on others are not in documents."""
    expression = assertion(text)
    return set() if expression is None else set(names_of([expression]))
