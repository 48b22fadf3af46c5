"""Kernels and kernel families: native functions, generic in shape, specialised by arguments.

A kernel is compiled from a Python function `kernel(bases, params, first, last)` of four 64-bit
integers: the address of the base table, the address of the launch's parameters, and the range of
tiles to compute.  It reads raw memory and never calls Python.  Shapes are parameters: 64-bit words,
see `nnefc.kernels.parameters`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Generic, NamedTuple, ParamSpec

from nnefc.support.digests import blake2b
from nnefc.support.registration import is_taken

KernelFunction = Callable[[int, int, int, int], None]
P = ParamSpec("P")

_PACKAGE: Final = "nnefc.kernels."
_families: dict[str, Family[...]] = {}


class Kernel(NamedTuple):
    """One member of a family, created by calling the `Family`; equal kernels are compiled once.

    It holds the name of its family, so that it can be hashed, pickled and compared without
    importing the family's module.
    """

    family: str
    arguments: tuple[Hashable, ...] = ()
    exact: bool = False
    """Whether multiply-adds of float32 round once, also where no instruction does."""

    @property
    def variant(self) -> str:
        """Text that tells the kernels of a family apart."""
        return f"{self.arguments!r}{' exact' if self.exact else ''}"

    @property
    def symbol(self) -> str:
        """A C identifier for this kernel: its family and a digest of its arguments."""
        digest = blake2b(self.variant.encode(), digest_size=8).hexdigest()
        return f"nnefc_{self.family.replace('.', '_')}_{digest}"

    def function(self) -> KernelFunction:
        """The Python function to compile."""
        return _family_of(self).make(*self.arguments)

    @property
    def moves(self) -> bool:
        """Whether the kernel only moves items; see `family`."""
        return _family_of(self).moves

    def relatives(self) -> list[Kernel]:
        """Kernels that may be compiled along with this one; see `family`."""
        return self._others(_family_of(self).relatives)

    def substitutes(self) -> list[Kernel]:
        """Kernels that may run in place of this one; see `family`."""
        return self._others(_family_of(self).substitutes)

    def _others(self, named: NamedKernels | None) -> list[Kernel]:
        others = (
            () if named is None else (k._replace(exact=self.exact) for k in named(*self.arguments))
        )
        return [kernel for kernel in others if kernel != self]


NamedKernels = Callable[..., Iterable[Kernel]]
"""Returns kernels for the arguments of another one."""


class Family(Generic[P]):
    """A family of kernels; calling it with the arguments of its maker returns a `Kernel`.

    The name is the maker's `package.module.function` relative to `nnefc.kernels`, without a
    trailing underscore.
    """

    def __init__(
        self,
        make: Callable[P, KernelFunction],
        relatives: NamedKernels | None,
        substitutes: NamedKernels | None,
        moves: bool,
    ) -> None:
        self.name: Final = f"{make.__module__.removeprefix(_PACKAGE)}.{make.__name__.rstrip('_')}"
        self.make: Final = make
        self.relatives = relatives
        self.substitutes = substitutes
        self.moves: Final = moves
        self.__doc__ = make.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Kernel:
        """The member for these arguments, with defaults and keywords in positional order.

        Raises TypeError if they do not fit the maker.
        """
        return Kernel(self.name, _in_order(self.make, args, kwargs))

    def __repr__(self) -> str:
        return f"<family {self.name}>"


def family(
    relatives: NamedKernels | None = None,
    *,
    substitutes: NamedKernels | None = None,
    moves: bool = False,
) -> Callable[[Callable[P, KernelFunction]], Family[P]]:
    """Decorator `@family()`: turns a maker of kernel functions into a registered `Family`.

    `relatives(*arguments)`: kernels that other networks are likely to need; worker processes may
    compile them along with this one.
    `substitutes(*arguments)`: kernels that take the same parameters and compute the same, by the
    same instructions, as well as other cases.  Wheels ship the first instead of this one.
    `moves`: the kernels only move items, to prepare operands or arrange results.
    """

    def register(make: Callable[P, KernelFunction]) -> Family[P]:
        made = Family(make, relatives, substitutes, moves)
        before = _families.get(made.name)
        if before is not None and is_taken(before.make, make):
            raise ValueError(f"kernel family {made.name!r} is registered already")
        _families[made.name] = made
        return made

    return register


def _in_order(
    make: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Hashable, ...]:
    """All arguments of a call of `make`, in positional order.

    `inspect.signature` takes longer to import than all kernel modules, so it is not used.
    """
    code = make.__code__
    names = code.co_varnames[: code.co_argcount]
    given = dict(zip(reversed(names), reversed(make.__defaults__ or ())))
    given |= dict(zip(names, args))
    given |= kwargs
    if len(args) + len(kwargs) > len(names) or given.keys() != set(names):
        raise TypeError(f"{make.__name__} takes ({', '.join(names)}), not {args} and {kwargs}")
    return tuple(given[name] for name in names)


def _family_of(kernel: Kernel) -> Family[...]:
    """The family of a kernel; imports its module, which registers it, if necessary."""
    found = _families.get(kernel.family)
    # an interrupted import may have registered some families of the module
    if found is None or found.make.__module__ not in sys.modules:
        importlib.import_module(_PACKAGE + kernel.family.rpartition(".")[0])
        found = _families[kernel.family]
    return found
