"""Reads compiled programs, weights and the graph from an artifact."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from nnefc.kernels.codegen import Image
from nnefc.kernels.target.isa import NATIVE, executable, host
from nnefc.kernels.target.processor import identity
from nnefc.runtime.artifact.file import COMPILE_AGAIN, ArtifactFile
from nnefc.runtime.compile import support_code
from nnefc.runtime.compile.compiled import CompiledProgram
from nnefc.runtime.compile.executable_memory import ExecutableImage
from nnefc.runtime.memory.tensors import TensorSpec
from nnefc.runtime.plan.plan import BaseTable, Plan
from nnefc.support.array_memory import aligned_empty
from nnefc.support.errors import NnefError, Place
from nnefc.support.fork_safe import Lazy
from nnefc.support.item_types import numpy_type
from nnefc.support.package import PACKING_VERSION

if TYPE_CHECKING:
    from nnefc.ir import Graph, Variable
    from nnefc.packing.inverse import PackingSpec
    from nnefc.program.packed_weight import PackedWeight
    from nnefc.runtime.artifact.target_info import TargetInfo
    from nnefc.runtime.artifact.weight_cache import MissingWeight
    from nnefc.runtime.plan.launch_info import LaunchInfo

Array = np.ndarray[Any, Any]
Facts = Mapping[str, Any]

OTHER_VERSION: Final = "another version of nnefc"
"""The obstacle of code that another version of nnefc compiled for this processor."""


class Artifact:
    """A model in a file."""

    def __init__(self, file: ArtifactFile, *, verified: bool = False) -> None:
        """`verified`: the checksum of the weights is known to be right.

        Raises NnefError `artifact/damaged` for an invalid manifest.
        """
        self.file = file
        self._verified = verified
        self._whole_graph: Lazy[Graph] = Lazy()
        with self._reading():
            content = file.content
            self.name = str(content["name"])
            self.version = str(content["nnefc"])
            self.inputs = tuple(map(_tensor, content["inputs"]))
            self.outputs = tuple(map(_tensor, content["outputs"]))
            self.options: Facts = content["options"]
            self.accuracy = str(self.options["accuracy"])
            self.targets: list[Facts] = content["targets"]
            self._arrays: list[Facts] = content["arrays"]
            self.states: list[Facts] = content["states"]

    @contextmanager
    def _reading(self) -> Generator[None]:
        """Report errors in the manifest as damage."""
        try:
            yield
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise self.file.damaged(f"the manifest is not as expected: {error!r}") from error

    # -- the model

    def best_target(self) -> int | None:
        """The number of the best target for this processor; None if no target runs here."""
        rows = [row.name for row in executable()]
        best_rank: tuple[int, bool] | None = None
        best: int | None = None
        with self._reading():
            for number, target in enumerate(self.targets):
                if _obstacle(target):
                    continue
                rank = (-rows.index(target["isa"]), bool(target["cpu"]))
                if best_rank is None or rank > best_rank:
                    best_rank, best = rank, number
        return best

    def target_infos(self) -> list[TargetInfo]:
        """The targets of the file, for people."""
        from nnefc.runtime.artifact.target_info import TargetInfo

        with self._reading():
            return [
                TargetInfo(
                    isa=str(target["isa"]),
                    cpu=str(target["cpu"]),
                    code_bytes=sum(
                        self._head(piece).size
                        for piece in (target["code"], *(part["code"] for part in target["native"]))
                    ),
                    constant_bytes=int(target["constant_bytes"]),
                    arena_bytes=int(target["arena"][0]),
                    launches=self._integers(target["launch_of"]).size,
                    obstacle=_obstacle(target),
                )
                for target in self.targets
            ]

    def compiled(self, number: int) -> CompiledProgram:
        """The compiled program of a target, in executable memory."""
        with self._reading():
            target = self.targets[number]
            for module, facts in zip(support_code.SUPPORT_MODULES, target["native"], strict=True):
                support_code.provide(module, self._image(facts))
            nbytes, lower_bound = target["arena"]
            return CompiledProgram(
                name=self.name,
                inputs=self.inputs,
                outputs=self.outputs,
                variables=self.variables(),
                states=tuple(target["states"]),
                code=ExecutableImage(Image(self._head(target["code"]).tobytes(), {})),
                plan=Plan(
                    launches=self._integers(target["launches"]).reshape(-1, 4),
                    launch_of=self._integers(target["launch_of"]),
                    params=self._integers(target["params"]),
                    table=BaseTable(*target["table"]),
                    arena_bytes=nbytes,
                    arena_lower_bound=lower_bound,
                    parallel=target["parallel"],
                ),
                work=target["work"],
                launches=partial(self._launches, target),
                constants=partial(self._constants, target),
                constant_bytes=target["constant_bytes"],
            )

    def _head(self, piece: object) -> Array:
        return self.file.head(piece)

    def _integers(self, piece: object) -> Array:
        return self._head(piece).view(np.int64)

    def _image(self, facts: Facts) -> Image:
        return Image(self._head(facts["code"]).tobytes(), dict(facts["symbols"]))

    def _launches(self, target: Facts) -> tuple[LaunchInfo, ...]:
        from nnefc.program.program import LaunchWork
        from nnefc.runtime.plan.launch_info import LaunchInfo

        with self._reading():
            rows = json.loads(self._head(target["infos"]).tobytes())
            return tuple(
                LaunchInfo(label, kernel, tiles, LaunchWork(flops, read, written), times)
                for label, kernel, tiles, flops, read, written, times in rows
            )

    # -- constants

    def _constants(self, target: Facts) -> list[Array]:
        """The constants of a target, in order."""
        with self._reading():
            facts: list[Facts] = target["constants"]
            missing = [i for i, each in enumerate(facts) if not self._is_stored(each)]
            packed = self._pack(facts, missing) if missing else {}
            return [packed[i] if i in packed else self._stored(f) for i, f in enumerate(facts)]

    def _pack(self, facts: list[Facts], missing: list[int]) -> dict[int, Array]:
        """The constants that are not stored, packed or from the cache, by number."""
        from nnefc.runtime.artifact.weight_cache import MissingWeight, load_or_pack

        wanted: list[MissingWeight] = []
        for i in missing:
            number: int = facts[i]["array"]
            array = self._arrays[number]
            description = json.dumps(array, sort_keys=True)
            packed = self._packed(facts[i])
            dtype = numpy_type(packed.dtype or str(array["dtype"]))
            wanted.append(MissingWeight(number, description, dtype, packed))
        arrays = load_or_pack(self.file.weights_digest, wanted, self._verified_derivation())
        return dict(zip(missing, arrays, strict=True))

    def _is_stored(self, facts: Facts) -> bool:
        return "weights" in facts or "head" in facts

    def _stored(self, facts: Facts) -> Array:
        """The bytes of an array or constant."""
        if "weights" in facts:
            return self.file.weights(facts["weights"])
        return self.file.head(facts["head"])

    def _verified_derivation(self) -> Callable[[MissingWeight], PackedWeight]:
        """`_derived` after verifying the weights, because other processes use cached results."""

        def derive(wanted: MissingWeight) -> PackedWeight:
            if not self._verified:
                self.file.verify_weights()
                self._verified = True
            return self._derived(wanted)

        return derive

    def _derived(self, wanted: MissingWeight) -> PackedWeight:
        from nnefc.program.packed_weight import PackedWeight

        packed, array = wanted.packed, self.array(wanted.array)
        return PackedWeight(packed.view.of(array), packed.packing, packed.parameters, wanted.dtype)

    @property
    def arrays(self) -> list[Array]:
        """The arrays of the graph; arrays stored unpacked share memory with the graph."""
        return [self.array(i) for i in range(len(self._arrays))]

    def array(self, number: int) -> Array:
        """An array of the graph, restored from its packings if it is stored so."""
        facts = self._arrays[number]
        dtype, shape = numpy_type(str(facts["dtype"])), tuple(facts["shape"])
        if self._is_stored(facts):
            return self._stored(facts).view(dtype).reshape(shape)
        if self.file.content.get("packing") != PACKING_VERSION:
            raise NnefError.of(
                "artifact/format",
                f"nnefc {self.version} packed the weights in another format than this version",
                Place(self.file.name),
                COMPILE_AGAIN,
            )
        from nnefc.packing.inverse import restore

        array = aligned_empty(shape, dtype)
        pieces = [(self._packed(f), self._stored(f).view(dtype)) for f in facts["packed"]]
        restore(array, pieces)
        return array

    def _packed(self, facts: Facts) -> PackingSpec:
        """A packing from the manifest; raises ValueError if its view exceeds the array."""
        from nnefc.packing.inverse import ArrayView, PackingSpec

        offset, shape, strides = facts["view"]
        view = ArrayView(offset, tuple(shape), tuple(strides))
        numbers = (offset, *shape, *strides)
        whole = all(isinstance(n, int) and n >= 0 for n in numbers) and min(shape) > 0
        extents = cast(list[int], self._arrays[facts["array"]]["shape"])
        size = math.prod(extents)
        if not whole or len(shape) != len(strides) or view.last >= size:
            raise ValueError(f"{view} is outside an array of {size} items")
        dtype = str(facts.get("dtype", ""))
        return PackingSpec(view, str(facts["packing"]), _tuples(facts["parameters"]), dtype)

    # -- variables, graph

    def variables(self) -> dict[str, Variable]:
        """The variables that the graph updates, by label in lower case, with initial values."""
        if not self.states:
            return {}
        from nnefc.ir import DType, TensorType, Variable

        with self._reading():
            return {
                str(facts["label"]).lower(): Variable(
                    str(facts["label"]),
                    TensorType(DType(facts["dtype"]), tuple(facts["shape"])),
                    self._value(facts, "initial"),
                )
                for facts in self.states
            }

    def current_values(self) -> dict[str, Array]:
        """The saved current values of the variables that the graph updates, by label."""
        with self._reading():
            return {str(facts["label"]): self._value(facts, "now") for facts in self.states}

    def with_states(self, values: Mapping[str, Array]) -> Iterator[bytes | memoryview]:
        """The bytes of a file with new current values, by label, and no option but `accuracy`."""
        from nnefc.runtime.artifact.writer import with_changes

        with self._reading():
            pieces = {
                tuple(facts["now"]): np.ascontiguousarray(values[facts["label"]]).tobytes()
                for facts in self.states
            }
            content = {**self.file.content, "options": {"accuracy": self.accuracy}}
            yield from with_changes(self.file, pieces, content)

    def _value(self, facts: Facts, which: str) -> Array:
        items = self._head(facts[which])
        return items.view(numpy_type(str(facts["dtype"]))).reshape(tuple(facts["shape"]))

    @property
    def graph(self) -> Graph:
        """The graph before it was lowered for a processor."""
        return self._whole_graph.get(partial(self._graph, self.array))

    @property
    def structure(self) -> Graph:
        """The graph with zeros in place of the weights, which are not read."""
        return self._graph(self._zeros)

    def _graph(self, array: Callable[[int], Array]) -> Graph:
        """The graph; `array` returns an array by number."""
        from nnefc.ir import parse_graph

        with self._reading():
            text = self._head(self.file.content["ir"]).tobytes().decode()
            arrays = {str(facts["name"]): i for i, facts in enumerate(self._arrays)}
            large = _ArraysByDigest(
                array, {n[1:]: i for n, i in arrays.items() if n.startswith("@")}
            )
            graph = parse_graph(text, f"{self.file.name}: graph", data=large)
            for key, variable in self.variables().items():
                graph.variables[key].data = variable.data
            for name, number in arrays.items():
                if not name.startswith("@"):
                    graph.variables[name[1:].lower()].data = array(number)
            return graph

    def _zeros(self, number: int) -> Array:
        """Zeros of the type and shape of an array, broadcast from one item."""
        facts = self._arrays[number]
        return np.broadcast_to(np.zeros((), numpy_type(str(facts["dtype"]))), tuple(facts["shape"]))


def _obstacle(target: Facts) -> str:
    """Why this process cannot run the code of a target; empty: it can."""
    if target["isa"] not in [row.name for row in executable()]:
        return "other instructions"
    if target["cpu"] and not (host().cpu == NATIVE and target["cpu"] == identity()):
        return "another processor"
    return "" if target["interface"] == support_code.abi_digest() else OTHER_VERSION


class _ArraysByDigest(Mapping[str, Array]):
    """Arrays by digest, read on access."""

    def __init__(self, array: Callable[[int], Array], numbers: dict[str, int]) -> None:
        self._array = array
        self._numbers = numbers

    def __getitem__(self, digest: str) -> Array:
        return self._array(self._numbers[digest])

    def __iter__(self) -> Any:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def _tensor(facts: Facts) -> TensorSpec:
    return TensorSpec(str(facts["name"]), tuple(facts["shape"]), numpy_type(str(facts["dtype"])))


def _tuples(value: object) -> Any:
    """Lists from JSON, recursively converted to tuples."""
    return tuple(map(_tuples, cast(list[object], value))) if isinstance(value, list) else value
