"""A graph in stages, which run one after the other, each in its own number of turns over the batch.

    stage 1, 8 turns     %a: [8,3,32,32] ─▶ the graph of one item ─▶ %b: [8,64]
    stage 2, 1 turn      %b: [8,64]      ─▶ the graph of all 8    ─▶ %y: [8,10]

The graph of a stage knows the items of one turn only.  What stages take from each other and from
the caller are tensors of the whole batch; turn i reads and writes slice i of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnefc.ir.graph import Graph
from nnefc.ir.types import TensorType


@dataclass(eq=False, slots=True)
class BatchTensor:
    """A tensor of the whole batch: an input or output of the model, or what stages pass on.

    `input`, `output`: its number among those of the model, if it is one.
    """

    type: TensorType
    name: str = ""
    input: int | None = None
    output: int | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """Operations that run `turns` times, each time on the next items of the batch.

    `inputs` and `outputs` are those of the graph, of the whole batch.  One that has the same type
    in the graph is there as a whole in every turn; others have `turns` slices along dimension 0.
    """

    graph: Graph
    turns: int
    inputs: tuple[BatchTensor, ...]
    outputs: tuple[BatchTensor, ...]


def single_stage(graph: Graph) -> Stage:
    """All of a graph, at once."""
    return Stage(
        graph,
        1,
        tuple(BatchTensor(v.type, v.name, input=i) for i, v in enumerate(graph.inputs)),
        tuple(
            BatchTensor(v.type, name, output=i)
            for i, (name, v) in enumerate(zip(graph.output_names, graph.outputs, strict=True))
        ),
    )
