"""The folders of the cache: kernels, and models with their packed weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from nnefc.runtime.cache.lru_folder import LruFolder


def open_kernels() -> LruFolder:
    """The folder of kernels; raises NnefError `internal/cache` if it is off or not trusted."""
    from nnefc.runtime.cache.kernel_cache import open_kernel_folder

    folder = open_kernel_folder()
    if folder is None:
        raise NnefError.of(
            "internal/cache",
            "there is no kernel cache: NNEFC_CACHE is off",
            hint="set it to a folder, or unset it",
        )
    return folder


def open_weights() -> LruFolder | None:
    """The folder of models and weights; None if it does not exist yet.

    Raises NnefError `internal/cache` if it is not trusted.
    """
    from nnefc.runtime.cache.kernel_cache import open_weight_folder

    folder = open_weight_folder()
    return folder if folder is not None and folder.exists() else None


def open_all() -> list[LruFolder]:
    """The folder of kernels, and that of models and weights if it exists."""
    kernels, weights = open_kernels(), open_weights()
    return [kernels] if weights is None else [kernels, weights]
