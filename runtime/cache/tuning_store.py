"""Stores the algorithms that `nnefc.driver.tuning` has measured as fastest on this machine.

The cache has one file for each processor and number of threads.  It holds the algorithms for the
kernels of this version of nnefc, and for those of versions that were tuned before:

    {"version": 3, "machine": {"processor": "...", ...},
     "tunings": [{"kernels": ["..."], "algorithms": {"fused_conv ...": "direct"}}]}

Every compilation reads the file, but few machines have one: its name depends on no kernels, whose
sources take 10 ms to read.  Damaged files and files of other machines are ignored.  Callers must
check that a stored algorithm is applicable to the operation.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from nnefc.runtime.cache import kernel_cache
from nnefc.support.digests import blake2b

VERSION: Final = 3
"""Version of the file format."""
_MAX_TUNINGS: Final = 8
"""Versions of the kernels whose algorithms a file holds."""
_PATIENCE_SECONDS: Final = 2.0
"""Seconds to wait for another process that writes the file, which takes it milliseconds."""
_POLL_SECONDS: Final = 0.01
_MODULES: Final = ("convolution.direct", "convolution.winograd")
"""The kernels that tuning chooses between; measurements depend on no others."""


def load_algorithms(threads: int) -> dict[str, str]:
    """Algorithms by key of operation for calls with `threads` threads; empty if none are stored."""
    tunings = _tunings(_machine(threads))
    kernels = _kernels() if tunings else []
    for tuning in tunings:
        algorithms = tuning.get("algorithms")
        if tuning.get("kernels") == kernels and isinstance(algorithms, dict):
            items = cast(dict[str, Any], algorithms).items()
            return {key: algorithm for key, algorithm in items if isinstance(algorithm, str)}
    return {}


def store_algorithms(threads: int, algorithms: Mapping[str, str | None]) -> bool:
    """Update the stored algorithms; None removes one.  Returns whether the cache was written."""
    machine = _machine(threads)
    with _claimed(_name(machine)):
        return _merge(machine, threads, algorithms)


def _merge(machine: Mapping[str, Any], threads: int, algorithms: Mapping[str, str | None]) -> bool:
    kernels = _kernels()
    merged = {**load_algorithms(threads), **algorithms}
    stored = {key: algorithm for key, algorithm in sorted(merged.items()) if algorithm is not None}
    others = [each for each in _tunings(machine) if each.get("kernels") != kernels]
    tunings = [{"kernels": kernels, "algorithms": stored}, *others][:_MAX_TUNINGS]
    facts = {"version": VERSION, "machine": machine, "tunings": tunings}
    return kernel_cache.write_file(_name(machine), json.dumps(facts, indent=1).encode())


@contextmanager
def _claimed(name: str) -> Generator[None]:
    """Let no other process merge its algorithms into a file meanwhile; waits for one that does."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while (claim := kernel_cache.claim_file(name)) is None and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        if claim is not None:
            claim.release()


def _tunings(machine: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The tunings in the file of a machine; empty if it is missing or damaged."""
    try:
        content: Any = json.loads(kernel_cache.read_file(_name(machine)) or b"{}")
    except (ValueError, RecursionError):
        return []
    if not isinstance(content, dict):
        return []
    facts = cast(dict[str, Any], content)
    tunings = facts.get("tunings")
    if facts.get("version") != VERSION or facts.get("machine") != machine:
        return []
    if not isinstance(tunings, list):
        return []
    return [
        cast(Mapping[str, Any], each)
        for each in cast(list[object], tunings)
        if isinstance(each, dict)
    ]


def _name(machine: Mapping[str, Any]) -> str:
    digest = blake2b(json.dumps(machine).encode(), digest_size=16)
    return f"algorithms-{digest.hexdigest()}.json"


def _machine(threads: int) -> dict[str, Any]:
    """The facts that measured times depend on, beside the kernels."""
    from nnefc.kernels.target.isa import host
    from nnefc.kernels.target.processor import model_name

    return {"processor": model_name(), "instructions": host().name, "threads": threads}


def _kernels() -> list[str]:
    """The names of the kernels that are measured, which depend on their sources."""
    from nnefc.kernels.target.isa import host
    from nnefc.runtime.cache.key import key_of

    keys = [key_of(f"{module}.algorithms", "", host()) for module in _MODULES]
    return [key.name for key in keys if key is not None]
