"""The model cache: whole compiled models in the cache folder, stored as artifacts.

The name of an entry is a digest of the facts that a compiled model depends on (`facts`): the bytes
of the document, the options, the machine, and the versions of nnefc and of the libraries that
generate code.  Entries are mapped like any artifact, so that processes share their weights.
Damaged entries count as missing, and failed writes are ignored.
"""

from __future__ import annotations

import os


def passes_are_observed() -> bool:
    """Whether the environment asks to verify or dump graphs: see `passes.pipeline`."""
    verify = os.environ.get("NNEFC_VERIFY", "0") not in ("", "0")
    return verify or bool(os.environ.get("NNEFC_DUMP"))
