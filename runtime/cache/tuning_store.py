"""Stores the methods that `nnefc.driver.tuning` has measured as fastest on this machine.

The cache has one file for each processor, number of threads and version of the kernels:

    {"version": 1, "machine": {"processor": "...", ...}, "methods": {"fused_conv ...": "direct"}}

Damaged files and files of other machines are ignored.  Callers must check that a stored method is
applicable to the operation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from nnefc.runtime.cache import kernel_cache
from nnefc.runtime.cache.key import key_of
from nnefc.support.digests import blake2b

VERSION: Final = 1
"""Version of the file format."""
_MODULES: Final = ("convolution.direct", "convolution.winograd")
"""The kernels that tuning chooses between; measurements depend on no others."""


def load_methods(threads: int) -> dict[str, str]:
    """Methods by key of operation for calls with `threads` threads; empty if none are stored."""
    machine = _machine(threads)
    try:
        content: Any = json.loads(kernel_cache.read_file(_name(machine)) or b"{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(content, dict):
        return {}
    facts = cast(dict[str, Any], content)
    methods = facts.get("methods")
    if facts.get("version") != VERSION or facts.get("machine") != machine:
        return {}
    if not isinstance(methods, dict):
        return {}
    items = cast(dict[str, Any], methods).items()
    return {key: method for key, method in items if isinstance(method, str)}


def store_methods(threads: int, methods: Mapping[str, str | None]) -> bool:
    """Update the stored methods (None removes one); returns whether the cache could be written."""
    machine = _machine(threads)
    merged = {**load_methods(threads), **methods}
    stored = {key: method for key, method in sorted(merged.items()) if method is not None}
    facts = {"version": VERSION, "machine": machine, "methods": stored}
    return kernel_cache.write_file(_name(machine), json.dumps(facts, indent=1).encode())


def _name(machine: Mapping[str, Any]) -> str:
    digest = blake2b(json.dumps(machine).encode(), digest_size=16)
    return f"methods-{digest.hexdigest()}.json"


def _machine(threads: int) -> dict[str, Any]:
    """The facts that measured times depend on."""
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
