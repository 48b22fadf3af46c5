"""Loops in the IR, with equivalents in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.ir import Graph, Op, parse_graph
from nnefc.ir.verify import check
from nnefc.lower import lower
from nnefc.ops.tools.verify import rule_problems
from nnefc.runtime.run.compiled_model import CompiledModel
from tests.helpers.examples import examples
from tests.helpers.kernels.one_op import normal

Array = np.ndarray[Any, Any]

SETTINGS = examples(0.6)


def sums(turns: int, chunk: int, backwards: tuple[bool, bool], *, rest: int = 3) -> Graph:
    """Sums of slices, two numbers that change places where items are large, and whether any was."""
    part, all_ = f"float32[{chunk},{rest}]", f"float32[{turns * chunk},{rest}]"
    text = f"""
    graph sums(%x: {all_}, %f: float32[1,{rest}], %t: {part}, %a: int32[], %b: int32[],
      %s: bool[1]) -> (total = %t1, a = %a1, b = %b1, s = %s1, y = %y) {{
      %t1: {part}, %a1: int32[], %b1: int32[], %s1: bool[1], %y: {all_} =
        scan(%t, %a, %b, %s, %x, %f) {{turns = {turns}, states = 4, scanned = 1,
        backwards = [{", ".join(str(b).lower() for b in backwards)}],
        body = graph turn(%t: {part}, %a: int32[], %b: int32[], %s: bool[1], %x: {part},
          %f: float32[1,{rest}]) -> (t1 = %t1, a1 = %a1, b1 = %b1, s1 = %s1, y = %t1) {{
          %scaled: {part} = mul(%x, %f)
          %t1: {part} = add(%t, %scaled)
          %one: float32[] = constant() {{shape = [], value = [1.0]}}
          %over: bool[{chunk},{rest}] = gt(%scaled, %one)
          %any: bool[1,1] = any_reduce(%over) {{axes = [0, 1]}}
          %large: bool[1] = squeeze(%any) {{axes = [0]}}
          %flag: bool[] = squeeze(%large) {{axes = [0]}}
          %a1: int32[] = select(%flag, %b, %a)
          %b1: int32[] = select(%flag, %a, %b)
          %s1: bool[1] = or(%s, %large)
        }}}}
    }}"""
    graph = parse_graph(text)
    check(graph, rule_problems)
    return graph


def sums_inputs(turns: int, chunk: int, rest: int = 3) -> dict[str, Array]:
    x, f, t = (
        normal(i, *s) for i, s in enumerate([(turns * chunk, rest), (1, rest), (chunk, rest)])
    )
    return {
        "x": x,
        "f": f,
        "t": t,
        "a": np.array(7, np.int32),
        "b": np.array(-5, np.int32),
        "s": np.zeros(1, bool),
    }


def sums_loop(inputs: dict[str, Array], turns: int, backwards: tuple[bool, bool]) -> list[Array]:
    total, a, b, seen = (inputs[name].copy() for name in "tabs")
    total = total.astype(np.float64)
    chunk = len(inputs["x"]) // turns
    y = np.zeros_like(inputs["x"], np.float64)
    for turn in range(turns):
        take, give = (turns - 1 - turn if back else turn for back in backwards)
        scaled = inputs["x"][take * chunk :][:chunk].astype(np.float64) * inputs["f"]
        total = total + scaled
        if np.any(scaled > 1):
            a, b, seen = b, a, np.ones(1, bool)
        y[give * chunk :][:chunk] = total
    return [total, a, b, seen, y]


MOST = 7
"""Halvings after which no further turn of the outer loop counts."""


def halvings(turns: int, inner: int, *, stacked: bool = True) -> Graph:
    """Halve v until it is at most a limit, then triple it; again, up to MOST halvings.

    Both loops have a condition.  `stacked`: v after each turn of the outer one is a result, too.
    """
    rows = ", rows = %rows" if stacked else ""
    states = "%go: bool[1], %n: int64[1], %v: float32[1,3], %limit: float32[1,1]"
    options = "states = 3, scanned = 0, backwards = [false], condition = 0"
    text = f"""
    graph halvings(%go: bool[1], %n: int64[1], %v: float32[1,3], %limit: float32[1,1])
      -> (n = %n9, v = %v9{rows}) {{
      %go9: bool[1], %n9: int64[1], %v9: float32[1,3], %rows: float32[{turns},3] =
        scan(%go, %n, %v, %limit) {{turns = {turns}, {options},
        body = graph outer({states}) -> (go = %go3, n = %n2, v = %v3, row = %v3) {{
          %go1: bool[1], %n2: int64[1], %v2: float32[1,3], %all: float32[{inner},3] =
            scan(%go, %n, %v, %limit) {{turns = {inner}, {options},
            body = graph turn({states}) -> (go = %go2, n = %n1, v = %v1, row = %v1) {{
              %half: float32[] = constant() {{shape = [], value = [0.5]}}
              %less: float32[1,3] = mul(%v, %half)
              %v1: float32[1,3] = select(%go, %less, %v)
              %one: int64[1] = cast(%go)
              %n1: int64[1] = add(%n, %one)
              %most: float32[1,1] = max_reduce(%v1) {{axes = [1]}}
              %above: bool[1,1] = gt(%most, %limit)
              %more: bool[1] = squeeze(%above) {{axes = [0]}}
              %go2: bool[1] = and(%go, %more)
            }}}}
          %three: float32[] = constant() {{shape = [], value = [3.0]}}
          %larger: float32[1,3] = mul(%v2, %three)
          %v3: float32[1,3] = select(%go, %larger, %v2)
          %seven: int64[] = constant() {{shape = [], value = [{MOST}]}}
          %fewer: bool[1] = lt(%n2, %seven)
          %go3: bool[1] = and(%go, %fewer)
        }}}}
    }}"""
    graph = parse_graph(text)
    check(graph, rule_problems)
    return graph


def close(found: Any, wanted: Any, rtol: float = 1e-5) -> None:
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol, rtol)


def compiled(graph: Graph, threads: int = 1) -> CompiledModel:
    return CompiledModel.of(lower(graph, threads=threads), graph, threads=threads)


def only_loop(graph: Graph) -> Op:
    (loop,) = (op for op in graph.ops if op.name == "scan")
    return loop


def names(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops]
