"""How operations are best computed on this machine, as `nnefc.driver.tuning` has measured it.

There is a file in the cache for each processor, number of threads and version of the kernels:

    {"version": 1, "machine": {"processor": "...", ...}, "methods": {"fused_conv ...": "direct"}}

A file that is damaged, or of another machine, is as good as none.  Nothing here is trusted: who
reads a method takes it only where the operation can be computed that way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from nnefc.runtime.cache import kernel_cache as files
from nnefc.runtime.cache.key import key_of
from nnefc.support.digests import blake2b

VERSION: Final = 1
"""Of the form of the files."""
_MODULES: Final = ("convolution.direct", "convolution.winograd")
"""The kernels that there is a choice between: of others, what was measured says nothing."""


def load_methods(threads: int) -> dict[str, str]:
    """Methods by key of operation, for calls by so many threads; empty if none are kept."""
    machine = _machine(threads)
    try:
        found: Any = json.loads(files.read_file(_name(machine)) or b"{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    facts = cast(dict[str, Any], found)
    methods = facts.get("methods")
    if facts.get("version") != VERSION or facts.get("machine") != machine:
        return {}
    if not isinstance(methods, dict):
        return {}
    items = cast(dict[str, Any], methods).items()
    return {key: method for key, method in items if isinstance(method, str)}


def store_methods(threads: int, methods: Mapping[str, str | None]) -> bool:
    """Add to what is kept, None takes away; False if there is no cache to write to."""
    machine = _machine(threads)
    together = {**load_methods(threads), **methods}
    kept = {key: method for key, method in sorted(together.items()) if method is not None}
    facts = {"version": VERSION, "machine": machine, "methods": kept}
    return files.write_file(_name(machine), json.dumps(facts, indent=1).encode())


def _name(machine: Mapping[str, Any]) -> str:
    digest = blake2b(json.dumps(machine).encode(), digest_size=16)
    return f"methods-{digest.hexdigest()}.json"


def _machine(threads: int) -> dict[str, Any]:
    """What times depend on."""
    from nnefc.kernels.target.isa import host
    from nnefc.kernels.target.processor import model_name

    isa = host()
    keys = [key_of(f"{module}.methods", "", isa) for module in _MODULES]
    return {
        "processor": model_name(),
        "instructions": isa.name,
        "threads": threads,
        "kernels": [key and key.name for key in keys],
    }
