"""Item types by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def numpy_type(name: str) -> np.dtype[Any]:
    """NumPy's type of that name; "bfloat16" is that of `ml_dtypes`, which is imported for it."""
    import numpy as np

    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)
