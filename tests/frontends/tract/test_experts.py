"""Mixtures of experts, against the formula evaluated token by token."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import NnefError
from tests.helpers.pytorch.arrays_close import assert_close

Array = np.ndarray[Any, Any]
WIDTH, HIDDEN, EXPERTS = 6, 10, 5
DOCUMENT = """version 1.0;
extension tract_registry tract_core;
extension tract_registry tract_transformers;
extension tract_symbol N;
graph net( {names} ) -> ( y )
{{
{inputs}
    y = tract_moe_ffn({names}, {attributes});
}}
"""


def operands(*, gated: bool, biased: bool, linear: bool) -> dict[str, Array]:
    random = np.random.default_rng(3)
    up, down = (EXPERTS, WIDTH, HIDDEN), (EXPERTS, HIDDEN, WIDTH)
    if linear:
        up, down = (up[0], up[2], up[1]), (down[0], down[2], down[1])
    shapes: dict[str, tuple[int, ...]] = {"wg": (EXPERTS, WIDTH), "w1": up, "w2": down}
    if gated:
        shapes["w3"] = up
    if biased:
        shapes |= {"wg_bias": (EXPERTS,), "w1_bias": (EXPERTS, HIDDEN)}
        shapes |= {"w3_bias": (EXPERTS, HIDDEN), "w2_bias": (EXPERTS, WIDTH)}
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def written(folder: Path, given: dict[str, Array], attributes: dict[str, Any]) -> Any:
    shown = {"x": f"[N, {WIDTH}]", **{name: list(array.shape) for name, array in given.items()}}
    lines = [
        f"    {n} = tract_core_external(shape = {s}, datum_type = 'f32');" for n, s in shown.items()
    ]
    text = DOCUMENT.format(
        names=", ".join(shown),
        inputs="\n".join(lines),
        attributes=", ".join(f"{name} = {value!r}" for name, value in attributes.items()),
    )
    (folder / "graph.nnef").write_text(text)
    return nnefc.compile(folder)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def active(name: str, x: Array, *, gated: bool) -> Array:
    if name == "relu":
        return np.maximum(x, 0)
    if name != "gelu":
        return x * sigmoid(x)
    if gated:
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + np.vectorize(math.erf)(x * math.sqrt(0.5)))


def expected(x: Array, given: dict[str, Array], attributes: dict[str, Any]) -> Array:
    of: dict[str, Any] = {name: array.astype(np.float64) for name, array in given.items()}
    if attributes.get("expert_layout") == "linear":
        of |= {name: of[name].transpose(0, 2, 1) for name in ("w1", "w2", "w3") if name in of}
    zero: Any = np.zeros((EXPERTS, 1))
    bias = {name: of.get(f"{name}_bias", zero) for name in ("w1", "w2", "w3")}
    rows: list[Array] = []
    for token in x.astype(np.float64):
        logits: Array = of["wg"] @ token + of.get("wg_bias", 0.0)
        shares: Array = np.exp(logits - logits.max())
        chosen: list[int] = np.argsort(-logits, kind="stable")[: attributes["k"]].tolist()
        weights: Array = {
            "softmax_topk": shares[chosen] / shares[chosen].sum(),
            "softmax_all": shares[chosen] / shares.sum(),
            "sigmoid": sigmoid(logits[chosen]),
            "raw": logits[chosen],
        }[attributes["gate"]]
        row: Array = np.zeros(WIDTH)
        for weight, e in zip(weights, chosen, strict=True):
            first: Array = token @ of["w1"][e] + bias["w1"][e]
            hidden = active(attributes["activation"], first, gated="w3" in of)
            if "w3" in of:
                third: Array = token @ of["w3"][e] + bias["w3"][e]
                if (limit := attributes.get("act_limit")) is not None:
                    first, third = np.minimum(first, limit), np.clip(third, -limit, limit) + 1
                    hidden = first * sigmoid(attributes["act_alpha"] * first)
                hidden = hidden * third
            row = row + weight * (hidden @ of["w2"][e] + bias["w2"][e])
        rows.append(row)
    return np.array(rows)


OTHERS: list[tuple[str, int, str, bool]] = [
    ("softmax_all", 1, "linear", False),
    ("sigmoid", 2, "canonical", True),
    ("softmax_topk", 5, "linear", True),
    ("raw", 3, "canonical", True),
]
CASES: list[tuple[dict[str, Any], bool, bool]] = [
    ({"activation": "swiglu", "gate": "softmax_topk", "k": 2, "act_alpha": 1.5, "act_limit": 0.75},
     True, True),
    *(({"activation": a, "gate": g, "k": 2}, gated, False)
      for a in ("silu", "gelu", "relu") for g in ("raw", "softmax_topk")
      for gated in (False, True)),
    *(({"activation": "swiglu", "gate": g, "k": k, "expert_layout": layout}, True, biased)
      for g, k, layout, biased in OTHERS),
]  # fmt: skip


@pytest.mark.parametrize(("attributes", "gated", "biased"), CASES)
def test_mixtures_match_the_formula(
    attributes: dict[str, Any], gated: bool, biased: bool, tmp_path: Path
) -> None:
    linear = attributes.get("expert_layout") == "linear"
    given = operands(gated=gated, biased=biased, linear=linear)
    model = written(tmp_path, given, attributes)
    for tokens in (1, 2, 9):
        x = np.random.default_rng(tokens).normal(size=(tokens, WIDTH)).astype(np.float32)
        assert_close(model(x, *given.values()), expected(x, given, attributes), 1e-5)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"k": 6}, "k = 6 of 5 experts"),
        ({"k": 0}, "k = 0 of 5 experts"),
        ({"k": 2, "gate": "best"}, "gate = 'best' is none of"),
        ({"k": 2, "activation": "tanh"}, "activation = 'tanh' is none of"),
    ],
)
def test_wrong_attributes_are_errors(
    attributes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    given = operands(gated=True, biased=False, linear=False)
    with pytest.raises(NnefError, match=message):
        written(tmp_path, given, attributes)(np.ones((2, WIDTH), np.float32), *given.values())
