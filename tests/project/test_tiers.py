"""The quick tier covers every package."""

from __future__ import annotations

from tests.helpers.sources import modules
from tests.helpers.tiers import SLOW, TESTS, WAITING, is_slow


def test_slow_files_and_folders_exist() -> None:
    assert [name for name in (*SLOW, *WAITING) if not (TESTS / name).exists()] == []


def test_every_folder_with_tests_of_a_package_has_quick_ones() -> None:
    folders = {path.parent for path in TESTS.rglob("test_*.py")}
    packages = {
        folder
        for folder in folders
        if ".".join(("nnefc", *folder.relative_to(TESTS).parts)) in modules()
    }
    assert len(packages) > 30
    without = {
        folder.relative_to(TESTS).as_posix()
        for folder in packages
        if all(is_slow(path) for path in folder.glob("test_*.py"))
    }
    assert without <= {"runtime/compile"}  # every kernel that a quick test runs is compiled by it
