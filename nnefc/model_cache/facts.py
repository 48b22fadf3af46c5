"""The facts that a compiled model depends on: its document, options, machine and nnefc version.

Models with the same facts are the same.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from nnefc.formats.files import FilePath
from nnefc.formats.paths import is_onnx
from nnefc.support.digests import blake2b
from nnefc.support.package import PACKAGE, VERSION

if TYPE_CHECKING:
    from nnefc.options.compile_config import CompileConfig
    from nnefc.options.import_config import ImportConfig
    from nnefc.runtime.cache.key import Facts

DOCUMENT: Final = "document"
"""The name of the fact that holds the digest of the document."""
PATH: Final = "path"
"""The name of the fact that holds the path of the document, which messages contain."""
ONNX: Final = "package onnx"
"""The name of the fact that holds the version of the package that parsed an ONNX model."""
_NAME_BYTES: Final = 32
_FACT_BYTES: Final = 8
_BEGAN: Final = time.time_ns()
"""Nanoseconds since 1970 at the import of this module, before anything is compiled."""
_COARSE: Final = 20_000_000
"""Nanoseconds that the time of a file may lag behind the clock."""


def facts_of(source: FilePath, importing: ImportConfig, config: CompileConfig) -> Facts:
    """The facts of a compiled model beside the digest of its document, by name.

    `config`: with the actual threads and algorithms.
    """
    from nnefc.runtime.cache.key import version_of

    return {
        PATH: os.fspath(source),
        **{name: str(value) for name, value in importing._asdict().items()},
        "shapes": repr(importing.shapes or None),
        "symbols": repr(importing.symbols or None),
        "threads": str(config.threads),
        "accuracy": config.accuracy,
        "precision": config.precision,
        "check indices": str(config.check_indices),
        "strict quantization": str(config.strict_quantization),
        "tuned algorithms": (
            _short(sorted((config.algorithms or {}).items())) if config.tuned else "off"
        ),
        **({ONNX: version_of("onnx")} if is_onnx(source) else {}),
        **_environment(),
    }


def entry_name(facts: Facts) -> str:
    """The name of the entry with these facts: hexadecimal digits.

    The version of the package `onnx` has no part in it: `is_current` compares it.
    """
    named = {name: value for name, value in facts.items() if name != ONNX}
    text = json.dumps(named, sort_keys=True).encode()
    return blake2b(text, digest_size=_NAME_BYTES).hexdigest()


def is_current(stored: Facts, facts: Facts) -> bool:
    """Whether a stored model with the name for `facts` has them all.

    The bodies of ONNX's functions are those of the package `onnx`, so another version makes another
    model.  Where the package is not installed, a stored model serves.
    """
    from nnefc.runtime.cache.key import NOT_INSTALLED

    return facts.get(ONNX) in (NOT_INSTALLED, stored.get(ONNX))


@cache
def _environment() -> Facts:
    """The facts that all models share: the machine, and the versions of code and libraries."""
    from nnefc.kernels.target.isa import host
    from nnefc.runtime.cache.key import SOURCE, environment_facts
    from nnefc.runtime.compile.support_code import abi_digest
    from nnefc.runtime.machine.resources import largest_cache

    return {
        **environment_facts(host()),
        "interface of the executor": _short(abi_digest()),
        "bytes of the largest cache": str(largest_cache()),
        f"{SOURCE}nnefc": _short([source[:3] for source in _sources()]),
    }


@cache
def formats_digest() -> str:
    """A digest of the sources that define the files of a document and their digest."""
    return _short([VERSION, *(source[:3] for source in sources_in(f"{PACKAGE}/formats"))])


def _short(value: object) -> str:
    return blake2b(repr(value).encode(), digest_size=_FACT_BYTES).hexdigest()


class SourceFile(NamedTuple):
    """A source file of nnefc."""

    name: str
    size: int
    seconds: int
    """Its modification time, at the resolution of container images."""
    changed: int
    """Nanoseconds since 1970 of the last change of the file or its metadata."""


def sources_are_unchanged() -> bool:
    """Whether the sources are those that this process loaded: unchanged since it began."""
    return all(source.changed < _BEGAN - _COARSE for source in _sources())


@cache
def _sources() -> Sequence[SourceFile]:
    """The sources of nnefc at the first call."""
    return sources_in(PACKAGE)


def sources_in(package: str) -> Sequence[SourceFile]:
    """The sources in a package, in order; links to folders are followed."""
    sources: list[SourceFile] = []
    folders = [package]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    seconds = int(status.st_mtime)
                    sources.append(
                        SourceFile(entry.path, status.st_size, seconds, status.st_ctime_ns)
                    )
                elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                    folders.append(entry.path)
    return sorted(sources)
