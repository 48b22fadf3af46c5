"""List the models in the cache, and explain why a model is missing."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from nnefc.formats.recognise_artifact import MAGIC
from nnefc.kernels.target.processor import model_name
from nnefc.model_cache.facts import DOCUMENT, PATH
from nnefc.runtime.artifact.artifact_file import open_mapping
from nnefc.runtime.cache.entry_format import Header
from nnefc.runtime.cache.report import nearest_difference
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from nnefc.model_cache.entry import ModelCacheEntry
    from nnefc.runtime.cache.lru_folder import LruFolder

_NEVER: Final = (
    "nnefc.compile or nnefc cache warm has never stored it (other commands store kernels only), "
    "or it was evicted"
)


def is_whole(mapping: mmap.mmap, name: str) -> bool:
    """Whether the file of an entry is undamaged."""
    options = _options(mapping, name, verify=True)
    return options.get("kept") == name


def reasons_for_miss(entry: ModelCacheEntry) -> tuple[str, ...]:
    """How the nearest cached model of the same document or path differs; empty for a hit."""
    if entry.exists:
        return ()
    alike = [header for header in _headers(entry.folder) if _are_alike(header, entry)]
    return nearest_difference(alike, entry.facts, _NEVER)


def _are_alike(header: Header, entry: ModelCacheEntry) -> bool:
    return any(header.facts.get(name) == entry.facts[name] for name in (DOCUMENT, PATH))


def _headers(folder: LruFolder) -> Iterator[Header]:
    """The facts of the models in a folder; reading them does not count as a use."""
    for file in folder.entries():
        mapping = folder.map(folder.file_name(file.name), use=False)
        if mapping is not None and mapping[: len(MAGIC)] == MAGIC:
            options = _options(mapping, file.name)
            if options.get("kept") == file.name and isinstance(options.get("facts"), dict):
                yield Header(options["facts"], model_name(), file.used)


def _options(mapping: mmap.mmap, name: str, *, verify: bool = False) -> dict[str, Any]:
    """The options stored in a file; empty if it is damaged."""
    try:
        return open_mapping(mapping, name, verify=verify).content["options"]
    except (NnefError, KeyError):
        return {}
