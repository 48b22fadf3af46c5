"""`nnefc pack`: write a TensorFlow Lite model as an nnpackage."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnefc.cli.support.diagnostics import report
from nnefc.cli.support.options import usage
from nnefc.cli.support.outputs import check_suffix, refuse_own_input


def pack(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A TensorFlow Lite or Circle file.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", readable=False, help="Archive (.zip) or new folder to write."
        ),
    ],
) -> None:
    """Write a TensorFlow Lite or Circle model as an nnpackage, for Samsung's onert.

    The package has the model, unchanged, and a manifest. It is an archive if the name of the output
    ends in .zip, and a folder otherwise. onert's releases on PyPI open folders alone: they have no
    loader of archives. The structure of the model is checked; operators that nnefc does not have
    are no errors.

    Examples:

        nnefc pack model.tflite -o model.zip

        nnefc pack model.tflite -o package
    """
    from nnefc.formats.atomic import require_new_folder
    from nnefc.formats.nnpackage.manifest import TYPE_OF
    from nnefc.formats.nnpackage.write_package import ZIP, write_package
    from nnefc.formats.tflite.model_file import map_model, read_model_bytes
    from nnefc.support.errors import Diagnostics
    from nnefc.support.limits import Limits

    if output.suffix:
        check_suffix("--output", output, ZIP)
    else:
        require_new_folder(output)
    refuse_own_input(model, output)
    if Path(model).is_dir():
        raise usage(f"{model}: a folder is packed already", "name a file of TensorFlow Lite")
    diagnostics = Diagnostics()
    name, content = map_model(model)
    read_model_bytes(content, name, Limits(), diagnostics)
    report(diagnostics.warnings)
    kind = TYPE_OF[bytes(content[4:8])]
    write_package(output, f"{Path(model).stem or 'model'}.{kind}", kind, content)
    note = f"; for onert, which opens no archives: -o {output.with_suffix('')}"
    typer.echo(f"wrote {output}{note if output.suffix else ''}")
