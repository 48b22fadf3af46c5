"""Errors of `torch.export` as errors of nnefc: PyTorch's reason as one message, the user's line."""

from __future__ import annotations

import os
import re
import sysconfig
import traceback
from pathlib import Path
from typing import Final

from nnefc.support.errors import NnefError, Place

_ADVICE: Final = re.compile(
    r"\s*(For more information|The error above occurred|Caused by|The following call).*"
)
"""Lines about PyTorch's own logs and tools, and what follows them."""


def export_error(error: Exception) -> NnefError:
    """The error `torch/export`: PyTorch's first line; all lines where they are about extents."""
    text = str(error)
    is_about_extents = "dynamic_shapes" in text or "Constraints violated" in text
    lines = [_ADVICE.sub("", line).strip().removeprefix("- ") for line in text.splitlines()]
    found = [line for line in lines if line]
    reason = " ".join(found) if is_about_extents else "".join(found[:1])
    hint = 'torch.compile(module, backend="nnefc") leaves such parts to PyTorch'
    if is_about_extents:
        hint = "for example dynamic_shapes={'x': {0: torch.export.Dim('batch')}}"
    if "Constraints violated" in text:
        hint = "take example extents above 1; torch.export.Dim.AUTO leaves the choice to PyTorch"
    message = f"torch.export fails: {type(error).__name__}: {reason}"
    return NnefError.of("torch/export", message, _place(error), hint)


def _place(error: Exception) -> Place | None:
    """The innermost line of an error's stack that is neither Python's, PyTorch's nor nnefc's."""
    import torch

    own = (Path(torch.__file__).parent, Path(__file__).parents[1])
    frames = traceback.extract_tb(error.__traceback__)
    for each in reversed(frames):
        is_own = each.filename.startswith((*(f"{path}{os.sep}" for path in own), "<"))
        if not is_own and not _is_of_python(each.filename):
            return Place(each.filename, each.lineno or 0, 1)
    return None


def _is_of_python(file: str) -> bool:
    """Whether a file is one of Python's own modules."""
    library = sysconfig.get_paths()["stdlib"]
    return file.startswith(f"{library}{os.sep}") and "site-packages" not in file
