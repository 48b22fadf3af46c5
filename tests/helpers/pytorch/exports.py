"""Exports modules with torch_to_nnef, and compares compiled results with PyTorch's."""

# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import nnefc
import nnefc.pytorch
from tests.helpers.pytorch.arrays_close import assert_close
from tests.helpers.pytorch.cases import Case

Array = np.ndarray[Any, Any]


def results(module: torch.nn.Module, inputs: Sequence[Tensor]) -> list[Array]:
    """The results of PyTorch, with nested tuples flattened."""
    eager = torch.compiler.set_stance("force_eager")
    with torch.no_grad(), eager, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [array(x) for x in flat(module(*inputs))]


def flat(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [tensor for each in value for tensor in flat(each)]


def array(tensor: Tensor) -> Array:
    return tensor.detach().numpy()


def export(case: Case, module: torch.nn.Module, outputs: int, path: Path) -> Path:
    """Export the module of a case; returns the path of the archive."""
    names = [f"x{i}" for i in range(len(case.inputs))]
    eager = torch.compiler.set_stance("force_eager")
    with warnings.catch_warnings(), eager:
        warnings.simplefilter("ignore")
        return nnefc.pytorch.export(
            module,
            case.inputs,
            path,
            exporter="torch_to_nnef",
            input_names=names,
            output_names=[f"y{i}" for i in range(outputs)],
            dynamic_axes={names[i]: axes for i, axes in (case.dynamic or {}).items()},
            **(case.options or {}),
        )


def check(case: Case, folder: Path) -> None:
    """Export, compile and run a case; assert that its results are PyTorch's."""
    torch.manual_seed(0)
    module = case.module().eval()
    calls = (case.inputs, *case.more)
    wanted = [results(module, inputs) for inputs in calls]
    model = nnefc.compile(export(case, module, len(wanted[0]), folder / "model.nnef.tgz"))
    for inputs, want in zip(calls, wanted, strict=True):
        found: Any = model(*map(array, inputs))
        listed: list[Any] = list(found) if isinstance(found, tuple) else [found]
        assert len(listed) == len(want)
        for y, expected in zip(listed, want, strict=True):
            assert np.asarray(y).dtype == expected.dtype
            assert_close(y, expected, case.tolerance)
