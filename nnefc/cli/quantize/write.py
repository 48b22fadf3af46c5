"""Write a quantized model, and a page about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nnefc.cli.support.printing import progress

if TYPE_CHECKING:
    from nnefc.emit.convert.nnef_model import NnefModel
    from nnefc.emit.convert.onnx.model import OnnxModel


def write_model(written: NnefModel | OnnxModel, output: Path) -> list[Path]:
    """Write a file or a folder; returns what was written."""
    from nnefc.emit.convert.onnx.model import OnnxModel

    with progress("writing", late=True) as advance:
        if isinstance(written, OnnxModel):
            return written.write(output, advance)
        written.write(output, advance)
    return [output]


def write_page(path: Path | None, text: str) -> None:
    """Write a page of HTML, whole or not at all; None: none is wanted."""
    from nnefc.formats.atomic import replace_file

    if path is not None:
        with replace_file(path) as file:
            file.write(text.encode())
