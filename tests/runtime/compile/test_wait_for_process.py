"""Claims of the kernels of one call."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnefc.runtime.cache import claim, kernel_cache
from nnefc.runtime.cache.key import Key, ModuleDependencies
from nnefc.runtime.compile import wait_for_process
from nnefc.runtime.compile.compile_unit import CompileUnit, Function
from nnefc.runtime.compile.wait_for_process import claim_entries


def test_open_files_of_claims_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every unit may be compiled, but few claims are held at a time."""
    monkeypatch.setattr(wait_for_process, "_MAX_CLAIMS", 3)

    def claimed(key: Key) -> claim.Claim | None:
        return claim.claim(str(tmp_path / key.name))

    monkeypatch.setattr(kernel_cache, "claim_kernel", claimed)
    units = [Function(f"f{i}", lambda: 0) for i in range(8)]
    dependencies = ModuleDependencies({}, b"")
    keys: dict[CompileUnit, Key | None] = {
        unit: Key("", "", dependencies, unit.symbol) for unit in units
    }
    with claim_entries(units, keys) as mine:
        assert mine == units
        assert len(list(tmp_path.iterdir())) == 3
    assert not list(tmp_path.iterdir())
