"""Open the archives of `torch.export.save` (`.pt2`), whose pickled parts are never executed.

    since 2.8                             before
    NET/archive_format         "pt2"      version                            "8.2"
    NET/models/model.json                 serialized_exported_program.json
    NET/data/weights/...                  serialized_state_dict.pt
    NET/data/constants/...                serialized_constants.pt
    NET/data/sample_inputs/...            serialized_example_inputs.pt       (not read)

Tensors are members with raw items, which `model_weights_config.json` lists.  Archives of older
versions have them as `torch.save` writes them (`tensor_pickle`).

Source: torch/export/pt2_archive and torch/_export/serde/schema.py of PyTorch.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from io import BytesIO
from typing import Any, BinaryIO, Final, cast

from nnefc.formats.archives.open_archive import ArchiveMembers, open_zip
from nnefc.formats.archives.tensor_pickle import PickleError, tensors_in
from nnefc.formats.archives.torch_tensor import RULE, SCALAR_TYPES, TensorRecord, tensor_of
from nnefc.formats.files import FilePath, open_regular, printable
from nnefc.formats.item_encodings import Array
from nnefc.formats.json_text import parse_json
from nnefc.support.errors import NnefError, Place
from nnefc.support.limits import Limits

_OLD_PROGRAM: Final = "serialized_exported_program.json"
_OLD_TENSORS: Final = ("serialized_constants.pt", "serialized_state_dict.pt")
_FORMAT: Final = "archive_format"
_ZIP: Final = b"PK"
_EXPORT: Final = "export the module with torch.export.export, and save that with torch.export.save"
_DAMAGED: Final = "save the program again with torch.export.save"


class TorchArchive:
    """The text of a program, and its tensors by label."""

    def __init__(self, name: str, program: Mapping[str, Any], limits: Limits) -> None:
        self.name = name
        """The name of the file in messages."""
        self.program = program
        """The JSON object `ExportedProgram` of the schema."""
        self._limits = limits
        self._tensors: dict[str, tuple[ArchiveMembers, TensorRecord]] = {}
        self._pickled: set[str] = set()
        self._constants: set[str] = set()

    def is_constant(self, label: str) -> bool:
        """Whether a tensor is none of the parameters and buffers that the module saves."""
        return label in self._constants

    def add(
        self,
        members: ArchiveMembers,
        tensors: Mapping[str, TensorRecord | None],
        *,
        constants: bool,
    ) -> None:
        """Add tensors, those before with the same label are replaced; None for pickled ones."""
        for label, record in tensors.items():
            self._constants.discard(label)
            if constants:
                self._constants.add(label)
            self._tensors.pop(label, None)
            self._pickled.discard(label)
            if record is None:
                self._pickled.add(label)
            else:
                self._tensors[label] = members, record

    def array(self, label: str) -> Array:
        """The items of a tensor; raises NnefError."""
        place = Place(self.name)
        if label in self._pickled:
            message = f"'{printable(label)}' is an object of Python or a subclass of tensors, "
            message += "which the archive has in pickled form; these are not read"
            raise NnefError.of("torch/unsupported", message, place)
        members, record = self._tensors.get(label, (None, None))
        if members is None or record is None:
            raise NnefError.of(RULE, f"there is no tensor '{printable(label)}'", place, _DAMAGED)
        path = members.find(record.storage)
        if path is None:
            message = f"tensor '{printable(label)}': there is no member '"
            raise NnefError.of(RULE, f"{message}{printable(record.storage)}'", place, _DAMAGED)
        content = memoryview(members.content(path))
        return tensor_of(record, content, label, place, self._limits)


def open_torch_archive(path: FilePath, limits: Limits) -> TorchArchive:
    """The program of a file; raises NnefError `torch/archive`, `container/...` or `limit/...`."""
    file = open_regular(path, "container/file")
    try:
        return read_torch_archive(file, printable(os.fspath(path)), limits)
    except BaseException:
        file.close()
        raise


def read_torch_archive(file: BinaryIO, name: str, limits: Limits) -> TorchArchive:
    """The program of an open file; raises as `open_torch_archive` does."""
    if file.read(len(_ZIP)) not in (_ZIP, b""):
        message = "this file is no archive of torch.export.save"
        raise NnefError.of(RULE, message, Place(name), _EXPORT)
    file.seek(0)
    members = open_zip(file, name, limits, mapped=True)
    if members.find(_OLD_PROGRAM):
        return _old_archive(members, name, limits)
    root = next((each.rpartition("/")[0] for each in members.paths if _is_format(each)), None)
    if root is None:
        message = "there is no program of torch.export in this archive"
        raise NnefError.of(RULE, message, Place(name), _what_is_there(members))
    prefix = f"{root}/" if root else ""
    _require_little_endian(members, f"{prefix}byteorder", name)
    return _archive(members, prefix, name, limits)


def _is_format(path: str) -> bool:
    return path.rpartition("/")[2] == _FORMAT and path.count("/") <= 1


def _what_is_there(members: ArchiveMembers) -> str:
    """A hint about archives of other kinds."""
    names = {each.rpartition("/")[2] for each in members.paths}
    if "constants.pkl" in names:
        return f"this is a program of TorchScript: {_EXPORT}"
    if "data.pkl" in names:
        return f"these are objects of torch.save: {_EXPORT}"
    return "save the program with torch.export.save"


def _archive(members: ArchiveMembers, prefix: str, name: str, limits: Limits) -> TorchArchive:
    """The program of an archive of PyTorch 2.8 and later."""
    models = [each for each in members.names_in(f"{prefix}models/") if each.endswith(".json")]
    if len(models) != 1:
        listed = ", ".join(printable(each) for each in models[:5]) or "none"
        message = f"the archive has {len(models)} programs ({listed}), expected one"
        hint = "" if models else "code of AOTInductor is not read; save the program itself"
        raise NnefError.of(RULE, message, Place(name), hint)
    path, model = f"{prefix}models/{models[0]}", models[0].removesuffix(".json")
    found = TorchArchive(name, _object(members, path, limits), limits)
    for folder in ("constants", "weights"):
        constants = folder == "constants"
        within = f"{prefix}data/{folder}/"
        old = members.find(f"{within}{model}.pt")
        if old is not None:
            _add_saved(found, members, old, limits, constants=constants)
            continue
        config = members.find(f"{within}{model}_{folder}_config.json")
        if config is not None:
            listed = _listed(_object(members, config, limits), within, name)
            found.add(members, listed, constants=constants)
    return found


def _old_archive(members: ArchiveMembers, name: str, limits: Limits) -> TorchArchive:
    """The program of an archive of PyTorch before 2.8."""
    found = TorchArchive(name, _object(members, _OLD_PROGRAM, limits), limits)
    for each in _OLD_TENSORS:
        path = members.find(each)
        if path is not None:
            _add_saved(found, members, path, limits, constants="constants" in each)
    return found


def _add_saved(
    found: TorchArchive, members: ArchiveMembers, path: str, limits: Limits, *, constants: bool
) -> None:
    """Add the tensors of a member that `torch.save` wrote, an archive in the archive."""
    name = members.display_name(path)
    content = bytes(members.content(path))
    if not content:
        return
    inner = open_zip(BytesIO(content), name, limits)
    program = next((each for each in inner.paths if each.rpartition("/")[2] == "data.pkl"), None)
    if program is None:
        raise NnefError.of(RULE, "there is no data.pkl", Place(name), _DAMAGED)
    root = program.removesuffix("data.pkl")
    _require_little_endian(inner, f"{root}byteorder", name)
    try:
        tensors = tensors_in(inner.read(program, limits.document_bytes), f"{root}data")
    except PickleError as error:
        message = f"this is no dictionary of tensors: {printable(str(error))}"
        raise NnefError.of(RULE, message, Place(name), _DAMAGED) from None
    found.add(inner, tensors, constants=constants)


def _require_little_endian(members: ArchiveMembers, path: str, name: str) -> None:
    found = members.find(path)
    if found is not None and members.read(found, 64) != b"little":
        message = "the items of tensors are stored with their highest byte first"
        raise NnefError.of("torch/unsupported", message, Place(name))


def _object(members: ArchiveMembers, path: str, limits: Limits) -> dict[str, Any]:
    """The JSON object in a member."""
    place = Place(members.display_name(path))
    try:
        value = parse_json(members.read(path, limits.document_bytes))
    except ValueError as error:
        message = f"this is no JSON: {printable(str(error))}"
        raise NnefError.of(RULE, message, place, _DAMAGED) from None
    if not isinstance(value, dict):
        raise NnefError.of(RULE, "this is no JSON object", place, _DAMAGED)
    return cast("dict[str, Any]", value)


def _listed(config: Any, folder: str, name: str) -> dict[str, TensorRecord | None]:
    """The tensors that a configuration lists; None for those in pickled form."""
    try:
        return {
            str(label): None if each["use_pickle"] else _record(each, folder)
            for label, each in config["config"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"the list of tensors in {printable(folder)} is damaged: {printable(repr(error))}"
        raise NnefError.of(RULE, message, Place(name), _DAMAGED) from None


def _record(payload: Any, folder: str) -> TensorRecord:
    meta = payload["tensor_meta"]
    return TensorRecord(
        f"{folder}{payload['path_name']}",
        SCALAR_TYPES.get(meta["dtype"], f"code {meta['dtype']}"),
        tuple(map(_number, meta["sizes"])),
        tuple(map(_number, meta["strides"])),
        _number(meta["storage_offset"]),
    )


def _number(value: Any) -> int:
    """A number that may be `{"as_int": 3}`."""
    number: Any = cast("dict[str, Any]", value)["as_int"] if isinstance(value, dict) else value
    if type(number) is not int:
        raise ValueError(f"{number!r} is no integer")
    return number
