"""What a compiled model depends on, as named facts: those of its document, of how it is compiled,
of the machine and of nnefc.  Models that differ in none of them are the same.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from nnefc.formats.files import FilePath
from nnefc.ir import DType
from nnefc.runtime.cache.key import SOURCE
from nnefc.support.digests import blake2b
from nnefc.support.sources import PACKAGE

if TYPE_CHECKING:
    from nnefc.options.compile_config import CompileConfig
    from nnefc.options.import_config import ImportConfig
    from nnefc.runtime.cache.key import Facts

DOCUMENT: Final = "document"
"""The fact that is the digest of the document,"""
PATH: Final = "path"
"""and the one that is its path as it was given: messages name it."""
_NAME_BYTES: Final = 32
_FACT_BYTES: Final = 8
_BEGAN: Final = time.time_ns()
"""Nanoseconds since 1970 at which this process began to compile."""
_COARSE: Final = 20_000_000
"""Nanoseconds that the time of a file may lag behind the clock."""


def facts_of(
    digest: str, source: FilePath, importing: ImportConfig, config: CompileConfig
) -> Facts:
    """`digest`: of the document; `config` has the threads and the methods that are used."""
    return {
        DOCUMENT: digest,
        PATH: os.fspath(source),
        **{name: _fact(value) for name, value in importing._asdict().items()},
        "shapes": repr(importing.shapes or None),
        "threads": str(config.threads),
        "accuracy": config.accuracy,
        "tuned methods": _short(sorted((config.methods or {}).items())),
        **_surroundings(),
    }


def _fact(value: object) -> str:
    return repr(value.value if isinstance(value, DType) else value)


def entry_name(facts: Facts) -> str:
    """The name of the entry: hexadecimal digits."""
    text = json.dumps(facts, sort_keys=True).encode()
    return blake2b(text, digest_size=_NAME_BYTES).hexdigest()


@cache
def _surroundings() -> Facts:
    """What all models depend on: the machine, the versions of all that takes part."""
    from nnefc.kernels.target.isa import host
    from nnefc.runtime.cache.key import surroundings_of
    from nnefc.runtime.compile.support_code import interface
    from nnefc.runtime.machine.resources import largest_cache

    codegen = surroundings_of("codegen.object_code", host())
    assert codegen is not None
    return {
        **{name: fact for name, fact in codegen.facts.items() if not name.startswith(SOURCE)},
        "interface of the executor": _short(interface()),
        "bytes of the largest cache": str(largest_cache()),
        f"{SOURCE}nnefc": _short([source[:3] for source in _sources()]),
    }


def _short(value: object) -> str:
    return blake2b(repr(value).encode(), digest_size=_FACT_BYTES).hexdigest()


class SourceFile(NamedTuple):
    """A source file of nnefc."""

    name: str
    size: int
    seconds: int
    """Its time, as layers of container images keep it."""
    changed: int
    """Nanoseconds since 1970 at which it, or what the system knows of it, changed last."""


def sources_are_unchanged() -> bool:
    """Whether no source has changed since this process began, which may have loaded older ones."""
    return all(source.changed < _BEGAN - _COARSE for source in _sources())


@cache
def _sources() -> Sequence[SourceFile]:
    """Those of nnefc, when it is first asked for them."""
    return sources_in(Path(PACKAGE))


def sources_in(package: Path) -> Sequence[SourceFile]:
    """The sources in a package, in order."""
    found: list[SourceFile] = []
    for place, _, names in os.walk(package, followlinks=True):
        for name in names:
            if name.endswith(".py"):
                file = Path(place, name)
                status = file.stat()
                seconds = int(status.st_mtime)
                found.append(SourceFile(str(file), status.st_size, seconds, status.st_ctime_ns))
    return sorted(found)
