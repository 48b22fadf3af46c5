"""PyTorch modules to NNEF archives, by torch_to_nnef; needs the extra `nnefc[pytorch]`.

>>> nnefc.pytorch.export(module, x, "net.nnef.tgz")             # doctest: +SKIP
>>> model = nnefc.compile("net.nnef.tgz")                       # doctest: +SKIP
>>> y = model(x)                                                # doctest: +SKIP
"""

from __future__ import annotations

import os
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
from nnefc.pytorch.untouched import untouched
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    import torch

TRACT: Final = "0.23.8"
"""The version of tract that documents are written for, the last one that the exporter knows."""
_STATED: Final = "#!/bin/sh\necho tract {}\n"
"""Stands for tract's command line, which the exporter asks for its version and else would
download; what it is for, a comparison of results, is not wanted."""


def export(
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
    """Write a module, as it is traced for some inputs, to an archive; its path.

    The module is as it was, afterwards.

    Args:
        module: What is exported, in evaluation mode.
        inputs: Tensors that `module` is called with.
        path: Where the archive goes: `.nnef.tgz`.
        input_names: Names of the inputs, in order; else `input`, or `input_0`, `input_1`, …
        output_names: Names of the results, in order; else `output`, or `output_0`, …
        dynamic_axes: Axes of inputs whose extents are only known at a call, with symbols for
            them: `{"x": {0: "B"}}`. Extents with the same symbol are equal.
        assertions: What holds of symbols, and of `inputs`: `["S <= 512"]`.
        compression: How hard gzip tries, 1 to 9.
        version: That of tract, for which the document is written; mixtures of experts of
            transformers need "0.23.9".
        target: More options of `torch_to_nnef.TractNNEF`.

    Raises NnefError for arguments that make no sense, and what torch_to_nnef raises if it cannot
    export the module.
    """
    import torch
    import torch_to_nnef

    to_nnef: Any = torch_to_nnef

    module, path = check_module(module), check_path(path)
    given, version = check_inputs(inputs), check_version(version)
    names = check_tensor_names("input_names", input_names, "input", len(given), exact=True)
    shapes = [tuple(x.shape) if isinstance(x, torch.Tensor) else None for x in given]
    axes, values = check_axes(dynamic_axes, dict(zip(names, shapes, strict=True)))
    asserted = check_assertions(assertions, axes, values)
    options: dict[str, Any] = {**_PRIVATE, **target}
    taken = signature(to_nnef.TractNNEF).parameters
    check_names("export", target, [name for name in taken if name not in _OURS])
    with untouched(module), tempfile.TemporaryDirectory() as folder:
        module.eval()
        with torch.no_grad():
            results: Any = module(*given)
        result_names = check_tensor_names(
            "output_names", output_names, "output", _count(results), exact=_is_flat(results)
        )
        tract = Path(folder) / "tract"
        tract.write_text(_STATED.format(version))
        tract.chmod(0o700)
        stated = to_nnef.TractNNEF(
            version, specific_tract_binary_path=tract, dynamic_axes=axes, **options
        )
        with _without_bfloat16():
            written = to_nnef.export_model_to_nnef(
                module,
                given,
                path,
                stated,
                input_names=names,
                output_names=result_names,
                custom_extensions=[f"tract_assert {each}" for each in asserted] or None,
                compression_level=compression,
                log_level=_QUIET,
            )
    return Path(written)


_PRIVATE: Final = {
    "check_io": False,
    "dump_identity_properties": False,
    "specific_properties": {"export_cmd": "nnefc.pytorch.export"},
}
"""Nothing is compared, and no document says who has written it on which machine by what command."""
_QUIET: Final = 40
"""`logging.ERROR`."""
_OURS: Final = ("version", "dynamic_axes", "specific_tract_binary_path")
"""Options of `torch_to_nnef.TractNNEF` that are none of `export`."""


def _count(results: Any) -> int:
    """How many tensors there are, in tuples within tuples."""
    if not isinstance(results, list | tuple):
        return 1
    several: list[Any] = [*results]  # pyright: ignore[reportUnknownVariableType]
    return sum(map(_count, several))


def _is_flat(results: Any) -> bool:
    """Whether there is one tensor, or a sequence of tensors."""
    import torch

    if isinstance(results, list | tuple):
        several: list[Any] = [*results]  # pyright: ignore[reportUnknownVariableType]
        return all(isinstance(each, torch.Tensor) for each in several)
    return isinstance(results, torch.Tensor)


@contextmanager
def _without_bfloat16() -> Generator[None]:
    """Raise NnefError for items of a type of which torch_to_nnef only knows the name."""
    try:
        yield
    except KeyError as error:
        if error.args != ("BFloat16",):
            raise
        raise NnefError.of(
            "input/dtype",
            "torch_to_nnef writes no tensors of bfloat16, of which the module has some",
            hint="export network.half() or network.float(), and inputs of that type",
        ) from error
