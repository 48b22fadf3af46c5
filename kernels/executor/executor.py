"""The executor: runs the launches of a plan, alone or as one thread of a team.

A team shares one word, the ticket, which holds the sequence number of the launch and the range of
its remaining tiles.  A thread takes a tile by compare-and-swap of the ticket: the caller and every
second worker from the front, the other workers from the end.  Corresponding tiles of successive
launches then run on the same thread, whose cache holds their data.  The thread that completes the
last tile of a launch publishes the next launch.

No thread waits at a barrier, so a preempted thread costs nothing unless it holds a tile.  Sequence
numbers grow from run to run, so a thread that slept through a run cannot take a tile of another
run.  A thread reads the plan only after it has taken a tile, so it never reads a plan that was
freed.

A launch may record an error in the status of the call (`call_status`), which ends the run, or a
jump (`jumps`).  The launch at the target has the sequence number of its place in the plan, so
numbers repeat when a run jumps backwards.  They stay between those of the first and the last
launch, and only the end of the run publishes the number behind them.  A thread that has read the
ticket before such a jump may take a tile afterwards, if the ticket is the same again.  That tile is
then free, and the thread reads everything else that it needs after taking it.

A run that jumps backwards may pause (`call_status`).  For a team it is then complete, and continues
as another run, whose launches have new sequence numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nnefc.kernels.abi import (
    BASE_CODE,
    BASE_PARAMS,
    LAUNCH_BYTES,
    LAUNCH_KERNEL,
    LAUNCH_MARK,
    LAUNCH_PARAMS,
    LAUNCH_TILES,
)
from nnefc.kernels.executor.call_status import (
    CLOCK,
    CLOCK_ID,
    DUE,
    LAUNCH,
    PAUSE_INTERVAL,
    PAUSED,
    RESUME,
    STATUS_BYTES,
    TIMESPEC,
)
from nnefc.kernels.executor.clock import now
from nnefc.kernels.executor.team_state import (
    ASLEEP,
    AWAKE,
    BASES,
    CLAIMED,
    COUNT,
    CPU_BITS,
    DONE,
    END,
    EVERYBODY,
    FINISHED,
    FIRST,
    FUTEX,
    FUTEX_WAIT,
    FUTEX_WAKE,
    GETAFFINITY,
    GETCPU,
    GETTID,
    LAUNCHES,
    MASK_BYTES,
    MASKS,
    MAX_TILES,
    PARKED,
    SETAFFINITY,
    SLEEPERS,
    SPINS,
    STEERED,
    STOP,
    SYSCALL,
    TICKET,
    TIDS,
    TILE_BITS,
    WAKE,
    WORKER_STATUS,
    WORKERS,
    YIELD,
)
from nnefc.kernels.vector.memory import (
    LOAD,
    STORE,
    acquire,
    call_int,
    call_kernel,
    compare_and_swap,
    exchange,
    fetch_add,
    helper,
    pause,
    system_call,
)

YIELDS: Final = 1000
"""How often a worker yields during a run before it sleeps: about 200 us."""

_load, _store = LOAD["int64"], STORE["int64"]


@helper
def _call(at: int, bases: int, first: int, last: int):
    """Run some tiles of the launch at address `at`.

    Not `load_word`: a worker outlives plans, and addresses are reused.
    """
    code, params = _load(bases + 8 * BASE_CODE), _load(bases + 8 * BASE_PARAMS)
    kernel, words = _load(at + LAUNCH_KERNEL), _load(at + LAUNCH_PARAMS)
    call_kernel(code + kernel, bases, params + words, first, last)


@helper
def _begin(bases: int):
    """The number of the first launch of a run: 0, or the one at which the run has paused."""
    status = bases - STATUS_BYTES
    _store(status + DUE, 0)
    if _load(status + LAUNCH) != PAUSED:
        return 0
    _store(status + LAUNCH, 0)
    return _load(status + RESUME)


@helper
def _pauses(bases: int, number: int):
    """Pause the run that goes on with launch `number`, if it is time; returns 1 if so, else 0."""
    status = bases - STATUS_BYTES
    clock = _load(status + CLOCK)
    if clock == 0:
        return 0
    time, due = now(clock, _load(status + CLOCK_ID), status + TIMESPEC), _load(status + DUE)
    if due == 0:
        _store(status + DUE, time + PAUSE_INTERVAL)
        return 0
    if time < due:
        return 0
    _store(status + RESUME, number)
    _store(status + LAUNCH, PAUSED)
    return 1


@helper
def _following(launches: int, number: int, count: int, bases: int):
    """The number of the launch after number `number`; `count` after an error, or to pause.

    After a jump it is the nearest launch in its direction that has the mark.
    """
    status = _load(bases - STATUS_BYTES + LAUNCH)
    if status == 0:
        return number + 1
    if status > 0:
        return count
    _store(bases - STATUS_BYTES + LAUNCH, 0)
    mark, step = -status >> 1, 1 - 2 * (-status & 1)
    number += step
    while 0 <= number < count:
        if _load(launches + LAUNCH_BYTES * number + LAUNCH_MARK) == mark:
            if step < 0 and _pauses(bases, number) != 0:
                return count
            return number
        number += step
    return count


def run_alone(launches: int, count: int, bases: int) -> None:
    """Runs every tile of every launch, without atomics; or up to a pause, or on from it."""
    number = _begin(bases)
    while number < count:
        at = launches + LAUNCH_BYTES * number
        _call(at, bases, 0, _load(at + LAUNCH_TILES))
        number = _following(launches, number, count, bases)


@helper
def _steer(team: int):
    """Remove this processor from the affinity masks of sleeping workers, before a wake-up.

    Linux places a thread that a futex wakes on the waker's processor.  There it queues behind the
    waker, and load balancing moves it only after many milliseconds.  A woken worker restores its
    mask itself (`_awake`), so that it can still leave a processor that becomes busy.  The mask is
    read every time, because other programs such as `taskset` change it.
    """
    cpu = call_int(_load(team + GETCPU))
    if cpu < 0 or cpu >= 8 * MASK_BYTES:
        return
    libc, bit = _load(team + SYSCALL), 1 << cpu % 64
    steered = STEERED + (system_call(libc, _load(team + GETTID), 0, 0, 0) << CPU_BITS | cpu)
    for i in range(acquire(team + WORKERS)):
        place, mask = team + WORKER_STATUS + 8 * i, team + MASKS + MASK_BYTES * i
        if compare_and_swap(place, ASLEEP, CLAIMED) == 0:
            continue
        thread, word, found = _load(team + TIDS + 8 * i), mask + cpu // 64 * 8, ASLEEP
        size = system_call(libc, _load(team + GETAFFINITY), thread, MASK_BYTES, mask)
        if size > 0 and (_load(word) & bit) != 0:
            _store(word, _load(word) & ~bit)
            if system_call(libc, _load(team + SETAFFINITY), thread, MASK_BYTES, mask) == 0:
                found = steered
        exchange(place, found)


@helper
def _is_worker(team: int, thread: int):
    found = False
    for i in range(acquire(team + WORKERS)):
        found |= _load(team + TIDS + 8 * i) == thread
    return found


@helper
def _awake(team: int, worker: int):
    """Restore the waker's processor in the affinity mask of a woken worker.

    The mask stays as it is if the waker itself may no longer run there: both threads have then been
    moved elsewhere.  The mask of a waker that is a worker is not evidence, because that worker may
    be steered away too.
    """
    place, mask = team + WORKER_STATUS + 8 * worker, team + MASKS + MASK_BYTES * worker
    while compare_and_swap(place, ASLEEP, AWAKE) == 0:
        steered = acquire(place) - STEERED
        if steered < 0:  # claimed
            pause()
            continue
        cpu, waker = steered & (1 << CPU_BITS) - 1, steered >> CPU_BITS
        word, bit = mask + cpu // 64 * 8, 1 << cpu % 64
        libc, find = _load(team + SYSCALL), _load(team + GETAFFINITY)
        unknown = _is_worker(team, waker) or system_call(libc, find, waker, MASK_BYTES, mask) <= 0
        back = unknown or (_load(word) & bit) != 0
        if back and system_call(libc, find, 0, MASK_BYTES, mask) > 0:
            _store(word, _load(word) | bit)
            system_call(libc, _load(team + SETAFFINITY), 0, MASK_BYTES, mask)
        exchange(place, AWAKE)
        return


@helper
def _rouse(team: int):
    """Wake the caller if it sleeps, for new tiles or because the run is complete."""
    if acquire(team + PARKED) != 0 and exchange(team + PARKED, 0) != 0:
        fetch_add(team + END, 1)
        system_call(_load(team + SYSCALL), _load(team + FUTEX), team + END, FUTEX_WAKE, EVERYBODY)


@helper
def _ticket(sequence: int, first: int, end: int):
    return sequence << 2 * TILE_BITS | first << TILE_BITS | end


@helper
def _left(ticket: int):
    """Number of tiles that are not taken."""
    return (ticket & MAX_TILES) - (ticket >> TILE_BITS & MAX_TILES)


@helper
def _is_running(team: int):
    """Whether a run is in progress, so that more tiles are likely."""
    return acquire(team + TICKET) >> 2 * TILE_BITS != acquire(team + FINISHED)


@helper
def _publish(team: int, sequence: int, first: int, end: int):
    tiles = end - first
    exchange(team + TICKET, _ticket(sequence, first, end))
    # One wake-up per sleep: the waker clears the counter.  If the sleeper did, every later launch
    # would wake a worker again that waits for a processor.
    if tiles > 0 and acquire(team + SLEEPERS) > 0 and exchange(team + SLEEPERS, 0) > 0:
        _steer(team)
        fetch_add(team + WAKE, 1)
        system_call(_load(team + SYSCALL), _load(team + FUTEX), team + WAKE, FUTEX_WAKE, EVERYBODY)
    if tiles > 0:
        _rouse(team)


@helper
def _take(team: int, back: int):
    """Take and run one tile, and publish the next launch if it was the last; 0 if none was left.

    `back`: 1 to take tiles from the end, 0 from the front.
    """
    ticket = acquire(team + TICKET)
    if _left(ticket) == 0:
        return 0
    if compare_and_swap(team + TICKET, ticket, ticket + (-1 if back else 1 << TILE_BITS)) == 0:
        return 1
    sequence = ticket >> 2 * TILE_BITS
    tile = (ticket & MAX_TILES) - 1 if back else ticket >> TILE_BITS & MAX_TILES
    bases = _load(team + BASES)
    while True:
        launches, number = _load(team + LAUNCHES), sequence - _load(team + FIRST)
        at = launches + LAUNCH_BYTES * number
        tiles = _load(at + LAUNCH_TILES)
        _call(at, bases, tile, tile + 1)
        if tiles > 1:
            if fetch_add(team + DONE, 1) + 1 < tiles:
                return 1
            _store(team + DONE, 0)
        # ours was the last tile
        number = _following(launches, number, _load(team + COUNT), bases)
        sequence = _load(team + FIRST) + number
        if number == _load(team + COUNT):
            exchange(team + TICKET, _ticket(sequence, 0, 0))
            exchange(team + FINISHED, sequence)
            _rouse(team)
            return 1
        # reserve one tile of the next launch for this thread
        last = _load(launches + LAUNCH_BYTES * number + LAUNCH_TILES) - 1
        tile = last if back else 0
        _publish(team, sequence, 1 - back, last + 1 - back)


def run_together(team: int, launches: int, count: int, bases: int) -> None:
    """Run at least one launch as the caller of a team; returns when the run is complete.

    It pauses and continues as `run_alone` does.
    """
    sequence = acquire(team + TICKET) >> 2 * TILE_BITS
    number = _begin(bases)
    _store(team + LAUNCHES, launches)
    _store(team + COUNT, count)
    _store(team + BASES, bases)
    _store(team + FIRST, sequence + 1)
    end = sequence + 1 + count
    tiles = _load(launches + LAUNCH_BYTES * number + LAUNCH_TILES)
    _publish(team, sequence + 1 + number, 0, tiles)
    spins = 0
    while acquire(team + FINISHED) != end:
        if _take(team, 0) != 0:
            spins = 0
            continue
        pause()
        spins += 1
        if spins > _load(team + SPINS):
            exchange(team + PARKED, 1)
            word = acquire(team + END)
            if acquire(team + FINISHED) != end and _left(acquire(team + TICKET)) == 0:
                system_call(
                    _load(team + SYSCALL),
                    _load(team + FUTEX),
                    team + END,
                    FUTEX_WAIT,
                    word & 0xFFFFFFFF,
                )
            exchange(team + PARKED, 0)
            spins = 0


def work(team: int) -> int:
    """The main function of a worker: take tiles, spin, then sleep, until STOP.

    During a run it yields its processor before it sleeps: waking a thread takes longer than most
    launches of one tile, and without other threads there a yield returns at once.
    """
    libc = _load(team + SYSCALL)
    thread = system_call(libc, _load(team + GETTID), 0, 0, 0)
    worker = _load(team + WORKERS)  # they start one by one
    _store(team + TIDS + 8 * worker, thread)
    fetch_add(team + WORKERS, 1)
    back = 1 - worker % 2
    spins = waits = 0
    while acquire(team + STOP) == 0:
        if _take(team, back) != 0:
            spins = waits = 0
            continue
        if _is_running(team):
            spins, waits = 0, waits + 1
        else:
            spins, waits = spins + 1, 0
        if spins <= _load(team + SPINS) and waits <= _load(team + SPINS):
            pause()
            continue
        if 0 < waits <= _load(team + SPINS) + YIELDS:
            system_call(libc, _load(team + YIELD), 0, 0, 0)
            continue
        word = acquire(team + WAKE)
        exchange(team + WORKER_STATUS + 8 * worker, ASLEEP)
        fetch_add(team + SLEEPERS, 1)
        if _left(acquire(team + TICKET)) == 0 and acquire(team + STOP) == 0:
            system_call(libc, _load(team + FUTEX), team + WAKE, FUTEX_WAIT, word & 0xFFFFFFFF)
        _awake(team, worker)
        spins = waits = 0
    return 0


FUNCTIONS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("nnefc_run_alone", run_alone),
    ("nnefc_run_together", run_together),
    ("nnefc_work", work),
)
"""The functions of the executor's image, by symbol."""
