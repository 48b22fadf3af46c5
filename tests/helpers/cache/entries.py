"""What the tests of the cache share: the key of a kernel, and where its entry is."""

from __future__ import annotations

from pathlib import Path

from nnefc.kernels.target.isa import host
from nnefc.runtime.cache.key import Key, key_of
from nnefc.runtime.cache.lru_folder import kernel_file_name


def key(arguments: str = "()") -> Key:
    """Of a kernel that nobody compiles."""
    found = key_of("convolution.direct.convolve", arguments, host())
    assert found is not None
    return found


def entry(folder: Path, arguments: str = "()") -> Path:
    """The file of that entry."""
    return folder / kernel_file_name(key(arguments).name)
