"""Keys of kernels, and the files of their cache entries."""

from __future__ import annotations

from pathlib import Path

from nnefc.kernels.target.isa import host
from nnefc.runtime.cache.key import Key, key_of
from nnefc.runtime.cache.lru_folder import kernel_file_name


def key(arguments: str = "()") -> Key:
    """The key of a kernel that is never compiled."""
    found = key_of("convolution.direct.convolve", arguments, host())
    assert found is not None
    return found


def entry(folder: Path, arguments: str = "()") -> Path:
    """The file of the entry of `key(arguments)`."""
    return folder / kernel_file_name(key(arguments).name)
