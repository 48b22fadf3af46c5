"""The networks of `examples/` in PyTorch; well-known ones are in `benchmarks.zoo`."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch is typed in part)

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def alexnet_torch(data: Array, variables: dict[str, Array]) -> Array:
    """AlexNet as in appendix B.1, in float64; `variables` by label."""
    import torch

    f = torch.nn.functional
    x = torch.from_numpy(data.astype(np.float64))
    layers = [("conv1", 4, 0), ("conv2", 1, 2), ("conv3", 1, 1), ("conv4", 1, 1), ("conv5", 1, 1)]
    layers += [("fc6", 1, 0), ("fc7", 1, 0), ("fc8", 1, 0)]
    with torch.no_grad():
        for label, stride, padding in layers:
            w, b = (
                torch.from_numpy(variables[f"alexnet_v2/{label}/{kind}"].astype(np.float64))
                for kind in ("kernel", "bias")
            )
            x = f.conv2d(x, w, b[0], stride, padding)
            if label != "fc8":
                x = torch.relu(x)
            if label in ("conv1", "conv2", "conv5"):
                x = f.max_pool2d(x, 3, 2)
        return torch.softmax(x, 1).numpy()


def lstm_torch(steps: Array, variables: dict[str, Array]) -> list[tuple[Array, Array]]:
    """(hidden, cell) state after each step of `examples/lstm`, from PyTorch's cell in float64."""
    import torch

    w = variables["lstm/weights"].astype(np.float64)
    bias = variables["lstm/bias"][0].astype(np.float64)
    hidden, inputs = bias.size // 4, steps.shape[-1]
    cell = torch.nn.LSTMCell(inputs, hidden).double()
    states: list[tuple[Array, Array]] = []
    with torch.no_grad():
        cell.weight_ih.copy_(torch.from_numpy(w[:, :inputs]))
        cell.weight_hh.copy_(torch.from_numpy(w[:, inputs:]))
        cell.bias_ih.copy_(torch.from_numpy(bias))
        cell.bias_hh.zero_()
        state = tuple(
            torch.from_numpy(variables[f"lstm/{kind}"].astype(np.float64))
            for kind in ("hidden", "cell")
        )
        for step in steps:
            state = cell(torch.from_numpy(step.astype(np.float64)), state)
            states.append((state[0].numpy(), state[1].numpy()))
    return states
