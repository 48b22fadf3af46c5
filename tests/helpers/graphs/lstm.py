"""An LSTM as exporters write it, and its reference in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.ir import DType, Graph, Op, TensorType, Value, Variable
from nnefc.ops.internal.scan import build_scan
from nnefc.ops.tools.build import build

Array = np.ndarray[Any, Any]
F32 = DType.FLOAT32
GATES = "ifgo"


def lstm_graph(
    steps: int, width: int, hidden: int, *, batch: int = 1, backwards: bool = False
) -> Graph:
    """x [steps, batch, width] -> y [steps, batch, hidden], h and c; weights are random.

    Products with inputs are computed for all steps at once, those with states in a loop.
    """
    graph, body = Graph("lstm"), Graph("step")
    random = np.random.default_rng(0)

    def variable(into: Graph, label: str, *shape: int) -> Value:
        data = random.standard_normal(shape).astype(np.float32) * np.float32(hidden**-0.5)
        into.variables[label.lower()] = Variable(label, TensorType(F32, shape), data)
        return _op(into, "variable", dtype=F32, shape=shape, label=label).output

    def product(into: Graph, x: Value, weights: Value) -> Value:
        return _op(into, "matmul", x, weights, transposeA=False, transposeB=True).output

    x = graph.add_input(TensorType(F32, (steps, batch, width)), "x")
    state = TensorType(F32, (1, batch, hidden))
    c, h, *pieces = (body.add_input(state, name) for name in ("c", "h", *GATES))
    products: list[Value] = []
    sums: list[Value] = []
    for gate, piece in zip(GATES, pieces, strict=True):
        bias = variable(graph, f"b_{gate}", 1, 1, hidden)
        whole = product(graph, x, variable(graph, f"w_{gate}", 1, hidden, width))
        products.append(_op(graph, "add", whole, bias).output)
        recurrent = product(body, h, variable(body, f"u_{gate}", 1, hidden, hidden))
        sums.append(_op(body, "add", piece, recurrent).output)
    gates = [_op(body, "tanh" if g == "g" else "sigmoid", s).output for g, s in zip(GATES, sums)]
    kept = _op(body, "mul", gates[1], c).output
    added = _op(body, "mul", gates[0], gates[2]).output
    new_c = _op(body, "add", kept, added).output
    new_h = _op(body, "mul", gates[3], _op(body, "tanh", new_c).output).output
    for name, value in (("new_c", new_c), ("new_h", new_h), ("y", new_h)):
        body.add_output(value, name)
    zeros = [_op(graph, "constant", dtype=F32, shape=state.dims, value=(0.0,)) for _ in range(2)]
    initial = [op.output for op in zeros]
    directions = (backwards,) * (len(products) + 1)
    made = build_scan(graph, body, initial, products, turns=steps, backwards=directions)
    for name, value in zip(("c", "h", "y"), made.outputs, strict=True):
        graph.add_output(value, name)
    return graph


def _op(graph: Graph, name: str, *operands: Value, dtype: DType | None = None, **a: Any) -> Op:
    return build(graph, name, operands, a, dtype=dtype)


def lstm_loop(graph: Graph, x: Array, *, backwards: bool = False) -> dict[str, Array]:
    """The results of such a graph in float64, by the formulas of the literature."""
    w = {key: np.asarray(v.data, np.float64)[0] for key, v in graph.variables.items()}
    c = h = np.zeros((x.shape[1], len(w["u_i"])))
    y = np.zeros((len(x), *h.shape))
    for t in reversed(range(len(x))) if backwards else range(len(x)):
        i, f, g, o = (x[t] @ w[f"w_{k}"].T + h @ w[f"u_{k}"].T + w[f"b_{k}"] for k in GATES)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        h = y[t] = _sigmoid(o) * np.tanh(c)
    return {"c": c[None], "h": h[None], "y": y}


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))
