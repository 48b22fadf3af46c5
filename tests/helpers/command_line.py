"""Runs commands of the command line; a small model to run them on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.nnef.tgz"

SMALL = """\
version 1.0;
graph small( x ) -> ( y )
{
    x = external(shape = [1, 3, 8, 8]);
    filter = variable(shape = [4, 3, 3, 3], label = 'conv/filter');
    bias = variable(shape = [1, 4], label = 'conv/bias');
    conv1 = conv(x, filter, bias);
    relu1 = relu(conv1);
    y = mean_reduce(relu1, axes = [2, 3]);
}
"""


class Result(NamedTuple):
    status: int
    out: str
    err: str


Cli = Callable[..., Result]
