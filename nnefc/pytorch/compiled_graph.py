"""A graph of ATen operators as a callable: pieces that nnefc runs, and pieces that PyTorch runs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nnefc.frontends.torch.program_error import ProgramError
from nnefc.options.compile_config import CompileConfig
from nnefc.pytorch.memory.input_changes import InputChanges
from nnefc.pytorch.memory.memory_orders import with_orders
from nnefc.pytorch.native_piece import NativePiece
from nnefc.pytorch.pieces import (
    Piece,
    changed_inputs,
    complex_nodes_of_boundary,
    is_change,
    pieces_of,
    unsupported_nodes,
    updates_in_place,
)
from nnefc.pytorch.read_fx import place_of, target_name
from nnefc.pytorch.weight_sets import WeightSets
from nnefc.support.errors import NnefError, warn_python
from nnefc.support.limits import no_collection

if TYPE_CHECKING:
    import torch
    from torch import fx

_LISTED: Final = 3
"""Operators that a warning names."""


class _Step(NamedTuple):
    """A piece that is ready to run, and what it takes and makes, by names of nodes."""

    run: Callable[..., Sequence[Any]]
    inputs: Sequence[str]
    outputs: Sequence[str]
    dead: Sequence[str]
    """The values that no later step takes."""


class CompiledGraph:
    """A graph of ATen operators: tensors and numbers in, a list of these out.

    Pieces are compiled in the first call with some weights.  They are compiled again without the
    nodes that turn out to be unsupported, also for shapes of later calls; warnings name them.
    """

    def __init__(
        self, graph: fx.GraphModule, weights: Sequence[int], config: CompileConfig
    ) -> None:
        """`weights`: the positions of inputs that are constants while they do not change."""
        self._graph = graph
        self._config = config
        nodes: list[fx.Node] = list(graph.graph.nodes)
        self._nodes = {node.name: node for node in nodes}
        self._names = [node.name for node in nodes if node.op == "placeholder"]
        self._results: Any = nodes[-1].args[0]
        changed = self._changed = changed_inputs(graph)
        self._weights = WeightSets([i for i in weights if self._names[i] not in changed])
        self._excluded = set(unsupported_nodes(graph))
        self._updates = updates_in_place(graph)
        self._warn(self._excluded, "which nnefc cannot compile")

    @no_collection()
    def _compiled(self, constants: Mapping[int, torch.Tensor]) -> list[_Step]:
        """The pieces for some weights; raises ProgramError for nodes that PyTorch must run."""
        weights = {self._names[i]: x for i, x in constants.items()}
        pieces = pieces_of(self._graph, self._excluded)
        runs = [self._run_of(piece, weights) for piece in pieces]
        steps: list[_Step] = []
        wanted = {each.name for each in self._results if hasattr(each, "name")}
        for piece, run in zip(reversed(pieces), reversed(runs), strict=True):
            dead = [name for name in {*piece.inputs, *piece.outputs} if name not in wanted]
            wanted.update(piece.inputs)
            steps.insert(0, _Step(run, piece.inputs, piece.outputs, dead))
        return steps

    def _run_of(
        self, piece: Piece, constants: Mapping[str, torch.Tensor]
    ) -> Callable[..., Sequence[Any]]:
        """A piece as a callable; raises ProgramError for nodes that PyTorch must run."""
        if not piece.is_native:
            copies = InputChanges.are_all_of(piece)
            return InputChanges(piece) if copies else piece.module.forward
        weights = {name: x for name, x in constants.items() if name in piece.inputs}
        if nodes := complex_nodes_of_boundary(piece, weights):
            message = "complex tensors are inputs or results of these operators"
            raise ProgramError(NnefError.of("torch/type", message).errors, nodes)
        try:
            run = NativePiece(piece, weights, self._config, self._updates, self._changed)
            return with_orders(run, piece.module)
        except ProgramError:
            raise
        except NnefError as error:
            nodes = [each for each in piece.module.graph.nodes if each.op == "call_function"]
            raise ProgramError(error.errors, (each.name for each in nodes)) from None

    def _exclude(self, error: ProgramError) -> None:
        """Leave the nodes of an error to PyTorch, with a warning; raises one without new nodes."""
        known = {_source(self._nodes[name]) for name in error.nodes if name in self._nodes}
        new = known - self._excluded
        if error.nodes.difference(self._nodes) or not new:  # within a body
            new |= {n.name for n in self._nodes.values() if _has_body(n)} - self._excluded
        if not new:
            raise error
        self._excluded |= new
        first = error.errors[0]
        place = first.place
        if place is None or not place.line:
            nodes = (self._nodes[name] for name in sorted(new))
            place = next(filter(None, map(place_of, nodes)), place)
        where = f"{place}: " if place else ""
        warn_python(f"{where}PyTorch runs {self._listed(new)}: {first.text}")

    def _warn(self, names: Iterable[str], reason: str) -> None:
        """Warn of nodes that PyTorch runs, but for changes of inputs."""
        kept = [n for n in self._nodes.values() if n.name in names and not is_change(n)]
        if kept:
            place = next(filter(None, map(place_of, kept)), None)
            where = f"{place}: " if place else ""
            warn_python(f"{where}PyTorch runs {self._listed(n.name for n in kept)}, {reason}")

    def _listed(self, names: Iterable[str]) -> str:
        """The operators of some nodes, as text."""
        targets = sorted({target_name(self._nodes[name].target) for name in names})
        more = f" and {len(targets) - _LISTED} more operators" if len(targets) > _LISTED else ""
        return ", ".join(targets[:_LISTED]) + more

    def __call__(self, *args: Any) -> list[Any]:
        """The results for the graph's inputs."""
        while True:
            weights = self._weights.of(args)
            try:
                steps: list[_Step] | None = weights.compiled
                if steps is None:
                    steps = weights.compiled = self._compiled(weights.constants)
                return self._run(steps, args)
            except ProgramError as error:  # changes so far are the same in a second run
                self._exclude(error)
                self._weights.discard_compiled()

    def _run(self, steps: Iterable[_Step], args: Sequence[Any]) -> list[Any]:
        values = dict(zip(self._names, args, strict=True))
        for step in steps:
            found = step.run(*[values[name] for name in step.inputs])
            values.update(zip(step.outputs, found, strict=True))
            for name in step.dead:
                values.pop(name, None)
        return [values[each.name] if hasattr(each, "name") else each for each in self._results]


def _source(node: fx.Node) -> str:
    """The name of the operator that a node takes a result of; that of others itself."""
    while node.target is operator.getitem:
        node = node.all_input_nodes[0]
    return node.name


def _has_body(node: fx.Node) -> bool:
    """Whether an operator takes graphs, as `cond` does."""
    return node.op == "call_function" and target_name(node.target).startswith("higher_order.")
