"""Small and read-only disks, for tests with the permission to mount them."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534


@contextmanager
def mounted(place: Path, size: str) -> Generator[Path]:
    """Mount an empty file system of `size` ("64k") at `place` for the block."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "nnefc-test", str(place)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only the administrator can make a small disk")
    try:
        yield place
    finally:  # though files of it are mapped
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def make_read_only(disk: Path) -> None:
    """Remount a disk of `mounted` read-only, also for the administrator."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)


@contextmanager
def as_somebody(place: Path) -> Generator[None]:
    """Run the block as an ordinary user, who owns the folder; the administrator may do anything."""
    if os.geteuid() != 0:
        yield
        return
    os.chown(place, NOBODY, NOBODY)
    for path in place.iterdir():
        os.chown(path, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def largest_file(nbytes: int) -> Generator[None]:
    """Limit files to `nbytes` in the block: the system ends larger writes in the middle."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
