"""A model with symbols as an object file: plans whose numbers `NAME_set_shape` computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from nnefc.emit.constants import ConstantPlacer, ObjectData
from nnefc.emit.embed_static import (
    EmbeddedObject,
    aligned_to,
    common_words,
    link_code,
    machine_of,
    object_of,
)
from nnefc.emit.header import Interface
from nnefc.emit.session_states import SessionStates
from nnefc.emit.shape_code import ShapeCode, symbol_indices, unwritable
from nnefc.kernels.abi import LAUNCH_BYTES
from nnefc.kernels.embedded.model_layout import DIMS, MODEL, PATTERN, PIECE, TABLE
from nnefc.runtime.artifact.build_dynamic import DynamicBuild, PatternBuild
from nnefc.runtime.memory.caller_arrays import TensorSpec
from nnefc.support.alignment import ALIGNMENT
from nnefc.symbolic.linear_shapes import LinearShapes

Array = np.ndarray[Any, Any]


def embedded_patterns(
    build: DynamicBuild,
    arrays: Sequence[Array],
    linear: LinearShapes | None,
    interface: Interface,
    states: SessionStates,
    file: BinaryIO,
) -> EmbeddedObject:
    """The object file of a build; its weights are written to `file`.

    arrays: of the document.  linear: its assertions.  states: those that sessions keep.  Raises
    NnefError `artifact/c-shape` for plans whose numbers cannot be computed in C.
    """
    if linear is None:
        raise unwritable("an assertion, or an extent of an input, that is not linear")
    symbols = build.patterns[0].conditions.symbols
    machine = machine_of(build)
    code, entry_points = link_code(build, interface, machine)
    data = ObjectData(MODEL.nbytes)
    placer = ConstantPlacer(file, data, arrays)
    places = [PIECE.pack(in_weights=w, offset=at) for w, at in map(placer.place, build.constants)]
    codes = [_shape_code(each, linear, symbols, states) for each in build.patterns]
    rows = [
        word
        for each, (shape_code, registers) in zip(build.patterns, codes, strict=True)
        for word in _pattern(each, shape_code, registers, places, data, states)
    ]
    weights = placer.finish()
    plans = [each.template.plan for each in build.patterns]
    tables = max(plan.table.size for plan in plans)
    registers = aligned_to(TABLE + 8 * tables, ALIGNMENT)
    params = aligned_to(registers + 8 * max(each.count for each, _ in codes), ALIGNMENT)
    launches = aligned_to(params + max(plan.params.nbytes for plan in plans), ALIGNMENT)
    dims = aligned_to(launches + max(plan.launches.nbytes for plan in plans), ALIGNMENT)
    values = dims + 8 * DIMS * (len(interface.inputs) + len(interface.outputs))
    parameters = len(symbols) + len(states.specs) + 1
    end = values + 8 * (3 * parameters + len(states.specs))
    sessions, end = states.rows(aligned_to(end, ALIGNMENT))
    unused = ("constants", "constant_table", "first_state", "states", "state_table", "arena")
    words = MODEL.pack(
        **common_words(build, interface, data, machine),
        **entry_points,
        **dict.fromkeys((*unused, "launches", "launch_count", "params", "first_input"), 0),
        weights=weights,
        block=aligned_to(end, 4096),
        first_constant=plans[0].table.constants,
        parallel=any(_is_parallel(each) for each in build.patterns),
        symbols=len(symbols),
        parameters=parameters,
        sessions=len(states.specs),
        session_table=data.words(sessions),
        own_values=values,
        patterns=len(build.patterns),
        pattern_table=data.words(rows),
        registers=registers,
        own_params=params,
        own_launches=launches,
        dims=dims,
    )
    return EmbeddedObject(object_of(code, data, words, interface, machine), any(weights))


def _is_parallel(pattern: PatternBuild) -> bool:
    template = pattern.template
    return template.plan.parallel or bool(template.sections.tiles.size)


def _shape_code(
    pattern: PatternBuild, linear: LinearShapes, symbols: Sequence[str], states: SessionStates
) -> tuple[ShapeCode, list[Any]]:
    """The steps of a pattern, and the registers of the results of its function."""
    template, conditions = pattern.template, pattern.conditions
    if template.launches.repeated:
        raise unwritable("the number of turns of a loop")
    if template.bases:
        raise unwritable("a table that depends on the shape")
    code = ShapeCode(
        len(symbols) + len(states.specs) + 1,
        {f"s{i}": i for i in range(len(symbols))} | states.extents(pattern),
    )
    states.require(pattern, code)
    for i in range(len(symbols)):
        code.require(">=", (0, ((f"s{i}", 1),)), (0, ()))
    for sign, left, right in linear.assertions:
        names = {name for _, factors in (left, right) for name, _ in factors}
        if names <= {*conditions.symbols, *linear.known}:
            sides = (left, right)
            first, second = (symbol_indices(s, symbols, linear.known) for s in sides)
            code.require(sign, first, second)
    return code, code.add(template.program)


def _pattern(
    pattern: PatternBuild,
    code: ShapeCode,
    registers: list[Any],
    places: Sequence[Sequence[int]],
    data: ObjectData,
    states: SessionStates,
) -> Sequence[int]:
    """The words of a row of the table of patterns."""
    template = pattern.template
    plan, sections, launches = template.plan, template.sections, template.launches
    inputs = _extents(pattern.inputs, template.inputs, sections.inputs, registers, code)
    outputs = _extents(pattern.outputs, template.outputs, sections.outputs, registers, code)
    taken, returned = states.positions(pattern)
    dims = [
        *(each for i in range(len(pattern.inputs)) if i not in taken for each in inputs[i]),
        *(each for i in range(len(pattern.outputs)) if i not in returned for each in outputs[i]),
    ]
    first_output = plan.table.inputs + len(pattern.inputs)
    slots = [(s, registers[i]) for s, i in zip(template.slots, sections.params, strict=True)]
    tiles = [
        (step, registers[sections.tiles[launch]])
        for step, launch in enumerate(launches.launch_of if sections.tiles.size else ())
    ]
    (arena,) = sections.arena_bytes
    pieces = [word for number in pattern.constants for word in places[number]]

    def words(rows: Sequence[tuple[Any, Any]]) -> int:
        return data.words([word for n, r in rows for word in (int(n), code.index(r))])

    assert plan.launches.itemsize * plan.launches.shape[1] == LAUNCH_BYTES
    return PATTERN.pack(  # pyright: ignore[reportReturnType]
        pieces=data.words(pieces),
        piece_count=len(pattern.constants),
        numbers=data.words(code.numbers),
        number_count=len(code.numbers),
        steps=data.words(code.steps()),
        step_count=code.step_count,
        params=data.words(plan.params.tolist()),
        param_bytes=plan.params.nbytes,
        slots=words(slots),
        slot_count=len(slots),
        launches=data.words(plan.launches.reshape(-1).tolist()),
        launch_count=len(plan.launches),
        tiles=words(tiles),
        tile_count=len(tiles),
        arena_bytes=code.index(registers[arena]),
        dims=data.words([code.index(each) for each in dims]),
        first_input=plan.table.inputs,
        first_output=first_output,
        results=min(returned, default=len(pattern.outputs)),
        session=data.words(
            states.uses(
                pattern,
                plan.table.inputs,
                [code.index(registers[i]) for i in sections.appended],
            )
        ),
    )


def _extents(
    specs: Sequence[TensorSpec],
    varying: Sequence[int],
    section: Array,
    registers: list[Any],
    code: ShapeCode,
) -> list[list[Any]]:
    """`DIMS` registers for each tensor."""
    rest = iter(section.tolist())
    every: list[list[Any]] = []
    for i, spec in enumerate(specs):
        rank = len(spec.shape)
        if i in varying:
            extents = [registers[next(rest)] for _ in range(rank)]
        else:
            extents = list(map(code.number, spec.shape))
        every.append([*extents, *[code.number(1)] * (DIMS - rank)])
    return every
