"""A graph split into sequential stages, each with its own number of turns over the batch.

    stage 1, 8 turns     %a: [8,3,32,32] ─▶ the graph of one item ─▶ %b: [8,64]
    stage 2, 1 turn      %b: [8,64]      ─▶ the graph of all 8    ─▶ %y: [8,10]

The graph of a stage computes the items of one turn.  Tensors between stages, and the inputs and
outputs of the model, hold the whole batch; turn i reads and writes slice i of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnefc.ir.graph import Graph
from nnefc.ir.types import TensorType


@dataclass(eq=False, slots=True)
class BatchTensor:
    """A tensor of the whole batch: an input or output of the model, or passed between stages.

    `input`, `output`: its position among the inputs or outputs of the model, or None.
    """

    type: TensorType
    name: str = ""
    input: int | None = None
    output: int | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """Operations that run `turns` times, each time on the next items of the batch.

    `inputs` and `outputs` correspond to those of the graph.  A tensor with the same type in the
    graph is passed whole in every turn; others have `turns` slices along dimension 0.
    """

    graph: Graph
    turns: int
    inputs: tuple[BatchTensor, ...]
    outputs: tuple[BatchTensor, ...]


def single_stage(graph: Graph) -> Stage:
    """A whole graph as one stage with one turn."""
    return Stage(
        graph,
        1,
        tuple(BatchTensor(v.type, v.name, input=i) for i, v in enumerate(graph.inputs)),
        tuple(
            BatchTensor(v.type, name, output=i)
            for i, (name, v) in enumerate(zip(graph.output_names, graph.outputs, strict=True))
        ),
    )
