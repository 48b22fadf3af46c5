"""The line that tells a user what commands keep on disk."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnefc.runtime.cache.lru_folder import LruFolder

_MARKER = "told-of-models"
"""A file of the cache; it exists if the user has been told."""


def forget_stored() -> None:
    """Begin a command: models that this process stored before count no more."""
    if (folder := _used_folder()) is not None:
        folder.written = False


def tell_of_stored_models() -> None:
    """After a command that stored a model or weights: say how much the cache holds, and where.

    A cache folder is mentioned once.
    """
    folder = _used_folder()
    if folder is None or not folder.written:
        return
    from nnefc.runtime.cache import kernel_cache

    if kernel_cache.read_file(_MARKER) is not None:
        return
    if kernel_cache.write_file(_MARKER, b""):
        from nnefc.cli.support.printing import size

        nbytes = sum(file.size for file in folder.entries())
        print(
            f"note: compiled models and packed weights are kept in {folder.path},"
            f" {size(nbytes)} now and at most {size(folder.limit)};"
            " NNEFC_CACHE_LIMIT limits them, NNEFC_KEEP=off keeps none,"
            " nnefc cache clear removes them",
            file=sys.stderr,
        )


def _used_folder() -> LruFolder | None:
    """The folder of models and weights, if this process has used it; nothing is imported."""
    if "nnefc.runtime.cache.kernel_cache" not in sys.modules:
        return None
    from nnefc.runtime.cache import kernel_cache

    return kernel_cache.used_weight_folder()
