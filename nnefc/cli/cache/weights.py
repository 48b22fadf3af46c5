"""Entries of the folder of models and weights: cached models, and weights packed for artifacts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nnefc.runtime.cache.lru_folder import EntryFile, LruFolder
    from nnefc.support.progress import Progress


def survey_weights(folder: LruFolder, progress: Progress) -> Iterator[tuple[EntryFile, bool]]:
    """(entry, whether its checksums match) of all entries, in no order.

    Reads every file in full; this does not count as a use of the entries.
    """
    import numpy as np

    from nnefc.formats.recognise_artifact import MAGIC
    from nnefc.model_cache import report
    from nnefc.runtime.artifact import weight_cache

    files = list(folder.entries())
    for done, file in enumerate(files):
        progress(done, len(files), "weights")
        mapping = folder.map(folder.file_name(file.name), use=False)
        if mapping is not None:
            if mapping[: len(MAGIC)] == MAGIC:
                yield file, report.is_whole(mapping, file.name)
            else:
                yield file, weight_cache.is_whole(np.frombuffer(mapping, np.uint8), file.name)
        elif not file.size:  # an empty file cannot be mapped
            yield file, False


def weights_record(file: EntryFile) -> dict[str, Any]:
    """An entry for JSON; its state is None, because only reading all of it would tell."""
    return {
        "kind": "weights",
        "name": file.name,
        "state": None,
        "bytes": file.size,
        "used": file.used,
        "created": None,
        "machine": None,
        "facts": None,
    }
