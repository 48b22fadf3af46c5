"""Operators compute what PyTorch computes, on samples of PyTorch's own tests of operators.

Each sample is traced, decomposed into Core ATen, imported and evaluated by the references of
operations.  An operator that is not supported is refused by its name.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false, reportPrivateUsage=false
from __future__ import annotations

import collections
import itertools
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("expecttest", reason="samples of PyTorch's tests need expecttest")

import numpy as np
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from nnefc.frontends.torch.source import TorchSource
from nnefc.ops.tools.reference import evaluate
from nnefc.pytorch.decompositions import KEPT, kept_table
from nnefc.pytorch.read_fx import read_graph
from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits

DTYPES: Final = (torch.float32, torch.int64, torch.bool)
UNDEFINED: Final = ("empty", "new_empty")
"""Operators whose items may be anything, and others named like them."""
ORDERS: Final = ("sort", "msort", "argsort", "topk", "kthvalue")
"""Operators whose indices may be those of other equal items."""
NOT_CORE: Final = ("fft.", "special.", "linalg.", "jiterator", "signal.", "ops.nvprims")
"""Names of operators whose samples Core ATen has not, or few."""
MANY_ITEMS: Final = 2000
Function = Callable[..., tuple[torch.Tensor, ...]]


def _core() -> set[str]:
    """The names of the operators of Core ATen, and of those that are kept whole."""
    packets = [getattr(torch.ops.aten, name) for name in dir(torch.ops.aten) if name[:2] != "__"]
    packets = [each for each in packets if hasattr(each, "overloads")]
    overloads = [getattr(each, name) for each in packets for name in each.overloads()]
    kept = {f"aten.{name}" if "." in name else f"aten.{name}.default" for name in KEPT}
    return kept | {str(each) for each in overloads if torch.Tag.core in each.tags}


def _samples() -> Iterator[tuple[str, Function, list[torch.Tensor]]]:
    """Operators as functions of tensors, and these."""
    from torch.testing._internal.common_methods_invocations import op_db

    for op, dtype in itertools.product(op_db, DTYPES):
        if dtype not in op.dtypes or op.name.startswith(NOT_CORE) or op.variant_test_name:
            continue
        count = 2 if dtype is torch.float32 else 1
        for sample in itertools.islice(op.sample_inputs("cpu", dtype), count):
            leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
            places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
            tensors = [leaves[i].detach() for i in places]
            if any(x.is_complex() or x.numel() > MANY_ITEMS for x in tensors):
                continue

            yield op.name, _of_tensors(op.op, leaves, places, spec), tensors


def _of_tensors(operation: Any, leaves: list[Any], places: list[int], spec: Any) -> Function:
    """An operator with other arguments given, as a function of its tensors at `places`."""

    def function(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        filled = list(leaves)
        for i, x in zip(places, given, strict=True):
            filled[i] = x.clone()
        first, others, named = pytree.tree_unflatten(filled, spec)
        results = pytree.tree_leaves(operation(first, *others, **named))
        return tuple(x for x in results if isinstance(x, torch.Tensor))

    return function


def _traced(function: Function, tensors: list[torch.Tensor], table: Any) -> Any:
    """A functional graph of Core ATen; None for what PyTorch cannot trace."""
    functional = torch.func.functionalize(function, remove="mutations")
    try:
        trace = make_fx(functional, decomposition_table=table, tracing_mode="fake")
        return trace(*tensors)
    except Exception:  # depends on data, draws with a generator, ...
        return None


def _computed(module: Any, tensors: list[torch.Tensor]) -> list[tuple[str, Any]]:
    """The item types and the items of results."""
    program, arrays = read_graph(module, {})
    graph = TorchSource(program, arrays, Limits()).graph({})
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    given = {name: x.numpy() for name, x in zip(names, tensors, strict=True)}
    found = [np.asarray(y) for y in evaluate(graph, given).outputs.values()]
    for count in graph.counts:
        number = int(found[count.output].reshape(()))
        found[count.of] = np.take(found[count.of], range(number), count.axis)
    results = zip(graph.outputs, found, strict=True)
    types = [(value.type.dtype.value, items) for value, items in results]
    return types[: len(types) - len(graph.counts)]


def _agrees(name: str, found: list[tuple[str, Any]], want: tuple[torch.Tensor, ...]) -> bool:
    """Whether results are those of PyTorch."""
    if [(dtype, y.shape) for dtype, y in found] != [
        (str(x.dtype).removeprefix("torch."), tuple(x.shape)) for x in want
    ]:
        return False
    if name.startswith(UNDEFINED):
        return True
    if name in ORDERS:  # the order of equal items is not defined
        found, want = found[:1], want[:1]
        if name == "argsort":
            return True
    return all(
        np.allclose(y.astype(np.float64), x.double().numpy(), 1e-4, 1e-5, equal_nan=True)
        for (_, y), x in zip(found, want, strict=True)
    )


@pytest.mark.slow
def test_samples_of_core_operators() -> None:
    core, table = _core(), kept_table()
    counts: collections.Counter[str] = collections.Counter()
    wrong: list[str] = []
    torch.manual_seed(0)
    logging.getLogger("torch.__trace").propagate = False  # of each tensor that is traced
    warnings.simplefilter("ignore")
    with torch.no_grad():
        for name, function, tensors in _samples():
            module = _traced(function, tensors, table)
            if module is None:
                continue
            targets = {str(n.target) for n in module.graph.nodes if n.op == "call_function"}
            targets = {each for each in targets if each.startswith("aten.")}
            kind = "core" if targets <= core else "other"
            try:
                found = _computed(module, tensors)
            except NnefError as error:
                is_random = "random numbers" in str(error)
                counts["random" if is_random else f"{kind} refused"] += 1
                names = {*targets, "operator.getitem"}
                if not all(any(each in d.message for each in names) for d in error.errors):
                    wrong.append(f"{name}: {error}")
                continue
            counts[f"{kind} computed"] += 1
            if not _agrees(name, found, function(*tensors)):
                wrong.append(f"{name} {tensors[:1]}: {sorted(targets)}")
    assert not wrong, "\n".join(wrong)
    assert counts["core computed"] > 500, counts
    assert counts["core computed"] >= 0.97 * (counts["core computed"] + counts["core refused"])
