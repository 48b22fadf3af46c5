"""How many processes may compile, as the user says."""

from __future__ import annotations

import os

from nnefc.support.errors import NnefError


def jobs() -> int | None:
    """The number in `NNEFC_JOBS`; None if it is not set, or empty.

    Raises NnefError `input/environment` if that is not a positive number.
    """
    text = os.environ.get("NNEFC_JOBS")
    if not text:
        return None
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise NnefError.of(
        "input/environment",
        f"NNEFC_JOBS is {text!r}; expected how many processes may compile",
        hint="NNEFC_JOBS=1 compiles in the process that asks for it",
    )
