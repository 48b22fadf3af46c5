"""Export modules with torch_to_nnef, which traces them with TorchScript."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nnefc.options.arguments import check_names
from nnefc.pytorch.arguments import (
    check_assertions,
    check_axes,
    check_inputs,
    check_module,
    check_path,
    check_tensor_names,
    check_version,
)
from nnefc.pytorch.preserve_module import preserve_module
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    import torch

TRACT: Final = "0.23.8"
"""The version of tract that documents are written for, the last one that torch_to_nnef knows."""
_SCRIPT: Final = "#!/bin/sh\necho tract {}\n"
"""Replaces tract's command line, which torch_to_nnef would download: it asks for the version only,
since results are not compared."""


def export_traced(
    module: torch.nn.Module,
    inputs: torch.Tensor | Sequence[torch.Tensor],
    path: str | os.PathLike[str],
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Mapping[str, Mapping[int, str]] | None = None,
    assertions: Sequence[str] = (),
    compression: int = 1,
    version: str = TRACT,
    **target: Any,
) -> Path:
    """Trace a module in evaluation mode for some inputs, and write it to an archive.

    See `nnefc.pytorch.export`.  Raises NnefError, also for errors of torch_to_nnef.

    Args:
        module: The module to export.
        inputs: Tensors to call `module` with.
        path: The path of the archive; it ends in `.nnef.tgz`.
        input_names: Names of the inputs, in order; default: `input`, or `input_0`, `input_1`, …
        output_names: Names of the results, in order; default: `output`, or `output_0`, …
        dynamic_axes: Symbols for axes of inputs.
        assertions: Conditions on symbols.
        compression: Level of gzip, 1 to 9.
        version: Of tract; mixtures of experts of transformers need "0.23.9".
        target: More options of `torch_to_nnef.TractNNEF`.
    """
    import torch_to_nnef

    to_nnef: Any = torch_to_nnef
    module, path = check_module(module), check_path(path)
    tensors, version = check_inputs(inputs), check_version(version)
    names = check_tensor_names("input_names", input_names, "input", len(tensors), exact=True)
    axes, values = check_axes(dynamic_axes, dict(zip(names, map(_shape, tensors), strict=True)))
    asserted = check_assertions(assertions, axes, values)
    known = signature(to_nnef.TractNNEF).parameters
    check_names(export_traced, target, [name for name in known if name not in _OWN_OPTIONS])
    with preserve_module(module), tempfile.TemporaryDirectory() as folder:
        module.eval()
        result_names = _result_names(module, tensors, output_names)
        script = _tract_script(Path(folder), version)
        options = {**_DEFAULTS, **target, "dynamic_axes": axes}
        tract = to_nnef.TractNNEF(version, specific_tract_binary_path=script, **options)
        with _one_message():
            written = to_nnef.export_model_to_nnef(
                module,
                tensors,
                path,
                tract,
                input_names=names,
                output_names=result_names,
                custom_extensions=[f"tract_assert {each}" for each in asserted] or None,
                compression_level=compression,
                log_level=_QUIET,
            )
    return Path(written)


_DEFAULTS: Final = {
    "check_io": False,
    "dump_identity_properties": False,
    "specific_properties": {"export_cmd": "nnefc.pytorch.export"},
}
"""Results are not compared, and documents do not name user, machine and command."""
_QUIET: Final = 40
"""`logging.ERROR`."""
_OWN_OPTIONS: Final = ("version", "dynamic_axes", "specific_tract_binary_path")
"""Options of `torch_to_nnef.TractNNEF` that callers cannot pass in `target`."""


def _shape(x: Any) -> tuple[int, ...] | None:
    """The shape of a tensor; None for a tuple of tensors."""
    import torch

    return tuple(x.shape) if isinstance(x, torch.Tensor) else None


def _tract_script(folder: Path, version: str) -> Path:
    """An executable file that prints the version of tract."""
    script = folder / "tract"
    script.write_text(_SCRIPT.format(version))
    script.chmod(0o700)
    return script


def _result_names(
    module: torch.nn.Module, tensors: tuple[Any, ...], names: Sequence[str] | None
) -> list[str]:
    """Checked names of the results, which a call of the module counts."""
    import torch

    with torch.no_grad():
        results: Any = module(*tensors)
    return check_tensor_names(
        "output_names", names, "output", _count(results), exact=_is_flat(results)
    )


def _count(results: Any) -> int:
    """The number of tensors in nested tuples and lists."""
    if not isinstance(results, list | tuple):
        return 1
    several: list[Any] = [*results]  # pyright: ignore[reportUnknownVariableType]
    return sum(map(_count, several))


def _is_flat(results: Any) -> bool:
    """Whether the results are a tensor, or a tuple or list of tensors."""
    import torch

    if isinstance(results, list | tuple):
        several: list[Any] = [*results]  # pyright: ignore[reportUnknownVariableType]
        return all(isinstance(each, torch.Tensor) for each in several)
    return isinstance(results, torch.Tensor)


@contextmanager
def _one_message() -> Generator[None]:
    """Raise NnefError instead of the exceptions of torch_to_nnef, whose texts may be pages long."""
    try:
        yield
    except NnefError:
        raise
    except Exception as error:  # the exporter raises errors of many classes
        if isinstance(error, KeyError) and error.args == ("BFloat16",):
            raise NnefError.of(
                "input/dtype",
                "the module has tensors of bfloat16, which torch_to_nnef cannot write",
                hint="export network.half() or network.float(), with inputs of the same type",
            ) from error
        message = f"torch_to_nnef cannot export the module: {_reason(error)}"
        hint = 'exporter="nnefc" knows other operators'
        raise NnefError.of("torch/export", message, hint=hint) from error


_OPERATOR: Final = re.compile(r"\b(?:aten|prim|torchvision|quantized)::\w+")
_SCOPE: Final = re.compile(r"__module\.([\w.]+)")
_MOST_CHARACTERS: Final = 200


def _reason(error: Exception) -> str:
    """The operator, the path of the module, and the first line of an exception."""
    text = str(error)
    line = next((each.strip() for each in text.splitlines() if each.strip()), "")
    if not line or line == "...":
        line = type(error).__name__
    operator, scope = _OPERATOR.search(text), _SCOPE.search(text)
    facts = [operator.group()] if operator and operator.group() not in line else []
    facts += [f"in '{scope.group(1)}'"] if scope and scope.group(1) not in line else []
    short = line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}..."
    return f"{' '.join(facts)}{': ' if facts else ''}{type(error).__name__}: {short}"
