"""Read a program of `torch.export.save`, without PyTorch where its operators are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from nnefc.formats.archives.torch_archive import TorchArchive, open_torch_archive
from nnefc.formats.files import FilePath
from nnefc.formats.item_encodings import Array
from nnefc.frontends.torch.check_operators import check_operators, unknown_operators
from nnefc.frontends.torch.program import InputKind, Program
from nnefc.frontends.torch.read_schema import read_schema
from nnefc.frontends.torch.source import TorchSource
from nnefc.support.errors import Diagnostics, NnefError
from nnefc.support.limits import Limits


def read_torch(
    path: FilePath,
    limits: Limits,
    shapes: Mapping[str, Sequence[int]] | None = None,
    symbols: Mapping[str, int] | None = None,
) -> TorchSource:
    """The source of a file; raises NnefError."""
    archive = open_torch_archive(path, limits)
    program = read_schema(archive.program, archive.name)
    arrays: Mapping[str, Array] = arrays_of(program, archive)
    if unknown_operators(program):
        program, arrays = _by_pytorch(archive, program, arrays, limits)
    return TorchSource(program, arrays, limits, shapes, symbols)


def _by_pytorch(
    archive: TorchArchive, read: Program, arrays: Mapping[str, Array], limits: Limits
) -> tuple[Program, Mapping[str, Array]]:
    """The program in operators that nnefc has; raises NnefError `torch/operator`."""
    diagnostics = Diagnostics(limit=limits.errors)
    check_operators(read, diagnostics)
    if find_spec("torch") is None:
        hint = "PyTorch would decompose them, but it is not installed; "
        hint += "or save program.run_decompositions()"
        raise NnefError(each._replace(hint=hint) for each in diagnostics.errors)
    from nnefc.frontends.torch.through_pytorch import decomposed

    for whole in (False, True):
        try:
            program, found = decomposed(archive, read, arrays, limits, whole)
        except NnefError as error:
            raise NnefError([*diagnostics.errors, *error.errors]) from None
        unknown = unknown_operators(program)
        if not unknown:
            return program, found
    left = Diagnostics(limit=limits.errors)
    check_operators(program, left)
    raise NnefError(left.errors)


def arrays_of(program: Program, archive: TorchArchive) -> dict[str, Array]:
    """The tensors of an archive that a program takes, by label; raises NnefError."""
    kinds = (InputKind.ARRAY, InputKind.STATE)
    return {each.label: archive.array(each.label) for each in program.inputs if each.kind in kinds}
