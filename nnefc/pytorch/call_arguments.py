"""The arguments of a compiled module's calls: trees of tensors and constants, as in the example."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from nnefc.pytorch.results import argument_of
from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_POSITIONAL: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)
_HINT: Final = "compile the module with example arguments of this form"


class Leaf(NamedTuple):
    """A tensor, a number or another value among the arguments."""

    name: str
    """`x`, `pair[0]`, `cache['keys']`."""
    label: str | None
    """The name of the model's input; None for a constant."""
    constant: Any
    """The value in the example, if it is a constant."""


class CallArguments:
    """Flattens the arguments of calls, which have the form of the example."""

    def __init__(
        self, program: ExportedProgram, labels: set[str], signature: inspect.Signature
    ) -> None:
        """`labels`: of the model's inputs; `signature`: of the module's `forward`."""
        spec: Any = program.call_spec.in_spec
        self._spec = spec
        positional, keyword = spec.children()
        self._count = len(positional.children())
        self._keywords: list[str] = list(keyword.context)
        parameters = signature.parameters.values()
        self._parameters = [x.name for x in parameters if x.kind in _POSITIONAL]
        self._rest = "".join(x.name for x in parameters if x.kind is x.VAR_POSITIONAL)
        given = [x for x in program.graph_signature.input_specs if x.kind.name == "USER_INPUT"]
        self.leaves = [
            Leaf(name, arg.name, None)
            if arg.name in labels
            else Leaf(name, None, getattr(arg, "value", None))
            for name, arg in zip(self._names(), (each.arg for each in given), strict=True)
        ]
        """In the order of the flat arguments."""
        self._inputs = [(i, x.label) for i, x in enumerate(self.leaves) if x.label is not None]
        named = {each.arg.name for each in given if not hasattr(each.arg, "value")}
        self._constants = [
            (i, leaf.constant)
            for i, leaf in enumerate(self.leaves)
            if leaf.label is None and given[i].arg.name not in named
        ]

    def _names(self) -> Iterator[str]:
        """The names of the leaves."""
        positional, keyword = self._spec.children()
        names = [*self._positional_names(self._count), *self._keywords]
        children = [*positional.children(), *keyword.children()]
        for name, child in zip(names, children, strict=True):
            yield from leaf_names(child, name)

    def _positional_names(self, count: int) -> list[str]:
        """The names of the first positional arguments: `x`, `args[0]`."""
        further = range(count - len(self._parameters))
        return [*self._parameters[:count], *(f"{self._rest}[{i}]" for i in further)]

    def flattened(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of arguments; raises NnefError `input/argument`.

        Constants have to be those of the example.
        """
        from torch.utils import _pytree as pytree

        flat, spec = pytree.tree_flatten((args, kwargs))
        if spec != self._spec:
            flat = self._arranged(args, kwargs)
        for i, constant in self._constants:
            if not _is_same(flat[i], constant):
                raise self._other_constant(i, flat[i])
        return flat

    def inputs(self, flat: Sequence[Any]) -> dict[str, Any]:
        """The inputs of the model, by name."""
        return {label: argument_of(flat[i]) for i, label in self._inputs}

    def require_own_memory(self, flat: Sequence[Any], changed: Sequence[int]) -> None:
        """Raise NnefError for tensors in the memory of others that the module changes.

        `changed`: the positions of these.
        """
        import torch

        owners: dict[int, int] = {i: flat[i].untyped_storage().data_ptr() for i in changed}
        first = {memory: i for i, memory in owners.items()}
        for i, x in enumerate(flat):
            if not isinstance(x, torch.Tensor):
                continue
            other = first.get(x.untyped_storage().data_ptr(), i)
            if other != i and np.shares_memory(argument_of(x), argument_of(flat[other])):
                names = f"'{self.leaves[other].name}' and '{self.leaves[i].name}'"
                message = f"arguments {names} share memory, and the module changes the first"
                raise NnefError.of("input/argument", message, hint="pass a copy: x.clone()")

    def _other_constant(self, index: int, given: Any) -> NnefError:
        name, _, constant = self.leaves[index]
        message = f"argument '{name}' is {_short(given)}, but {_short(constant)} in the example"
        hint = f"compile the module for {name} = {_short(given)}"
        if type(constant) is int and type(given) is int:
            hint += ", or with torch.export.Dim.DYNAMIC for it in dynamic_shapes"
        reason = "values that are no tensors are constants of the compiled module"
        return NnefError.of("input/argument", f"{message}: {reason}", hint=hint)

    def _arranged(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of arguments of which others are positional than in the example."""
        from torch.utils import _pytree as pytree

        wanted = [*self._positional_names(self._count), *self._keywords]
        names = self._positional_names(len(args))
        if len(args) > len(self._parameters) and not self._rest:
            listed = ", ".join(self._parameters) or "none"
            message = f"{len(args)} arguments are given by position, but forward takes {listed}"
            raise NnefError.of("input/argument", message)
        if twice := [name for name in names if name in kwargs]:
            raise NnefError.of("input/argument", f"argument '{twice[0]}' is given twice")
        named = {**dict(zip(names, args, strict=True)), **kwargs}
        listed = ", ".join(wanted) or "none"
        if other := [name for name in named if name not in wanted]:
            message = f"argument '{other[0]}' is given, but the example had {listed}"
            raise NnefError.of("input/argument", message, hint=_HINT)
        if missing := [name for name in wanted if name not in named]:
            message = f"argument '{missing[0]}' is missing: the example had {listed}"
            raise NnefError.of("input/argument", message)
        positional, keyword = self._spec.children()
        children = [*positional.children(), *keyword.children()]
        flat: list[Any] = []
        for name, child in zip(wanted, children, strict=True):
            leaves, spec = pytree.tree_flatten(_in_order(named[name], child))
            if spec != child:
                message = f"argument '{name}' is {_outline(spec)}, but {_outline(child)} in the"
                raise NnefError.of("input/argument", f"{message} example", hint=_HINT)
            flat += leaves
        return flat


def leaf_names(spec: Any, name: str) -> Iterator[str]:
    """The names of the leaves of an argument."""
    if spec.is_leaf():
        yield name
        return
    children = spec.children()
    keys = spec.context if spec.type is dict else range(len(children))
    for key, child in zip(keys, children, strict=True):
        yield from leaf_names(child, f"{name}[{key!r}]")


def _in_order(value: Any, spec: Any) -> Any:
    """A value whose dictionaries have the order of those of the example."""
    kind: Any = value.__class__
    children = spec.children()
    if kind is not spec.type or len(value) != len(children):
        return value
    if kind is dict and value.keys() == {*spec.context}:
        pairs = zip(spec.context, children, strict=True)
        return {key: _in_order(value[key], child) for key, child in pairs}
    if kind is list or kind is tuple:
        items = [_in_order(x, child) for x, child in zip(value, children, strict=True)]
        return items if kind is list else tuple(items)
    return value


def _is_same(given: Any, constant: Any) -> bool:
    """Whether a value is that of the example; NaN is NaN."""
    if type(given) is not type(constant):
        return False
    return given == constant or (
        isinstance(given, float) and given != given and constant != constant
    )


def _short(value: Any) -> str:
    """A value in a message."""
    is_plain = value is None or isinstance(value, bool | int | float | str)
    return repr(value)[:40] if is_plain else f"of type {type(value).__name__}"


def _outline(spec: Any) -> str:
    """The form of an argument in a message."""
    if spec.is_leaf():
        return "a single value"
    count = len(spec.children())
    if spec.type is dict:
        return f"a dictionary of {', '.join(map(repr, spec.context)) or 'nothing'}"
    return f"a {spec.type.__name__} of {count}"
