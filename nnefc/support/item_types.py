"""Item types by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


def numpy_type(name: str) -> np.dtype[Any]:
    """The NumPy type with a name; "bfloat16" is that of `ml_dtypes`, imported only then."""
    import numpy as np

    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)
