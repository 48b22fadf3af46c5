"""Reads code, constants and arrays from an artifact of any kind."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from nnefc.kernels.codegen import Image
from nnefc.kernels.target.isa import NATIVE, executable, host
from nnefc.kernels.target.processor import identity
from nnefc.runtime.artifact.artifact_file import COMPILE_AGAIN, ArtifactFile
from nnefc.runtime.compile import support_code
from nnefc.runtime.compile.executable_memory import ExecutableImage
from nnefc.runtime.memory.caller_arrays import TensorSpec
from nnefc.runtime.plan.plan import BaseTable, Plan
from nnefc.support.array_memory import aligned_empty
from nnefc.support.errors import Diagnostic, NnefError, Place
from nnefc.support.item_types import numpy_type
from nnefc.support.package import PACKING_VERSION

if TYPE_CHECKING:
    from nnefc.kernels.packing.inverse import PackingSpec
    from nnefc.program.packed_weight import PackedWeight
    from nnefc.program.program import IndexOperand
    from nnefc.runtime.artifact.target_info import TargetInfo
    from nnefc.runtime.artifact.weight_cache import MissingWeight
    from nnefc.runtime.plan.launch_info import LaunchInfo

Array = np.ndarray[Any, Any]
Facts = Mapping[str, Any]

OTHER_VERSION: Final = "another version of nnefc"
"""The obstacle of code that another version of nnefc compiled for this processor."""


class ArtifactReader:
    """Code, constants and arrays in a file."""

    def __init__(self, file: ArtifactFile, *, verified: bool = False) -> None:
        """`verified`: the checksum of the weights is known to be right.

        Raises NnefError `artifact/damaged` for an invalid manifest.
        """
        self.file = file
        self._verified = verified
        with self.reading():
            content = file.content
            self.name = str(content["name"])
            self.version = str(content["nnefc"])
            self.options: Facts = content["options"]
            self.accuracy = str(self.options["accuracy"])
            self.check_indices = bool(self.options.get("check_indices", True))
            self.precision = str(self.options.get("precision", "float32"))
            self.lowering_options: Facts = {
                "accuracy": self.accuracy,
                "check_indices": self.check_indices,
                "tuned": bool(self.options.get("tuned", True)),
                "precision": self.precision,
            }
            """The options that the model was lowered with, by name."""
            self.notes: Facts = {
                key: self.options[key] for key in ("openvx",) if key in self.options
            }
            """`openvx`: a description of the graph of layers that the model was compiled from."""
            self.targets: list[Facts] = content["targets"]
            self._arrays: list[Facts] = content["arrays"]

    @contextmanager
    def reading(self) -> Generator[None]:
        """Report errors in the manifest as damage."""
        try:
            yield
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise self.file.damaged(f"the manifest is not as expected: {error!r}") from error

    # -- code

    def best_target(self) -> int | None:
        """The number of the best target for this processor; None if no target runs here."""
        rows = [row.name for row in executable()]
        best_rank: tuple[int, bool, int] | None = None
        best: int | None = None
        with self.reading():
            for number, target in enumerate(self.targets):
                if _obstacle(target):
                    continue
                extensions = len(_extensions(target))
                rank = (-rows.index(target["isa"]), bool(target["cpu"]), extensions)
                if best_rank is None or rank > best_rank:
                    best_rank, best = rank, number
        return best

    def target_infos(self) -> list[TargetInfo]:
        """The targets of the file, for people."""
        from nnefc.runtime.artifact.target_info import TargetInfo

        with self.reading():
            return [
                TargetInfo(
                    isa=str(target["isa"]),
                    extensions=_extensions(target),
                    cpu=str(target["cpu"]),
                    code_bytes=sum(
                        self.head(piece).size
                        for piece in (target["code"], *(part["code"] for part in target["native"]))
                    ),
                    constant_bytes=int(target["constant_bytes"]),
                    arena_bytes=self._plan_sizes(target)[0],
                    launches=self._plan_sizes(target)[1],
                    obstacle=_obstacle(target),
                )
                for target in self.targets
            ]

    def no_target(self) -> Diagnostic:
        """Why this process can run the code of no target."""
        from nnefc.support.wording import wording

        infos = self.target_infos()
        if any(info.obstacle == OTHER_VERSION for info in infos):
            message = f"its code is of {OTHER_VERSION} ({self.version})"
            hint = "save the model again with this version"
        else:
            names = ", ".join(dict.fromkeys(info.name for info in infos)) or "none"
            lacking = dict.fromkeys(each for t in self.targets for each in _missing(t))
            here = f"{host().name} without {', '.join(lacking)}" if lacking else host().name
            message = f"there is no code for this processor ({here}), only {names}"
            option = wording("targets=", "nnefc compile --target")
            hint = f"save the model with this target too ({option})"
        return Diagnostic("artifact/target", message, Place(self.file.name), hint=hint)

    def _plan_sizes(self, target: Facts) -> tuple[int, int]:
        """Bytes of the arena, and steps, of a target."""
        return int(target["arena"][0]), self.integers(target["launch_of"]).size

    def plan(self, facts: Facts) -> Plan:
        """The plan in the facts of a target or pattern."""
        nbytes, lower_bound = facts["arena"]
        return Plan(
            launches=self.integers(facts["launches"]).reshape(-1, 4),
            launch_of=self.integers(facts["launch_of"]),
            params=self.integers(facts["params"]),
            table=BaseTable(*facts["table"]),
            arena_bytes=nbytes,
            arena_lower_bound=lower_bound,
            parallel=facts["parallel"],
        )

    def code(self, target: Facts) -> ExecutableImage:
        """The kernels of a target, in executable memory; provides the support code."""
        for module, facts in zip(support_code.SUPPORT_MODULES, target["native"], strict=True):
            support_code.preload_image(module, self._image(facts))
        return ExecutableImage(Image(self.head(target["code"]).tobytes(), {}))

    def head(self, piece: object) -> Array:
        return self.file.head(piece)

    def integers(self, piece: object) -> Array:
        return self.head(piece).view(np.int64)

    def _image(self, facts: Facts) -> Image:
        return Image(self.head(facts["code"]).tobytes(), dict(facts["symbols"]))

    def launches(self, target: Facts) -> tuple[LaunchInfo, ...]:
        from nnefc.program.program import LaunchWork
        from nnefc.runtime.plan.launch_info import LaunchInfo

        with self.reading():
            rows = json.loads(self.head(target["infos"]).tobytes())
            return tuple(
                LaunchInfo(
                    label, kernel, tiles, LaunchWork(flops, read, written), times, _indices(indices)
                )
                for label, kernel, tiles, flops, read, written, times, indices in rows
            )

    # -- constants

    def constants(self, target: Facts) -> list[Array]:
        """The constants of a target, in order."""
        with self.reading():
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
        origin, derive = self.file.weights_digest, self._verified_derivation()
        arrays = load_or_pack(origin, wanted, derive, verify=self.file.verify)
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
        from nnefc.kernels.packing.inverse import restore

        array = aligned_empty(shape, dtype)
        pieces = [(self._packed(f), self._stored(f).view(dtype)) for f in facts["packed"]]
        restore(array, pieces)
        return array

    def _packed(self, facts: Facts) -> PackingSpec:
        """A packing from the manifest; raises ValueError if its view exceeds the array."""
        from nnefc.kernels.packing.inverse import ArrayView, PackingSpec

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


def _obstacle(target: Facts) -> str:
    """Why this process cannot run the code of a target; empty: it can."""
    if target["isa"] not in [row.name for row in executable()]:
        return "other instructions"
    if target["cpu"] and not (host().cpu == NATIVE and target["cpu"] == identity()):
        return "another processor"
    if missing := _missing(target):
        return f"it lacks {', '.join(missing)}"
    return "" if target["interface"] == support_code.abi_digest() else OTHER_VERSION


def _extensions(target: Facts) -> tuple[str, ...]:
    """The optional extensions that the code of a target needs."""
    return tuple(map(str, target.get("extensions", ())))


def _missing(target: Facts) -> list[str]:
    """The extensions of a target that this process lacks, if it executes the row."""
    extensions = _extensions(target)
    if not extensions or target["isa"] not in [row.name for row in executable()]:
        return []
    from nnefc.kernels.target.target_name import missing_extensions

    return missing_extensions(str(target["isa"]), extensions)


def _indices(row: Sequence[Any] | None) -> IndexOperand | None:
    """The indices that a launch checks, as `write` stores them."""
    from nnefc.program.program import IndexOperand
    from nnefc.support.errors import Place

    if row is None:
        return None
    name, place = row
    return IndexOperand(name, None if place is None else Place(*place))


def tensor_of(facts: Facts) -> TensorSpec:
    return TensorSpec(str(facts["name"]), tuple(facts["shape"]), numpy_type(str(facts["dtype"])))


def _tuples(value: object) -> Any:
    """Lists from JSON, recursively converted to tuples."""
    return tuple(map(_tuples, cast(list[object], value))) if isinstance(value, list) else value
