"""PyTorch modules to NNEF archives, by torch_to_nnef; needs the extra `nnefc[pytorch]`.

>>> nnefc.pytorch.export(module, x, "net.nnef.tgz")             # doctest: +SKIP
>>> model = nnefc.compile("net.nnef.tgz")                       # doctest: +SKIP
>>> y = model(x)                                                # doctest: +SKIP
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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

    Args:
        module: What is exported, in evaluation mode.
        inputs: Tensors that `module` is called with.
        path: Where the archive goes: `.nnef.tgz`.
        input_names: Names of the inputs, in order; else `input`, or `input_0`, `input_1`, …
        output_names: Names of the results, in order; else `output`, or `output_0`, …
        dynamic_axes: Axes of inputs whose extents are only known at a call, with symbols for
            them: `{"x": {0: "B"}}`. Extents with the same symbol are equal.
        assertions: What holds of symbols: `["S <= 512"]`.
        compression: How hard gzip tries, 1 to 9.
        version: That of tract, for which the document is written; mixtures of experts of
            transformers need "0.23.9".
        target: More options of `torch_to_nnef.TractNNEF`.

    Raises what torch_to_nnef raises if it cannot export the module.
    """
    import torch
    import torch_to_nnef

    to_nnef: Any = torch_to_nnef

    path = Path(path)
    if not path.name.endswith(".nnef.tgz"):
        raise ValueError(f"{path.name} does not end in .nnef.tgz")
    given = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
    module.eval()
    with torch.no_grad():
        results: Any = module(*given)
    count = _count(results)
    with tempfile.TemporaryDirectory() as folder:
        tract = Path(folder) / "tract"
        tract.write_text(_STATED.format(version))
        tract.chmod(0o700)
        options: dict[str, Any] = {**_PRIVATE, **target}
        axes = {name: dict(each) for name, each in (dynamic_axes or {}).items()}
        stated = to_nnef.TractNNEF(
            version, specific_tract_binary_path=tract, dynamic_axes=axes, **options
        )
        written = to_nnef.export_model_to_nnef(
            module,
            given,
            path,
            stated,
            input_names=list(input_names or _names("input", len(given))),
            output_names=list(output_names or _names("output", count)),
            custom_extensions=[f"tract_assert {each}" for each in assertions] or None,
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


def _count(results: Any) -> int:
    """How many tensors there are, in tuples within tuples."""
    if not isinstance(results, list | tuple):
        return 1
    several: list[Any] = [*results]  # pyright: ignore[reportUnknownVariableType]
    return sum(map(_count, several))


def _names(what: str, count: int) -> list[str]:
    return [what] if count == 1 else [f"{what}_{i}" for i in range(count)]
