"""Measure which method computes each convolution fastest on this machine.

The whole network runs with every method in turn, because within a network weights come from memory
and data from caches; an operation on its own would have everything in the caches.  The results are
stored in the cache of the user, where `nnefc.compile` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from nnefc.driver.compile import compile_graph
from nnefc.options.compile_config import CompileConfig

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nnefc.ir import Graph
    from nnefc.passes.pipeline import Ran
    from nnefc.support.progress import Progress

LEAST_GAIN: Final = 0.03
"""Share of its time that another method must save: less may be noise."""
_SLICE: Final = 0.15
"""Seconds that one network runs before the other has its turn."""
_TURNS: Final = (3, 10)
"""The fewest and the most turns of a race."""
_STABLE: Final = 0.005
"""When a turn makes the times of the operations together less than so much shorter, it was the
last."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Convolutions of the same shapes and attributes, and their fastest method.

    Seconds are those of all of them together: the best of many runs, of the whole network.
    """

    operations: tuple[str, ...]
    """Names of their results."""
    key: str
    """Shapes and attributes of the convolutions, as text."""
    before: str
    """The method that estimates suggest."""
    after: str
    """The method that is fastest as measured; often the same."""
    before_seconds: float
    after_seconds: float


@dataclass(frozen=True)
class Tuning:
    """The result of `tune`."""

    threads: int
    choices: tuple[Choice, ...]
    """Every kind of convolution that has several methods, slowest first."""
    before_seconds: float
    """Of the fastest of many calls; 0 if every convolution has only one method."""
    after_seconds: float
    kept: bool
    """Whether it could be stored for `nnefc.compile`."""

    @cached_property
    def changed(self) -> tuple[Choice, ...]:
        """The choices where the measured method is not the estimated one."""
        return tuple(choice for choice in self.choices if choice.after != choice.before)

    @cached_property
    def methods(self) -> dict[str, str]:
        """Methods by key, as `nnefc.options.compile_config.CompileConfig` takes them."""
        return {choice.key: choice.after for choice in self.changed}


def tune_graph(
    graph: Graph, threads: int | None = None, progress: Progress | None = None
) -> Tuning:
    """Measure the methods of each convolution of a graph, and store the fastest; see `nnefc.tune`.

    `progress` is called as `progress(done, total, label)` before each step and once at the end.
    """
    from nnefc.runtime.cache import tuning_store

    default = _Network(graph, threads, {})
    rounds = _rounds(default.convolutions)
    number = default.model.threads
    if not rounds:
        return Tuning(number, (), 0.0, 0.0, kept=True)

    def tell(done: int, label: str) -> None:
        if progress is not None:
            progress(done, len(rounds) + 1, label)

    best: dict[str, tuple[float, str]] = {}
    for done, methods in enumerate(rounds):
        tell(done, "methods")
        other = _Network(graph, threads, methods)
        _race(default, other)
        for key, method in methods.items():
            ratio = other.times[key] / default.times[key]
            best[key] = min(best.get(key, (1 - LEAST_GAIN, "")), (ratio, method))
    tell(len(rounds), "together")
    chosen = {key: method for key, (_, method) in best.items() if method}
    tuned = _confirm(graph, default, chosen)
    found = _choices(default, tuned)
    wanted = {key: chosen.get(key) for key in best}
    kept = tuning_store.store_methods(number, wanted)
    tell(len(rounds) + 1, "")
    return Tuning(number, found, default.total, tuned.total, kept)


class _Convolution(NamedTuple):
    """A convolution that has several methods."""

    name: str
    """In the graph."""
    key: str
    method: str
    methods: tuple[str, ...]
    """All methods that can compute it."""


class _Network:
    """A compiled graph, and the best times of its convolutions while it races."""

    def __init__(self, graph: Graph, threads: int | None, methods: Mapping[str, str]) -> None:
        from nnefc.runtime.memory.tensors import random_array

        self.convolutions: list[_Convolution] = []
        config = CompileConfig(threads, methods=methods)
        self.model = compile_graph(graph, config, hook=self._look)
        self._inputs = [random_array(value.type, 0, value.name) for value in graph.inputs]
        self._launches = [
            [i for i, launch in enumerate(self.model.launches) if launch.label.endswith(f"%{n}!")]
            for n in range(len(self.convolutions))
        ]
        self.start()

    def _look(self, graph: Graph, ran: Ran) -> None:
        """Note the convolutions, and give each a name by which to know its launches."""
        from nnefc.passes.analysis.blocked_rules import CONVOLUTIONS
        from nnefc.passes.cost.convolution import algorithms, operation_key
        from nnefc.passes.machine.choose_convolution_algorithms import ChooseConvolutionAlgorithms
        from nnefc.passes.pipeline import STAGES

        if ran.phase != STAGES or ran.name != ChooseConvolutionAlgorithms.name:
            return
        for op in graph.ops:
            if op.name not in CONVOLUTIONS:
                continue
            layout = op.output.type.layout
            assert layout is not None
            every = tuple(map(str, algorithms(op, layout.block)))
            if len(every) > 1:
                name, op.output.name = op.output.name, f"{len(self.convolutions)}!"
                method = str(op.attributes["algorithm"])
                self.convolutions.append(_Convolution(name, operation_key(op), method, every))

    def start(self) -> None:
        """Forget all times."""
        self._best = [float("inf")] * len(self.convolutions)
        self.total = float("inf")
        """Seconds of a call."""

    def turn(self) -> None:
        """Run the network for one turn."""
        profile = self.model.profile(*self._inputs, seconds=_SLICE)
        for i, launches in enumerate(self._launches):
            seconds = profile.wall[:, launches].sum(axis=1)
            self._best[i] = min(self._best[i], float(seconds.min()))
        self.total = min(self.total, float(profile.total.min()))

    @property
    def together(self) -> float:
        """Seconds of all convolutions."""
        return sum(self._best)

    @property
    def times(self) -> dict[str, float]:
        """Seconds of all convolutions of a key."""
        found: dict[str, float] = {}
        for convolution, seconds in zip(self.convolutions, self._best, strict=True):
            found[convolution.key] = found.get(convolution.key, 0.0) + seconds
        return found


def _rounds(convolutions: Iterable[_Convolution]) -> list[dict[str, str]]:
    """Methods by key, so that every key has each of its other methods once."""
    rounds: list[dict[str, str]] = []
    for convolution in dict.fromkeys(c._replace(name="") for c in convolutions):
        others = [method for method in convolution.methods if method != convolution.method]
        for i, method in enumerate(others):
            if i == len(rounds):
                rounds.append({})
            rounds[i][convolution.key] = method
    return rounds


def _race(*networks: _Network) -> None:
    """Run networks in turn until their times are stable."""
    least, most = _TURNS
    for network in networks:
        network.start()
    for turn in range(most):
        before = sum(network.together for network in networks)
        for network in networks:
            network.turn()
        gained = 1 - sum(network.together for network in networks) / before
        if turn + 1 >= least and gained < _STABLE:
            break


def _confirm(graph: Graph, default: _Network, chosen: dict[str, str]) -> _Network:
    """The network with all that was chosen, which is measured once more.

    Methods that then gain too little were lucky: they are removed from `chosen`.
    """
    limit = 1 - LEAST_GAIN
    while chosen:
        tuned = _Network(graph, default.model.threads, chosen)
        _race(default, tuned)
        lucky = [key for key in chosen if tuned.times[key] > limit * default.times[key]]
        if not lucky:
            return tuned
        for key in lucky:
            del chosen[key]
    return default


def _choices(default: _Network, tuned: _Network) -> tuple[Choice, ...]:
    """The method of each kind of convolution before and after, with its times in both races."""
    names: dict[str, list[str]] = {}
    for convolution in default.convolutions:
        names.setdefault(convolution.key, []).append(convolution.name)
    before, after = ({c.key: c.method for c in n.convolutions} for n in (default, tuned))
    found = [
        Choice(
            tuple(names[key]), key, before[key], after[key], default.times[key], tuned.times[key]
        )
        for key in names
    ]
    return tuple(sorted(found, key=lambda choice: -choice.before_seconds))
