"""Compiles a model of a suite, and compares its results with those of eager PyTorch."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import copy
import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

import nnefc.pytorch
from benchmarks.difference import Array, largest_difference
from benchmarks.pytorch_models.check_generate import check_generate
from benchmarks.pytorch_models.checked import Checked, Status
from benchmarks.pytorch_models.model_case import Case
from benchmarks.pytorch_models.suites import suite
from nnefc.support.errors import NnefError


def check(suite_name: str, name: str) -> Checked:
    """What becomes of a model; all errors are recorded."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    try:
        chosen = suite(suite_name)
        case = chosen.make(name)
        if chosen.generates:
            return check_generate(name, case)
        with torch.inference_mode():
            want = arrays(case.module(*copy.deepcopy(case.args), **copy.deepcopy(case.kwargs)))
    except Exception as error:
        return Checked(name, Status.EAGER, _line(error))
    start = time.perf_counter()
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            model = _compiled(case)
            first = model(*case.args, **case.kwargs)
        seconds = time.perf_counter() - start
        with torch.no_grad():
            result = arrays(model(*case.args, **case.kwargs) if case.in_place else first)
    except NnefError as error:
        rules = {each.rule for each in error.errors}
        status = Status.EXPORT if "torch/export" in rules else Status.REFUSED
        return Checked(name, status, _errors(error), None, time.perf_counter() - start)
    except MemoryError:
        return Checked(name, Status.ENDED, "more than its memory")
    except Exception as error:
        return Checked(name, Status.FAILED, _line(error), None, time.perf_counter() - start)
    difference = largest_difference(result, want)
    checked = Checked.compared(name, difference, seconds, _parameters(case))
    if case.exact:
        return _compared_with_both(checked, case, result, want)
    return checked if checked.status is Status.RIGHT else _judged(checked, case, result, want)


def _compiled(case: Case) -> Any:
    """The module, compiled for one thread; without Winograd's algorithm if it must be exact."""
    options: Any = {"threads": 1, "accuracy": "strict" if case.exact else "fast"}
    if not case.in_place:
        return nnefc.pytorch.compile(case.module, case.args, case.kwargs, **options)
    from nnefc.pytorch.backend import nnefc as backend

    return torch.compile(case.module, backend=backend, options=options)


def _judged(checked: Checked, case: Case, result: list[Array], want: list[Array]) -> Checked:
    """Results that differ are right if they are nearer to those in float64 than eager's are."""
    try:
        exact = exact_results(case)
    except Exception:  # modules with constants of float32
        return checked
    own, eager = (largest_difference(each, exact) for each in (result, want))
    message = f"differs from float64 by {own:.1e}, eager by {eager:.1e}"
    status = Status.RIGHT if own < eager < float("inf") else Status.WRONG
    return replace(checked, status=status, message=message)


def _compared_with_both(
    checked: Checked, case: Case, result: list[Array], want: list[Array]
) -> Checked:
    """Results that must agree with eager mode in float32 and in float64; the larger difference."""
    exact = exact_results(case)
    own, eager = (largest_difference(each, exact) for each in (result, want))
    worst = max(own, checked.difference or 0.0)
    message = f"differs from float64 by {own:.1e}, eager by {eager:.1e}; {want[0].shape[0]} boxes"
    compared = Checked.compared(checked.name, worst, checked.seconds or 0.0, _parameters(case))
    return replace(compared, message=message)


def exact_results(case: Case) -> list[Array]:
    """The results of eager mode in float64."""
    with torch.inference_mode():
        module = copy.deepcopy(case.module).double()
        args, kwargs = pytree.tree_map(_wide, (case.args, case.kwargs))
        return arrays(module(*args, **kwargs))


def _wide(x: Any) -> Any:
    """A tensor of reals in float64; all else as it is."""
    return x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def _parameters(case: Case) -> int:
    return sum(each.numel() for each in case.module.parameters())


def arrays(results: Any) -> list[Array]:
    """The tensors and numbers among nested results."""
    leaves = pytree.tree_leaves(results)
    return [
        each.detach().clone().numpy() if isinstance(each, torch.Tensor) else np.asarray(each)
        for each in leaves
        if isinstance(each, torch.Tensor | int | float)
    ]


def _errors(error: NnefError) -> str:
    return "; ".join(f"{each.text} [{each.place}]" for each in error.errors)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
