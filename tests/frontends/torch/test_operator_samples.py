"""Operators compute what PyTorch computes, on samples of PyTorch's own tests of operators.

The samples of an operator are traced together, decomposed into Core ATen, imported and evaluated by
the references of operations.  Each sample is tried alone where one of them fails.  An operator that
is not supported is refused by its name.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false, reportPrivateUsage=false
from __future__ import annotations

import collections
import inspect
import itertools
import logging
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("expecttest", reason="samples of PyTorch's tests need expecttest")

import numpy as np
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from nnefc.frontends.torch.source import TorchSource
from nnefc.ops.tools.reference import evaluate
from nnefc.pytorch.decompositions import KEPT, kept_table, overload_name
from nnefc.pytorch.read_fx import read_graph
from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits

DTYPES: Final = (torch.float32, torch.int64, torch.bool)
UNDEFINED: Final = ("empty", "new_empty")
"""Operators whose items may be anything, and others named like them."""
ORDERS: Final = ("sort", "argsort", "topk", "kthvalue")
"""Operators with items and indices, which may be those of other equal items."""
NOT_CORE: Final = ("fft.", "special.", "linalg.", "jiterator", "signal.", "ops.nvprims")
"""Names of operators whose samples Core ATen has not, or few."""
MANY_ITEMS: Final = 2000
Function = Callable[..., tuple[torch.Tensor, ...]]


class Sample(NamedTuple):
    """A function of tensors, and these."""

    function: Function
    tensors: list[torch.Tensor]


def _core() -> set[str]:
    """The names of the operators of Core ATen, and of those that are kept whole."""
    packets = [getattr(torch.ops.aten, name) for name in dir(torch.ops.aten) if name[:2] != "__"]
    packets = [each for each in packets if hasattr(each, "overloads")]
    overloads = [getattr(each, name) for each in packets for name in each.overloads()]
    kept = set(map(overload_name, KEPT))
    return kept | {str(each) for each in overloads if torch.Tag.core in each.tags}


def _samples() -> Iterator[tuple[str, list[Sample]]]:
    """The samples of each operator."""
    from torch.testing._internal import common_utils
    from torch.testing._internal.common_methods_invocations import op_db

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspect, "stack", list)  # else each sample looks for a test in it
        patch.setattr(common_utils, "set_rng_seed", _seed)
        for op in op_db:
            if not op.name.startswith(NOT_CORE) and not op.variant_test_name:
                yield op.name, list(_samples_of(op))


def _seed(seed: int = 0) -> None:
    """Seed generators of the CPU; `torch.manual_seed` also formats the stack for others."""
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def _samples_of(op: Any) -> Iterator[Sample]:
    for dtype in DTYPES:
        if dtype not in op.dtypes:
            continue
        count = 2 if dtype is torch.float32 else 1
        for sample in itertools.islice(op.sample_inputs("cpu", dtype), count):
            leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
            places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
            tensors = [leaves[i].detach() for i in places]
            if not any(x.is_complex() or x.numel() > MANY_ITEMS for x in tensors):
                yield Sample(_of_tensors(op.op, leaves, places, spec), tensors)


def _joined(samples: Sequence[Sample]) -> Sample:
    """The functions of all samples as one."""

    def function(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rest = iter(given)
        parts = [(each, list(itertools.islice(rest, len(each.tensors)))) for each in samples]
        return tuple(y for each, part in parts for y in each.function(*part))

    return Sample(function, [x for each in samples for x in each.tensors])


def _of_tensors(operation: Any, leaves: list[Any], places: list[int], spec: Any) -> Function:
    """An operator with other arguments given, as a function of its tensors at `places`."""

    def function(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        filled = list(leaves)
        for i, x in zip(places, given, strict=True):
            filled[i] = x.clone()
        first, others, named = pytree.tree_unflatten(filled, spec)
        results = pytree.tree_leaves(operation(first, *others, **named))
        tensors = (x for x in results if isinstance(x, torch.Tensor))
        return tuple(torch.view_as_real(x.resolve_conj()) if x.is_complex() else x for x in tensors)

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
    if name == "argsort":
        return True
    if name in ORDERS:  # the order of equal items is not defined
        found, want = found[::2], want[::2]
    return all(
        np.allclose(y.astype(np.float64), x.double().numpy(), 1e-4, 1e-5, equal_nan=True)
        for (_, y), x in zip(found, want, strict=True)
    )


class _Comparison:
    """Compares samples, and counts what is computed."""

    def __init__(self) -> None:
        self.core = _core()
        self.table = dict(kept_table())
        self.counts: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []

    def agrees(self, name: str, samples: Sequence[Sample], *, alone: bool) -> bool:
        """Whether all samples together compute what PyTorch does; notes errors of one `alone`."""
        sample = _joined(samples)
        module = _traced(sample.function, sample.tensors, self.table)
        if module is None:
            return False
        targets = {str(n.target) for n in module.graph.nodes if n.op == "call_function"}
        targets = {each for each in targets if each.startswith("aten.")}
        kind = "core" if targets <= self.core else "other"
        try:
            found = _computed(module, sample.tensors)
        except NnefError as error:
            if alone:
                is_random = "random numbers" in str(error)
                self.counts["random" if is_random else f"{kind} refused"] += 1
                names = {*targets, "operator.getitem"}
                if not all(any(each in d.message for each in names) for d in error.errors):
                    self.wrong.append(f"{name}: {error}")
            return False
        if _agrees(name, found, sample.function(*sample.tensors)):
            self.counts[f"{kind} computed"] += len(samples)
            return True
        if alone:
            self.wrong.append(f"{name} {sample.tensors[:1]}: {sorted(targets)}")
        return False


@pytest.mark.slow
def test_samples_of_core_operators() -> None:
    comparison = _Comparison()
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging.getLogger("torch.__trace"), "handlers", [])  # of traced tensors
        for name, samples in _samples():
            if len(samples) < 2 or not comparison.agrees(name, samples, alone=False):
                for each in samples:
                    comparison.agrees(name, [each], alone=True)
    counts, wrong = comparison.counts, comparison.wrong
    assert not wrong, "\n".join(wrong)
    assert counts["core computed"] > 500, counts
    assert counts["core computed"] >= 0.97 * (counts["core computed"] + counts["core refused"])
