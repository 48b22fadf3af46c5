"""`Model`: the interface of `CompiledModel` and `nnefc.dynamic.dynamic_model.DynamicModel`.

Other attributes of one of the classes are a `RefusedAttribute` of the other.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from nnefc.support.errors import NnefError

if TYPE_CHECKING:
    from nnefc.formats.files import FilePath
    from nnefc.ir import Graph
    from nnefc.runtime.memory.caller_arrays import TensorSpec
    from nnefc.runtime.memory.variables import Variables
    from nnefc.runtime.plan.launch_info import LaunchInfo
    from nnefc.runtime.plan.plan import Plan
    from nnefc.runtime.run.profile import Profile
    from nnefc.support.progress import Progress


class NoSuchAttribute(NnefError, AttributeError):
    """The error of an attribute that only another class of models has; `hasattr` is False."""


class _Refusing(Protocol):
    def refusal(self, what: str) -> NnefError: ...


class RefusedAttribute:
    """An attribute that a class lacks; reading it raises NoSuchAttribute with the `refusal`."""

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, model: _Refusing | None, _: type) -> Any:
        if model is None:
            return self
        raise NoSuchAttribute(model.refusal(self._name).errors)


def refused_names(cls: type) -> set[str]:
    """The names of the attributes that a class of models lacks."""
    return {
        name
        for base in cls.__mro__
        for name, value in vars(base).items()
        if isinstance(value, RefusedAttribute)
    }


def public_names(names: Iterable[str], internal: Collection[str]) -> list[str]:
    """The names that neither begin with an underscore nor are `internal`, sorted."""
    return sorted(name for name in names if name[0] != "_" and name not in internal)


class Model:
    """A network that is ready to run.

    A `CompiledModel` has one plan, for known shapes.  A `DynamicModel` has a plan for each
    combination of shapes.  Its facts about one plan raise an NnefError that refers to `for_shapes`,
    which returns a model for known shapes, and a `CompiledModel` raises one for what only a
    `DynamicModel` has.  These errors are AttributeErrors too, so that `hasattr` is False.
    """

    inputs: tuple[TensorSpec, ...]
    """Names, shapes and types of the arguments, in order; -1 for a symbolic extent."""

    _internal: ClassVar[frozenset[str]] = frozenset()
    """Members for other modules of this package, which `dir` leaves out."""

    def __dir__(self) -> list[str]:
        """The public names."""
        return public_names(super().__dir__(), self._internal | refused_names(type(self)))

    @abstractmethod
    def __call__(self, /, *arrays: Any, out: Any = None, **named: Any) -> Any:
        """Run the model on arrays in the order of `inputs`, or by name.

        Returns the result, or a tuple of several; `out` receives them if given.  Raises NnefError
        `input/...` with all errors in the arguments.
        """

    @abstractmethod
    def run(
        self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Run the model on arrays by name; returns the results by name."""

    @abstractmethod
    def profile(self, /, *arrays: Any, seconds: float = 1.0, **named: Any) -> Profile:
        """Run the model repeatedly for about `seconds` and record when each launch runs."""

    @abstractmethod
    def save(
        self,
        path: FilePath,
        *,
        targets: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Write the model as an artifact, which `nnefc.load` opens."""

    @abstractmethod
    def emit_c(
        self,
        folder: FilePath,
        *,
        name: str | None = None,
        target: str = "native",
        progress: Progress | None = None,
    ) -> list[str]:
        """Write the model for programs in C; returns the names of the files."""

    @abstractmethod
    def emit_openvx(
        self,
        folder: FilePath,
        *,
        name: str | None = None,
        target: str = "native",
        fixed_point_position: int = 0,
        progress: Progress | None = None,
    ) -> list[str]:
        """Write the model as a kernel of OpenVX; returns the names of the files."""

    @abstractmethod
    def reset(self) -> None:
        """Restore the initial values of the variables or states that calls update."""

    # -- facts about one plan

    outputs: tuple[TensorSpec, ...]
    """Names, shapes and types of the results, in order."""
    plan: Plan
    """The launches and their operands."""

    @property
    @abstractmethod
    def graph(self) -> Graph:
        """The graph that the model computes."""

    @property
    @abstractmethod
    def variables(self) -> Variables:
        """Values of the variables by label."""

    @property
    @abstractmethod
    def launches(self) -> tuple[LaunchInfo, ...]:
        """The launches of the plan, in order."""

    @property
    @abstractmethod
    def threads(self) -> int:
        """The number of threads that a call may use, the calling one included."""

    @property
    @abstractmethod
    def arena_bytes(self) -> int:
        """Bytes that a call needs for values between launches."""

    @property
    @abstractmethod
    def constant_bytes(self) -> int:
        """Bytes of packed weights and tables."""
