"""A graph of ATen operators as a callable: pieces that nnefc runs, and pieces that PyTorch runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nnefc.frontends.torch.program_error import ProgramError
from nnefc.options.compile_config import CompileConfig
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
from nnefc.support.errors import NnefError, warn_python

if TYPE_CHECKING:
    import torch
    from torch import fx

_MAX_CHANGES: Final = 3
"""Changes after which a weight is an input of the model."""
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

    Pieces are compiled again without the nodes that turn out to be unsupported, also for shapes of
    later calls; warnings name them.
    """

    def __init__(
        self, graph: fx.GraphModule, weights: Mapping[int, torch.Tensor], config: CompileConfig
    ) -> None:
        """`weights`: the tensors of inputs that are constants while they do not change."""
        self._graph = graph
        self._config = config
        nodes: list[fx.Node] = list(graph.graph.nodes)
        self._nodes = {node.name: node for node in nodes}
        self._names = [node.name for node in nodes if node.op == "placeholder"]
        self._results: Any = nodes[-1].args[0]
        changed = changed_inputs(graph)
        named = {self._names[i]: x for i, x in weights.items()}
        self._weights = {name: x for name, x in named.items() if name not in changed}
        self._excluded = set(unsupported_nodes(graph))
        self._updates = updates_in_place(graph)
        self._changes: Counter[str] = Counter()
        self._versions = self._present_versions()
        self._warn(self._excluded, "which nnefc cannot compile")
        self._compile()

    def _compile(self) -> None:
        """Compile the pieces; those with errors are cut again."""
        while True:
            pieces = pieces_of(self._graph, self._excluded)
            try:
                runs = [self._run_of(piece) for piece in pieces]
            except ProgramError as error:
                self._exclude(error)
                continue
            break
        self._steps: list[_Step] = []
        wanted = {each.name for each in self._results if hasattr(each, "name")}
        for piece, run in zip(reversed(pieces), reversed(runs), strict=True):
            dead = [name for name in {*piece.inputs, *piece.outputs} if name not in wanted]
            wanted.update(piece.inputs)
            self._steps.insert(0, _Step(run, piece.inputs, piece.outputs, dead))

    def _run_of(self, piece: Piece) -> Callable[..., Sequence[Any]]:
        """A piece as a callable; raises ProgramError for nodes that PyTorch must run."""
        if not piece.is_native:
            return piece.module.forward
        weights = {name: x for name, x in self._weights.items() if name in piece.inputs}
        if nodes := complex_nodes_of_boundary(piece, weights):
            message = "complex tensors are inputs or results of these operators"
            raise ProgramError(NnefError.of("torch/type", message).errors, nodes)
        try:
            return NativePiece(piece, weights, self._config, self._updates)
        except ProgramError:
            raise
        except NnefError as error:
            nodes = [each for each in piece.module.graph.nodes if each.op == "call_function"]
            raise ProgramError(error.errors, (each.name for each in nodes)) from None

    def _exclude(self, error: ProgramError) -> None:
        """Leave the nodes of an error to PyTorch, with a warning; raises one without new nodes."""
        new = error.nodes.intersection(self._nodes) - self._excluded
        if error.nodes.difference(self._nodes) or not new:  # within a body
            new |= {n.name for n in self._nodes.values() if _has_body(n)} - self._excluded
        if not new:
            raise error
        self._excluded |= new
        first = error.errors[0]
        where = f"{first.place}: " if first.place else ""
        warn_python(f"{where}PyTorch runs {self._listed(new)}: {first.text}")

    def _warn(self, names: Iterable[str], reason: str) -> None:
        """Warn of nodes that PyTorch runs, but for changes of inputs."""
        kept = [n for n in self._nodes.values() if n.name in names and not is_change(n)]
        if kept:
            place = place_of(kept[0])
            where = f"{place}: " if place else ""
            warn_python(f"{where}PyTorch runs {self._listed(n.name for n in kept)}, {reason}")

    def _listed(self, names: Iterable[str]) -> str:
        """The operators of some nodes, as text."""
        targets = sorted({target_name(self._nodes[name].target) for name in names})
        more = f" and {len(targets) - _LISTED} more operators" if len(targets) > _LISTED else ""
        return ", ".join(targets[:_LISTED]) + more

    def _present_versions(self) -> list[int]:
        """How often each weight has been changed."""
        return [0 if x.is_inference() else x._version for x in self._weights.values()]

    def _follow_changes(self, versions: list[int]) -> None:
        """Compile again for changed weights; those that change often become inputs."""
        triples = zip(self._weights, versions, self._versions, strict=True)
        changed = [name for name, now, before in triples if now != before]
        self._changes.update(changed)
        for name in changed:
            if self._changes[name] >= _MAX_CHANGES:
                del self._weights[name]
        self._versions = self._present_versions()
        self._compile()

    def __call__(self, *args: Any) -> list[Any]:
        """The results for the graph's inputs."""
        versions = self._present_versions()
        if versions != self._versions:
            self._follow_changes(versions)
        while True:
            try:
                return self._run(args)
            except ProgramError as error:  # changes so far are the same in a second run
                self._exclude(error)
                self._compile()

    def _run(self, args: Sequence[Any]) -> list[Any]:
        values = dict(zip(self._names, args, strict=True))
        for step in self._steps:
            found = step.run(*[values[name] for name in step.inputs])
            values.update(zip(step.outputs, found, strict=True))
            for name in step.dead:
                values.pop(name, None)
        return [values[each.name] if hasattr(each, "name") else each for each in self._results]


def _has_body(node: fx.Node) -> bool:
    """Whether an operator takes graphs, as `cond` does."""
    return node.op == "call_function" and target_name(node.target).startswith("higher_order.")
