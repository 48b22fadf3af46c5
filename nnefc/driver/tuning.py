"""Measure which algorithm computes each convolution fastest on this machine.

The whole network runs with each algorithm, because within a network weights come from memory and
data from caches; an isolated operation would have both in the caches.  The results are stored in
the cache of the user, where `nnefc.compile` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from nnefc.driver.compile import compile_graph
from nnefc.options.compile_config import CompileConfig, Precision

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nnefc.ir import Graph
    from nnefc.passes.pipeline import PassRun
    from nnefc.support.progress import Progress

MIN_GAIN: Final = 0.03
"""Fraction of its time that another algorithm must save; less may be noise."""
_SLICE: Final = 0.15
"""Seconds of one turn of a network."""
_TURNS: Final = (3, 10)
"""The fewest and the most turns of a race."""
_STABLE: Final = 0.005
"""A race ends when a turn reduces the best times of all convolutions by a smaller fraction."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Convolutions of the same shapes and attributes, and their fastest algorithm.

    Seconds are for all of them, the best of many runs of the whole network.
    """

    operations: tuple[str, ...]
    """Names of the results."""
    key: str
    """Shapes and attributes of the convolutions, as text."""
    before: str
    """The algorithm that estimates suggest."""
    after: str
    """The algorithm measured to be fastest, often the same."""
    before_seconds: float
    after_seconds: float


@dataclass(frozen=True)
class Tuning:
    """The result of `tune`."""

    threads: int
    choices: tuple[Choice, ...]
    """All kinds of convolutions with several algorithms, slowest first."""
    before_seconds: float
    """Seconds of the fastest of many calls; 0 if all convolutions have only one algorithm."""
    after_seconds: float
    kept: bool
    """Whether the result could be stored for `nnefc.compile`."""

    @cached_property
    def changed(self) -> tuple[Choice, ...]:
        """The choices where the measured algorithm is not the estimated one."""
        return tuple(choice for choice in self.choices if choice.after != choice.before)

    @cached_property
    def algorithms(self) -> dict[str, str]:
        """Algorithms by key, as `nnefc.options.compile_config.CompileConfig` takes them."""
        return {choice.key: choice.after for choice in self.changed}


def tune_graph(
    graph: Graph,
    threads: int | None = None,
    progress: Progress | None = None,
    precision: Precision = "float32",
) -> Tuning:
    """Measure the algorithms of each convolution, and store the fastest; see `nnefc.tune`.

    `progress` is called as `progress(done, total, label)` before each step and once at the end.
    """
    from nnefc.runtime.cache import tuning_store

    config = CompileConfig(threads, precision=precision)
    default = _Network(graph, config, {})
    rounds = _rounds(default.convolutions)
    number = default.model.threads
    if not rounds:
        return Tuning(number, (), 0.0, 0.0, kept=True)

    def tell(done: int, label: str) -> None:
        if progress is not None:
            progress(done, len(rounds) + 1, label)

    best: dict[str, tuple[float, str]] = {}
    for done, algorithms in enumerate(rounds):
        tell(done, "algorithms")
        other = _Network(graph, config, algorithms)
        _race(default, other)
        for key, algorithm in algorithms.items():
            ratio = other.seconds_by_key[key] / default.seconds_by_key[key]
            best[key] = min(best.get(key, (1 - MIN_GAIN, "")), (ratio, algorithm))
    tell(len(rounds), "together")
    chosen = {key: algorithm for key, (_, algorithm) in best.items() if algorithm}
    tuned = _confirm(graph, config, default, chosen)
    measured = {key: chosen.get(key) for key in best}
    is_stored = tuning_store.store_algorithms(number, measured)
    tell(len(rounds) + 1, "")
    return Tuning(number, _compare(default, tuned), default.total, tuned.total, is_stored)


class _Convolution(NamedTuple):
    """A convolution with several algorithms."""

    name: str
    """The name of its result in the graph."""
    key: str
    algorithm: str
    algorithms: tuple[str, ...]
    """All algorithms that can compute it."""


class _Network:
    """A compiled graph, and the best times of its convolutions in the current race."""

    def __init__(self, graph: Graph, config: CompileConfig, algorithms: Mapping[str, str]) -> None:
        from nnefc.driver.precision import half_kernels
        from nnefc.runtime.memory.random_inputs import random_inputs

        self.convolutions: list[_Convolution] = []
        self._halves = half_kernels(config)
        config = config._replace(algorithms=algorithms)
        self.model = compile_graph(graph, config, hook=self._record_convolutions)
        types = {value.name: value.type for value in graph.inputs}
        self._inputs = random_inputs(self.model, types, 0)
        self._launches = [
            [i for i, launch in enumerate(self.model.launches) if launch.label.endswith(f"%{n}!")]
            for n in range(len(self.convolutions))
        ]
        self.reset_times()

    def _record_convolutions(self, graph: Graph, ran: PassRun) -> None:
        """Record the convolutions, and name their results so that launches can be identified."""
        from nnefc.kernels.vector.lane_builder import lanes_of
        from nnefc.ops.tools.convolution import is_blocked_convolution
        from nnefc.passes.analysis.half_support import convolves_halves
        from nnefc.passes.cost.convolution import algorithms, operation_key
        from nnefc.passes.machine.choose_convolution_algorithms import ChooseConvolutionAlgorithms
        from nnefc.passes.pipeline import STAGES

        if ran.phase != STAGES or ran.name != ChooseConvolutionAlgorithms.name:
            return
        block = lanes_of("float32")
        for op in graph.ops:
            if not is_blocked_convolution(op):
                continue
            every = tuple(map(str, algorithms(op, block)))
            if len(every) > 1:
                name, op.output.name = op.output.name, f"{len(self.convolutions)}!"
                algorithm = str(op.attributes["algorithm"])
                halves = self._halves
                able = halves is not None and convolves_halves(op, halves, block)
                key = operation_key(op, halves=halves.dtype if halves and able else None)
                self.convolutions.append(_Convolution(name, key, algorithm, every))

    def reset_times(self) -> None:
        """Discard all measured times."""
        self._best = [float("inf")] * len(self.convolutions)
        self.total = float("inf")
        """Seconds of the fastest call."""

    def turn(self) -> None:
        """Run the network for one turn."""
        profile = self.model.profile(*self._inputs, seconds=_SLICE)
        for i, launches in enumerate(self._launches):
            seconds = profile.wall[:, launches].sum(axis=1)
            self._best[i] = min(self._best[i], float(seconds.min()))
        self.total = min(self.total, float(profile.total.min()))

    @property
    def convolution_seconds(self) -> float:
        """Seconds of all convolutions."""
        return sum(self._best)

    @property
    def seconds_by_key(self) -> dict[str, float]:
        """Seconds of all convolutions of each key."""
        sums: dict[str, float] = {}
        for convolution, seconds in zip(self.convolutions, self._best, strict=True):
            sums[convolution.key] = sums.get(convolution.key, 0.0) + seconds
        return sums


def _rounds(convolutions: Iterable[_Convolution]) -> list[dict[str, str]]:
    """Algorithms by key for each round; over all rounds a key has each other algorithm once."""
    rounds: list[dict[str, str]] = []
    for convolution in dict.fromkeys(c._replace(name="") for c in convolutions):
        others = [
            algorithm for algorithm in convolution.algorithms if algorithm != convolution.algorithm
        ]
        for i, algorithm in enumerate(others):
            if i == len(rounds):
                rounds.append({})
            rounds[i][convolution.key] = algorithm
    return rounds


def _race(*networks: _Network) -> None:
    """Run networks alternately until their times are stable."""
    least, most = _TURNS
    for network in networks:
        network.reset_times()
    for turn in range(most):
        before = sum(network.convolution_seconds for network in networks)
        for network in networks:
            network.turn()
        gained = 1 - sum(network.convolution_seconds for network in networks) / before
        if turn + 1 >= least and gained < _STABLE:
            break


def _confirm(
    graph: Graph, config: CompileConfig, default: _Network, chosen: dict[str, str]
) -> _Network:
    """The network with all chosen algorithms, measured again.

    Algorithms that gain too little then are removed from `chosen`: their first gain was noise.  All
    are, if the whole call is not faster with them.
    """
    limit = 1 - MIN_GAIN
    while chosen:
        tuned = _Network(graph, config, chosen)
        _race(default, tuned)
        after, before = tuned.seconds_by_key, default.seconds_by_key
        slower = [key for key in chosen if after[key] > limit * before[key]]
        if not slower and tuned.total < default.total:
            return tuned
        if not slower:
            chosen.clear()
        for key in slower:
            del chosen[key]
    return default


def _compare(default: _Network, tuned: _Network) -> tuple[Choice, ...]:
    """The algorithms of each kind of convolution before and after tuning, with their times."""
    names: dict[str, list[str]] = {}
    for convolution in default.convolutions:
        names.setdefault(convolution.key, []).append(convolution.name)
    before, after = ({c.key: c.algorithm for c in n.convolutions} for n in (default, tuned))
    seconds = default.seconds_by_key, tuned.seconds_by_key
    choices = [
        Choice(tuple(names[key]), key, before[key], after[key], seconds[0][key], seconds[1][key])
        for key in names
    ]
    return tuple(sorted(choices, key=lambda choice: -choice.before_seconds))
