"""The content of tensor files."""

from __future__ import annotations

import io
from typing import Any

from nnefc.formats.tensor_file import write_tensor


def tensor_bytes(array: Any, **options: Any) -> bytes:
    out = io.BytesIO()
    write_tensor(out, array, **options)
    return out.getvalue()
