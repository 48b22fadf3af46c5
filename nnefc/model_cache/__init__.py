"""Models that were compiled before: kept whole in the cache folder, as artifacts.

An entry is named by a digest of all that a compiled model depends on (`facts`): the bytes of the
document, how it is imported and lowered, the machine, the versions of nnefc and of what translates
kernels.  It is mapped like any artifact, so that processes share its weights.  What is damaged, or
cannot be written, is as good as none.
"""

from __future__ import annotations

import os


def passes_are_observed() -> bool:
    """Whether the environment asks for something between passes: see `passes.pipeline`."""
    verify = os.environ.get("NNEFC_VERIFY", "0") not in ("", "0")
    return verify or bool(os.environ.get("NNEFC_DUMP"))
