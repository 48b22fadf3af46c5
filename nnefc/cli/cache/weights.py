"""`nnefc cache`: models that are kept, and weights that their artifacts do not hold packed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nnefc.runtime.cache.folder import CacheFolder, EntryFile
    from nnefc.support.progress import Progress


def folders(kernels: CacheFolder) -> list[CacheFolder]:
    """The folder of kernels, and that of weights if there is one yet."""
    weights = open_weights()
    return [kernels] if weights is None else [kernels, weights]


def open_weights() -> CacheFolder | None:
    """The folder of weights if there is one yet; raises NnefError `internal/cache`."""
    from nnefc.runtime.cache.kernel_cache import open_weight_folder

    folder = open_weight_folder()
    return folder if folder is not None and folder.is_there() else None


def survey_weights(folder: CacheFolder, progress: Progress) -> Iterator[tuple[EntryFile, bool]]:
    """All entries, and whether they are as they were written, in no order; that is no use of them.

    Reads all of each.
    """
    import numpy as np

    from nnefc.formats.artifact import MAGIC
    from nnefc.model_cache import survey
    from nnefc.runtime.artifact import weight_cache as packed_weights

    files = list(folder.entries())
    for done, file in enumerate(files):
        progress(done, len(files), "weights")
        mapping = folder.map(folder.file_name(file.name), use=False)
        if mapping is not None:
            if mapping[: len(MAGIC)] == MAGIC:
                yield file, survey.is_whole(mapping, file.name)
            else:
                yield file, packed_weights.is_whole(np.frombuffer(mapping, np.uint8), file.name)
        elif not file.size:  # which cannot be mapped
            yield file, False


def weights_record(file: EntryFile) -> dict[str, Any]:
    """An entry for JSON; whether it is whole is not known, that takes reading it all."""
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
