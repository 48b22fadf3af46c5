"""The weights of a graph of Dynamo: constants of its models as long as they stay the same.

Modules with one code object have one graph, which takes the weights of each as inputs.  A module
may also get other tensors (`m.weight = p`, `p.data = x`), or change the items of those it has.
"""

from __future__ import annotations

import operator
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from nnefc.pytorch.memory.weight_samples import WeightSamples
from nnefc.pytorch.read_fx import array_of

if TYPE_CHECKING:
    import torch

_MAX_CHANGES: Final = 3
"""Changes after which a weight is an input of the models."""
_MAX_SETS: Final = 64
"""Modules whose weights are constants at a time, and new ones in a row."""
_MAX_COMPARED: Final = 1 << 16
"""Items of a tensor without a version that calls compare."""

_Tensors = tuple[Any, ...]
_VERSION: Final = operator.attrgetter("_version")


class WeightSet:
    """The weights of a module, as they were when its graph was compiled."""

    def __init__(self, positions: Sequence[int], args: Sequence[Any]) -> None:
        """`positions`: of the weights among the arguments of a call."""
        self.compiled: Any = None
        """What the user of the set made of `constants`; None after a change."""
        self._changes: Counter[int] = Counter()
        self._remember(positions, args)

    def _remember(self, positions: Sequence[int], args: Sequence[Any]) -> None:
        """Take the weights of a call as constants."""
        self._positions = [i for i in positions if _can_be_watched(args[i])]
        self._take = _getter(self._positions)
        given = self._take(args)
        self.constants: dict[int, torch.Tensor] = {
            i: x.detach() for i, x in zip(self._positions, given, strict=True)
        }
        """By position.  They keep the memory of weights, so that no others have its addresses."""
        self._buffers = [x for x in given if not _is_parameter(x)]
        """They live as long as the set, so that no others have their ids."""
        have_versions = not any(x.is_inference() for x in given)
        self._version_of = _VERSION if have_versions else _version_or_items
        self._samples = WeightSamples(given)
        self._marks = self._marks_of(given)

    def _marks_of(self, given: _Tensors) -> tuple[_Tensors, ...]:
        """What tells weights and their items from others, a tuple for each kind of mark."""
        ids, addresses = self._ids(given), self._addresses(given)
        return ids, addresses, self._versions(given), self._samples.read()

    def is_same(self, args: Sequence[Any]) -> bool:
        """Whether the weights of a call are the constants."""
        given = self._take(args)
        ids, addresses, versions, samples = self._marks
        return (
            ids == self._ids(given)
            and addresses == self._addresses(given)
            and versions == self._versions(given)
            and samples == self._samples.read()
        )

    def _ids(self, given: _Tensors) -> _Tensors:
        return tuple(map(id, given))

    def _addresses(self, given: _Tensors) -> _Tensors:
        return tuple([x.data_ptr() for x in given])

    def _versions(self, given: _Tensors) -> _Tensors:
        return tuple(map(self._version_of, given))

    def change(self, args: Sequence[Any]) -> None:
        """Take the weights of a call; those that change often are no constants any more."""
        given = self._take(args)
        now = self._marks_of(given)
        pairs = zip(zip(*self._marks, strict=True), zip(*now, strict=True), strict=True)
        differ = [before != after for before, after in pairs]
        self._changes.update(i for i, x in zip(self._positions, differ, strict=True) if x)
        seldom = [i for i in self._positions if self._changes[i] < _MAX_CHANGES]
        self.compiled = None
        self._remember(seldom, args)


class WeightSets:
    """The weights of the modules that share a graph, by the parameters of each.

    A set is forgotten with its parameters.  There is a limit for modules that all live, or that get
    new parameters in every call: further ones have weights that are inputs.
    """

    def __init__(self, positions: Sequence[int]) -> None:
        """`positions`: of the weights among the arguments of a call."""
        self._positions = positions
        self._sets: dict[tuple[int, ...], WeightSet] = {}
        self._references: dict[tuple[int, ...], list[weakref.ref[Any]]] = {}
        self._inputs_only = WeightSet((), ())
        self._present = self._inputs_only
        self._new_in_a_row = 0

    def of(self, args: Sequence[Any]) -> WeightSet:
        """The weights of a call."""
        present = self._present
        if present is self._inputs_only or not present.is_same(args):
            self._present = present = self._chosen(args)
        else:
            self._new_in_a_row = 0
        return present

    def _chosen(self, args: Sequence[Any]) -> WeightSet:
        """The set with the parameters of a call; a new one if there is none."""
        parameters = [args[i] for i in self._positions if _is_parameter(args[i])]
        key = tuple(map(id, parameters))
        known = self._sets.get(key)
        if known is not None:
            self._new_in_a_row = 0
            if not known.is_same(args):
                known.change(args)
            return known
        if max(len(self._sets), self._new_in_a_row) >= _MAX_SETS:
            return self._inputs_only
        self._new_in_a_row += 1
        self._sets[key] = made = WeightSet(self._positions, args)
        forget = partial(self._forget, key)
        self._references[key] = [weakref.ref(x, forget) for x in parameters]
        return made

    def _forget(self, key: tuple[int, ...], _: object) -> None:
        """Forget the set of parameters that do not exist any more."""
        self._references.pop(key, None)
        if self._sets.pop(key, None) is self._present:
            self._present = self._inputs_only

    def discard_compiled(self) -> None:
        """Discard what has been compiled for all sets."""
        for each in (self._inputs_only, *self._sets.values()):
            each.compiled = None


def _getter(positions: Sequence[int]) -> Callable[[Sequence[Any]], _Tensors]:
    """A function that returns the items at some positions."""
    if len(positions) > 1:
        return operator.itemgetter(*positions)
    return lambda args: tuple([args[i] for i in positions])


def _is_parameter(x: Any) -> bool:
    import torch

    return isinstance(x, torch.nn.Parameter)


def _can_be_watched(x: torch.Tensor) -> bool:
    """Whether calls notice changes of a tensor's items, or that of a parameter can be ruled out."""
    return not x.is_inference() or _is_parameter(x) or x.numel() <= _MAX_COMPARED


def _version_or_items(x: torch.Tensor) -> int | bytes:
    """What tells whether the items of a tensor have changed.

    Tensors of inference mode have no versions; parameters among them count as constant.
    """
    if not x.is_inference():
        return x._version
    return 0 if _is_parameter(x) else array_of(x).tobytes()
