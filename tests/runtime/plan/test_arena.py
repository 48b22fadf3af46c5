"""Arena planning: buffers live at the same time do not overlap; others share memory."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.zoo import ZOO
from nnefc.frontends.nnef import import_text
from nnefc.kernels.family import Kernel
from nnefc.lower import lower
from nnefc.ops.tools.cost import largest_live_bytes
from nnefc.passes.pipeline import run_pipeline
from nnefc.program.program import Buffer, Launch, Ref
from nnefc.runtime.plan.arena import Lifetime, arrange, assign_offsets
from nnefc.support.alignment import ALIGNMENT
from tests.helpers.event_counts import calls
from tests.helpers.examples import examples

KERNEL = Kernel("none")


def launch(*refs: Ref, in_place: tuple[Ref, ...] = ()) -> Launch:
    words = [word for ref in refs for word in (ref, None)]
    return Launch(KERNEL, words, 1, in_place=in_place)


@st.composite
def spans(draw: st.DrawFn) -> list[Lifetime]:
    found: list[Lifetime] = []
    for _ in range(draw(st.integers(0, 30))):
        first = draw(st.integers(0, 20))
        last = first + draw(st.integers(0, 6))
        found.append(Lifetime(first, last, ALIGNMENT * draw(st.integers(1, 9))))
    return found


@examples(2)
@given(spans())
def test_overlapping_lifetimes_do_not_share_memory(lifetimes: list[Lifetime]) -> None:
    offsets = assign_offsets(lifetimes)
    for i, (a, x) in enumerate(zip(lifetimes, offsets)):
        assert x >= 0
        assert x % ALIGNMENT == 0
        for b, y in zip(lifetimes[:i], offsets):
            if a.first <= b.last and b.first <= a.last:
                assert x + a.nbytes <= y or y + b.nbytes <= x


def test_a_chain_needs_two_buffers() -> None:
    buffers = [Buffer("arena", 1000) for _ in range(10)]
    launches = [launch(Ref(a), Ref(b, writes=True)) for a, b in pairwise(buffers)]
    arena = arrange(launches)
    assert arena.nbytes == arena.lower_bound == 2 * 1024


def test_a_chain_in_place_needs_one_buffer() -> None:
    buffers = [Buffer("arena", 1000) for _ in range(10)]
    launches = [
        launch(Ref(a), Ref(b, writes=True), in_place=(Ref(a),)) for a, b in pairwise(buffers)
    ]
    arena = arrange(launches)
    assert set(arena.offsets.values()) == {0}
    assert arena.nbytes == arena.lower_bound == 1024


def test_only_whole_inputs_at_their_last_use_are_overwritten() -> None:
    x, y, z = (Buffer("arena", 64) for _ in range(3))
    half = Buffer("arena", 32)
    used_later = [
        launch(Ref(x), Ref(y, writes=True), in_place=(Ref(x),)),
        launch(Ref(x), Ref(y), Ref(z, writes=True)),
    ]
    other_size = [launch(Ref(half), Ref(y, writes=True), in_place=(Ref(half),))]
    seen_twice = [launch(Ref(x), Ref(x, 32), Ref(y, writes=True), in_place=(Ref(x),))]
    and_its_start = [launch(Ref(x), Ref(x), Ref(y, writes=True), in_place=(Ref(x),))]
    a_view = [launch(Ref(x, 4), Ref(y, writes=True), in_place=(Ref(x, 4),))]
    for launches in (used_later, other_size, seen_twice, and_its_start, a_view):
        offsets = arrange(launches).offsets
        assert offsets.get(x, offsets.get(half)) != offsets[y]


def test_results_within_a_buffer_overwrite_no_input() -> None:
    x, y = Buffer("arena", 64), Buffer("arena", 64)
    offsets = arrange([launch(Ref(x), Ref(y, 32, writes=True), in_place=(Ref(x),))]).offsets
    assert offsets[x] != offsets[y]


def test_the_same_input_twice_may_be_overwritten() -> None:
    x, y = Buffer("arena", 64), Buffer("arena", 64)
    offsets = arrange(
        [launch(Ref(x), Ref(x), Ref(y, writes=True), in_place=(Ref(x), Ref(x)))]
    ).offsets
    assert offsets[x] == offsets[y]


def test_memory_outside_the_arena_is_never_overwritten() -> None:
    given_, made = Buffer("input", 64), Buffer("arena", 64)
    arena = arrange([launch(Ref(given_), Ref(made, writes=True), in_place=(Ref(given_),))])
    assert list(arena.offsets) == [made]


def test_only_the_first_write_to_a_buffer_may_overwrite_an_input() -> None:
    """An output that exists already keeps its own memory."""
    x, y = Buffer("arena", 64), Buffer("arena", 64)
    launches = [
        launch(Ref(y, writes=True)),
        launch(Ref(x, writes=True)),
        launch(Ref(x), Ref(y, writes=True), in_place=(Ref(x),)),
    ]
    offsets = arrange(launches).offsets
    assert offsets[x] != offsets[y]


@given(st.data())
def test_simulated_programs_see_their_own_data(data: st.DataObject) -> None:
    """Every read sees the last write to the buffer, in place or not."""
    buffers: list[Buffer] = []
    launches: list[Launch] = []
    for _ in range(data.draw(st.integers(1, 15))):
        count = data.draw(st.integers(0, min(3, len(buffers))))
        picked = [buffers[data.draw(st.integers(0, len(buffers) - 1))] for _ in range(count)]
        y = Buffer("arena", 64 * data.draw(st.integers(1, 3)))
        same = tuple(Ref(x) for x in picked if x.nbytes == y.nbytes)
        allowed = same if data.draw(st.booleans()) else ()
        launches.append(launch(*map(Ref, picked), Ref(y, writes=True), in_place=allowed))
        buffers.append(y)
    arena = arrange(launches)
    memory = np.full(arena.nbytes, -1)
    for stamp, step in enumerate(launches):
        for ref in step.refs:
            at = arena.offsets[ref.buffer]
            if not ref.writes:
                owner = buffers.index(ref.buffer)
                assert (memory[at : at + ref.buffer.nbytes] == owner).all()
        at = arena.offsets[buffers[stamp]]
        memory[at : at + buffers[stamp].nbytes] = stamp


def test_a_long_chain_of_buffers_leaves_few_gaps() -> None:
    buffers = [Buffer("arena", 64 + i % 7 * 64) for i in range(5000)]
    launches = [launch(Ref(a), Ref(b, writes=True)) for a, b in pairwise(buffers)]
    arena = arrange(launches)
    assert arena.nbytes <= 1.2 * arena.lower_bound


@pytest.mark.slow
def test_planning_many_long_lived_buffers_takes_linear_time() -> None:
    def work(count: int) -> int:
        buffers = [Buffer("arena", 64 + i % 7 * 64) for i in range(count)]
        launches = [launch(Ref(b, writes=True)) for b in buffers]
        launches.append(launch(*map(Ref, buffers)))
        arena = arrange(launches)
        assert arena.nbytes == arena.lower_bound == sum(b.nbytes for b in buffers)
        return calls(lambda: arrange(launches))

    assert work(5000) < 2.5 * work(2500)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::nnefc.NnefWarning")
@pytest.mark.parametrize("name", ZOO)
def test_networks_leave_no_gaps(name: str) -> None:
    """The arena has the size of the tensors live together, which fusion reduces."""
    document = ZOO[name].document(name, small=True)
    graph = import_text(document.text)
    for variable in graph.variables.values():
        variable.data = np.zeros(variable.type.dims, np.float32)
    live = largest_live_bytes(graph)
    run_pipeline(graph)
    arena = arrange(lower(graph).launches)
    assert arena.nbytes <= 1.02 * arena.lower_bound
    assert arena.nbytes <= 1.05 * live + 4096
