"""The option `--limit`."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

import nnefc
from nnefc.cli.support.options import parse_limits
from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits


def test_limits_are_listed_in_their_order() -> None:
    with pytest.raises(NnefError) as caught:
        parse_limits(["foo=3"])
    (error,) = caught.value.errors
    assert error.hint == "one of " + ", ".join(field.name for field in fields(Limits))


@pytest.mark.parametrize("operation", ["argmax_pool", "max_pool_with_index"])
def test_taps_of_all_dimensions_together(tmp_path: Path, operation: str) -> None:
    """Uninterruptible native code would loop over them one by one."""
    target = "y" if operation == "argmax_pool" else "y, z"
    path = tmp_path / "net.nnef"
    path.write_text(
        f"version 1.0;\ngraph net( x ) -> ( y )\n{{\n    x = external(shape = [8, 8]);\n"
        f"    {target} = {operation}(x, size = [1000000, 1000000], border = 'constant');\n}}\n"
    )
    with pytest.raises(NnefError) as caught:
        nnefc.compile(path, keep=False)
    (error,) = caught.value.errors
    assert error.rule == "limit/window"
    assert error.line == 5
    assert f"{operation}: a window of 1000000000000 taps at 64 positions" in error.message
