"""The error of a call with an index out of range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nnefc import NnefError


def index_error(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The only error of a call."""
    with pytest.raises(NnefError) as caught:
        call(*arguments, **options)
    (found,) = caught.value.errors
    assert found.rule == "input/index"
    return found
