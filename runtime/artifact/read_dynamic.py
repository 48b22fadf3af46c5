"""Reads dynamic models from artifacts: patterns, and the document with its tensors."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from nnefc.runtime.artifact.artifact_file import ArtifactFile
from nnefc.runtime.artifact.read_common import ArtifactReader, Facts, tensor_of
from nnefc.runtime.compile.compiled_program import CompiledProgram, SessionLayout
from nnefc.runtime.plan.launch_table import LaunchTable, Repetition
from nnefc.runtime.plan.plan_conditions import PlanConditions, ShapeKey
from nnefc.runtime.plan.plan_template import PlanTemplate, Sections
from nnefc.support.fork_safe import Lazy
from nnefc.support.item_types import numpy_type
from nnefc.symbolic import straight_line
from nnefc.symbolic.table_size import bounded_total

if TYPE_CHECKING:
    from nnefc.program.packed_weight import PackedWeight
    from nnefc.runtime.compile.executable_memory import ExecutableImage
    from nnefc.symbolic.straight_line import StraightLine

Array = np.ndarray[Any, Any]
Constants = Callable[[], Sequence[Array]]


class Pattern(NamedTuple):
    """A compiled program for many shapes."""

    compiled: CompiledProgram
    template: PlanTemplate
    conditions: PlanConditions


class DynamicArtifact(ArtifactReader):
    """A model with symbols or states in a file."""

    is_dynamic: Literal[True] = True

    def __init__(self, file: ArtifactFile, *, verified: bool = False) -> None:
        """As `ArtifactReader`; `facts` are those of `write_dynamic.PortableSource`."""
        super().__init__(file, verified=verified)
        self.facts: Facts = file.content
        self._whole: Lazy[list[Array]] = Lazy()

    def patterns(self, number: int) -> list[Pattern]:
        """The patterns of a target; its code is in executable memory, which they share."""
        with self.reading():
            target = self.targets[number]
            facts: Sequence[Facts] = target["patterns"]
            constants: Lazy[Sequence[Array]] = Lazy()
            shared = partial(constants.get, partial(self.constants, target))
            code = self.code(target)
            return [self._pattern(each, code, target, shared) for each in facts]

    def programs(self, number: int) -> list[tuple[PlanConditions, StraightLine]]:
        """The conditions and the function of each pattern of a target; no code is mapped."""
        with self.reading():
            return [
                (_conditions(each["conditions"]), self._template(each).program)
                for each in self.targets[number]["patterns"]
            ]

    @contextmanager
    def evaluating(self) -> Generator[None]:
        """Bound the tables of the function of a pattern; report errors of types as damage."""
        try:
            with bounded_total():
                yield
        except (TypeError, AttributeError, LookupError) as error:
            message = f"the function of its shapes cannot be computed: {error}"
            raise self.file.damaged(message) from error

    def _plan_sizes(self, target: Facts) -> tuple[int, int]:
        sizes = [super(DynamicArtifact, self)._plan_sizes(each) for each in target["patterns"]]
        return max((size for size, _ in sizes), default=0), sum(steps for _, steps in sizes)

    def _pattern(self, facts: Facts, code: ExecutableImage, target: Facts, shared: Any) -> Pattern:
        count, numbers = len(target["constants"]), [int(i) for i in facts["constants"]]
        _require(all(-1 <= i < count for i in numbers), "constants of a pattern")
        template = self._template(facts)
        compiled = CompiledProgram(
            name=self.name,
            inputs=tuple(map(tensor_of, facts["inputs"])),
            outputs=tuple(map(tensor_of, facts["outputs"])),
            variables={},
            states=(),
            code=code,
            plan=template.plan,
            work=facts["work"],
            launches=partial(self.launches, facts),
            constants=partial(_chosen, shared, numbers),
            constant_bytes=target["constant_bytes"],
            session=_session(*facts["session"]),
        )
        for which, specs in zip((template.inputs, template.outputs), compiled[1:3], strict=True):
            _require(all(0 <= i < len(specs) for i in which), "varying tensors of a pattern")
        return Pattern(compiled, template, _conditions(facts["conditions"]))

    def _template(self, facts: Facts) -> PlanTemplate:
        function = json.loads(self.head(facts["function"]).tobytes())
        values = _captured(function["captured"])
        program = straight_line.from_data(function, values)
        plan, slots = self.plan(facts), self.integers(facts["slots"])
        sections = Sections(*map(self.integers, facts["sections"]))
        bases = tuple(map(int, facts["bases"]))
        numbers = len(program.results) - len(bases)
        _require(_are_within(slots, plan.params.size), "slots of a pattern")
        _require(all(_are_within(each, numbers) for each in sections), "sections of a pattern")
        _require(all(0 <= i < plan.table.size for i in bases), "tables of a pattern")
        _require(sections.params.size == slots.size, "parameters of a pattern")
        varying_inputs, varying_outputs = facts["varying"]
        repeated = [Repetition(*map(int, each)) for each in facts["repeated"]]
        return PlanTemplate(
            plan=plan,
            launches=LaunchTable(
                facts["kernels"], facts["starts"], facts["marks"], plan.launch_of, repeated
            ),
            slots=slots,
            bases=bases,
            inputs=tuple(map(int, varying_inputs)),
            outputs=tuple(map(int, varying_outputs)),
            program=program,
            sections=sections,
        )

    # -- the document

    def texts(self) -> dict[str, bytes]:
        """The texts of the document by path."""
        with self.reading():
            return {str(path): self.head(piece).tobytes() for path, piece in self.facts["texts"]}

    def tensors(self) -> Mapping[str, Array]:
        """The arrays of the document by path."""
        names = [str(facts["name"]) for facts in self._arrays]
        return dict(zip(names, self._whole.get(lambda: self.arrays), strict=True))

    def packed_weights(
        self, number: int, arrays: Mapping[str, Array]
    ) -> list[tuple[PackedWeight, Array]]:
        """The packed weights of a target, with their items in the file.

        `arrays`: those of the document by path, of which the weights are views.
        """
        from nnefc.program.packed_weight import PackedWeight

        found: list[tuple[PackedWeight, Array]] = []
        with self.reading():
            constants: list[Facts] = self.targets[number]["constants"]
            for facts in constants:
                if "array" not in facts or not self._is_stored(facts):
                    continue
                of: int = facts["array"]
                array = arrays.get(str(self._arrays[of]["name"]))
                if array is not None and array.flags.c_contiguous:
                    spec = self._packed(facts)
                    dtype: np.dtype[Any] | None = numpy_type(spec.dtype) if spec.dtype else None
                    source = spec.view.of(array)
                    items = self._stored(facts).view(dtype or array.dtype)
                    if items.size == spec.size:
                        weight = PackedWeight(source, spec.packing, spec.parameters, dtype)
                        found.append((weight, items))
        return found

    def copied(self) -> Any:
        """The bytes of the same file, in pieces."""
        from nnefc.runtime.artifact.artifact_file_writer import with_changes

        return with_changes(self.file, {}, {**self.file.content})


def _captured(data: Any) -> Sequence[Any]:
    if not data:
        return ()
    from nnefc.symbolic import captured_values

    return list(map(captured_values.from_data, data))


def _chosen(shared: Constants, numbers: Sequence[int]) -> list[Array]:
    """The constants of a pattern; an empty one for a table, which each plan has for itself."""
    constants = shared()
    return [constants[i] if i >= 0 else np.empty(0, np.uint8) for i in numbers]


def _conditions(facts: Any) -> PlanConditions:
    symbols, (names, ranks, extents), groups, fixed, values, is_degraded = facts
    key = ShapeKey(tuple(names), tuple(ranks), tuple(extents))
    indices = [*fixed, *(i for group in groups for i in group)]
    _require(all(0 <= i < len(extents) for i in indices), "extents of a pattern")
    return PlanConditions(tuple(symbols), key, groups, fixed, tuple(values), is_degraded is True)


def _session(states: Any, counts: Any, appended: Any) -> SessionLayout:
    if not (states or counts or appended):
        return SessionLayout()
    from nnefc.ir import Count, State
    from nnefc.program.program import AppendedInput

    return SessionLayout(
        tuple(State(*each) for each in states),
        tuple(Count(*each) for each in counts),
        tuple(AppendedInput(*each) for each in appended),
    )


def _are_within(indices: Array, size: int) -> bool:
    return not indices.size or (int(indices.min()) >= 0 and int(indices.max()) < size)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"wrong {what}")
