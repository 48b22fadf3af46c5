"""Recurrent networks: all steps of a sequence in one call."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch is typed in part)

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from benchmarks.kernels.cases import Case, each, measure

GATES = "ifgo"

LSTM = """
extension tract_registry tract_core;
fragment step( c: tensor<scalar>, h: tensor<scalar>, i: tensor<scalar>, f: tensor<scalar>,
    g: tensor<scalar>, o: tensor<scalar>, u_i: tensor<scalar>, u_f: tensor<scalar>,
    u_g: tensor<scalar>, u_o: tensor<scalar> ) -> ( new_c: tensor<scalar>, new_h: tensor<scalar> )
{
    ii = sigmoid(i + matmul(h, u_i, transposeB = true));
    ff = sigmoid(f + matmul(h, u_f, transposeB = true));
    gg = tanh(g + matmul(h, u_g, transposeB = true));
    oo = sigmoid(o + matmul(h, u_o, transposeB = true));
    new_c = ff * c + ii * gg;
    new_h = oo * tanh(new_c);
}
"""


@cache
def _module(inputs: int, hidden: int) -> torch.nn.LSTM:
    return torch.nn.LSTM(inputs, hidden, bias=False)


def _torch_lstm(x: torch.Tensor, *weights: torch.Tensor) -> Any:
    w, u = weights[:4], weights[4:]
    module = _module(x.shape[2], u[0].shape[2])
    module.weight_ih_l0.data, module.weight_hh_l0.data = _joined(w), _joined(u)
    return module(x)[0]


@cache
def _joined(matrices: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return torch.cat(matrices, 1)[0].contiguous()


def _lstm(steps: int, inputs: int, hidden: int) -> Case:
    products = "".join(f"{g} = matmul(x, w_{g}, transposeB = true);" for g in GATES)
    scanned = ", ".join(f'("{g}", {g}, 0, 1)' for g in GATES)
    shared = ", ".join(f'("u_{g}", u_{g})' for g in GATES)
    return Case(
        f"lstm_{steps}x{inputs}_{hidden}",
        f"zero = tile([[[0.0]]], repeats = [1, 1, {hidden}]); {products}"
        f'output = tract_core_scan(body = "step", scan = [{scanned}], full = [{shared}],'
        'state = [("c", zero, "new_c"), ("h", zero, "new_h")],'
        'output = [("new_h", "full", 0, 1)], skip = 0);',
        {"x": (steps, 1, inputs)},
        _torch_lstm,
        weights={f"w_{g}": (1, hidden, inputs) for g in GATES}
        | {f"u_{g}": (1, hidden, hidden) for g in GATES},
        flops=2 * steps * 4 * hidden * (inputs + hidden),
        preamble=LSTM,
    )


@each(_lstm(200, 64, 128), _lstm(200, 64, 256), _lstm(200, 64, 512))
def test_recurrent(benchmark: Any, machine: Any, case: Case, implementation: str) -> None:
    measure(benchmark, machine, case, implementation)
