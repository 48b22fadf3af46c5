"""Layers of codes that are computed on reals, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from nnefc.ir import Graph, Op
from nnefc.ir.graph import walk
from nnefc.passes.cleanup.eliminate_dead_code import EliminateDeadCode
from nnefc.passes.pipeline import PassRun
from nnefc.passes.quantize.choose_code_products import ChooseCodeProducts
from nnefc.passes.quantize.fuse_integers import float_products
from nnefc.passes.quantize.operations_on_reals import operations_on_reals, quantized_results
from nnefc.passes.quantize.products_of_reals import products_of_reals
from nnefc.passes.quantize.recognise_quantizations import RecogniseQuantizations, unrecognised
from nnefc.support.errors import Diagnostic, NnefError

RULE = "quantization/float"
_BLOCKS = "weights in blocks became reals"
_MOVES = ("cast", "reshape", "squeeze", "transpose", "unsqueeze")


@dataclass(slots=True)
class FloatLayers:
    """A hook for `run_pipeline` that collects the operations on codes that compute on reals."""

    found: list[tuple[Op, str]] = field(default_factory=list[tuple[Op, str]])
    """Operations and reasons."""
    layers: list[tuple[Op, str]] = field(default_factory=list[tuple[Op, str]])
    """Those of them whose results are codes in the document, and products."""
    products: Counter[str] = field(default_factory=Counter[str])
    """Products of reals in a graph with codes, by name: their bits depend on the processor."""

    def __call__(self, graph: Graph, ran: PassRun) -> None:
        """Collect the operations of the graph after a pass."""
        if ran.name == RecogniseQuantizations.name:
            reasons = ((op, unrecognised(op)) for op in walk(graph))
            self.found += [(op, reason) for op, reason in reasons if reason is not None]
            self.layers += self.found
            self.found += products_of_reals_of_blocks(graph)
        if ran.name == EliminateDeadCode.name and ran.stages == 1:
            self.products = products_of_reals(graph)
        if ran.name == ChooseCodeProducts.name:
            graph = graph.clone()  # passes on codes leave the operations that they replace
            EliminateDeadCode().run(graph)
            products, quantized = float_products(graph), quantized_results(graph)
            others = operations_on_reals(graph, quantized)
            self.found += [*products, *others]
            self.layers += [*products, *((op, why) for op, why in others if op in quantized)]

    def counted(self) -> Counter[tuple[str, str]]:
        """How many operations compute on reals, by name and reason."""
        return Counter((op.name, reason) for op, reason in self.found)

    def names(self) -> dict[tuple[str, str], list[str]]:
        """The names of results that are computed on reals, by operation and reason."""
        found: dict[tuple[str, str], list[str]] = {}
        for op, reason in self.found:
            names = found.setdefault((op.name, reason), [])
            names += [value.name for value in op.outputs if value.name]
        return found

    def require_none(self) -> None:
        """Raise NnefError `quantization/float` with every layer that computes on reals."""
        problems = [
            Diagnostic(RULE, _message(op, reason), op.location.place if op.location else None)
            for op, reason in self.layers
        ]
        if problems:
            raise NnefError(problems)


def products_of_reals_of_blocks(graph: Graph) -> list[tuple[Op, str]]:
    """Products that read reals of known codes in blocks, and why these are not read in blocks."""
    found: list[tuple[Op, str]] = []
    for op in walk(graph):
        if op.name not in ("matmul", "linear"):
            continue
        for value in op.inputs[:2]:
            source = value.op
            while source is not None and source.name in _MOVES:
                source = source.inputs[0].op
            if source is None or source.name != "variable":
                continue
            variable = graph.variables.get(str(source.attributes["label"]).lower())
            if variable is not None and variable.reals_of_blocks:
                found.append((op, f"{_BLOCKS}: {variable.reals_of_blocks}"))
    return found


def _message(op: Op, reason: str) -> str:
    name = next((f" '{value.name}'" for value in op.outputs if value.name), "")
    return f"{op.name}{name} is computed in floats: {reason}"
