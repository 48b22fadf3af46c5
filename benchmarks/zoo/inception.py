"""Networks of parallel branches: GoogLeNet and Inception-v3, without auxiliary classifiers."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.builder import Builder, Node


def googlenet(b: Builder, size: int = 224, classes: int = 1000) -> dict[str, Node]:
    """Szegedy et al., arXiv:1409.4842."""
    x = b.input(3, size, size)
    x = b.max_pool(b.conv_relu(x, "conv1", 64, 7, stride=2, padding=3), 3, 2, ceil=True)
    x = b.local_response_norm(x, 5, 0.0001, 0.75)
    x = b.conv_relu(b.conv_relu(x, "conv2/reduce", 64, 1), "conv2", 192, 3, padding=1)
    x = b.max_pool(b.local_response_norm(x, 5, 0.0001, 0.75), 3, 2, ceil=True)
    table = {
        "3a": (64, 96, 128, 16, 32, 32),
        "3b": (128, 128, 192, 32, 96, 64),
        "4a": (192, 96, 208, 16, 48, 64),
        "4b": (160, 112, 224, 24, 64, 64),
        "4c": (128, 128, 256, 24, 64, 64),
        "4d": (112, 144, 288, 32, 64, 64),
        "4e": (256, 160, 320, 32, 128, 128),
        "5a": (256, 160, 320, 32, 128, 128),
        "5b": (384, 192, 384, 48, 128, 128),
    }
    for name, channels in table.items():
        if name in ("4a", "5a"):
            x = b.max_pool(x, 3, 2, ceil=True)
        x = _module(b, x, f"inception{name}", *channels)
    return {"output": b.softmax(b.linear(b.global_average(x), "fc", classes))}


def _module(
    b: Builder, x: Node, label: str, one: int, reduce3: int, three: int, reduce5: int,
    five: int, pool: int,
) -> Node:  # fmt: skip
    y1 = b.conv_relu(x, f"{label}/1x1", one, 1)
    y3 = b.conv_relu(x, f"{label}/3x3_reduce", reduce3, 1)
    y3 = b.conv_relu(y3, f"{label}/3x3", three, 3, padding=1)
    y5 = b.conv_relu(x, f"{label}/5x5_reduce", reduce5, 1)
    y5 = b.conv_relu(y5, f"{label}/5x5", five, 5, padding=2)
    yp = b.conv_relu(b.max_pool(x, 3, 1, 1), f"{label}/pool", pool, 1)
    return b.concat(y1, y3, y5, yp)


def inception_v3(b: Builder, size: int = 299, classes: int = 1000) -> dict[str, Node]:
    """Szegedy et al., arXiv:1512.00567."""
    x = b.input(3, size, size)
    x = _conv(b, x, "conv1a", 32, 3, stride=2)
    x = _conv(b, x, "conv2a", 32, 3)
    x = _conv(b, x, "conv2b", 64, 3, padding=1)
    x = b.max_pool(x, 3, 2)
    x = _conv(b, x, "conv3b", 80, 1)
    x = b.max_pool(_conv(b, x, "conv4a", 192, 3), 3, 2)
    for name, pool in (("5b", 32), ("5c", 64), ("5d", 64)):
        x = _narrow(b, x, f"mixed{name}", pool)
    x = _reduce_35(b, x, "mixed6a")
    for name, inner in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        x = _factorised(b, x, f"mixed{name}", inner)
    x = _reduce_17(b, x, "mixed7a")
    for name in ("7b", "7c"):
        x = _wide(b, x, f"mixed{name}")
    return {"output": b.softmax(b.linear(b.global_average(x), "fc", classes))}


def _conv(
    b: Builder, x: Node, label: str, channels: int, kernel: int | tuple[int, int], **options: Any
) -> Node:
    return b.relu(b.conv_norm(x, label, channels, kernel, epsilon=1e-3, **options))


def _pooled(b: Builder, x: Node, label: str, channels: int) -> Node:
    return _conv(b, b.avg_pool(x, 3, 1, 1), label, channels, 1)


def _narrow(b: Builder, x: Node, label: str, pool: int) -> Node:
    one = _conv(b, x, f"{label}/1x1", 64, 1)
    five = _conv(b, _conv(b, x, f"{label}/5x5_1", 48, 1), f"{label}/5x5_2", 64, 5, padding=2)
    three = _conv(b, _conv(b, x, f"{label}/3x3_1", 64, 1), f"{label}/3x3_2", 96, 3, padding=1)
    three = _conv(b, three, f"{label}/3x3_3", 96, 3, padding=1)
    return b.concat(one, five, three, _pooled(b, x, f"{label}/pool", pool))


def _reduce_35(b: Builder, x: Node, label: str) -> Node:
    three = _conv(b, x, f"{label}/3x3", 384, 3, stride=2)
    double = _conv(b, x, f"{label}/double_1", 64, 1)
    double = _conv(b, double, f"{label}/double_2", 96, 3, padding=1)
    double = _conv(b, double, f"{label}/double_3", 96, 3, stride=2)
    return b.concat(three, double, b.max_pool(x, 3, 2))


def _factorised(b: Builder, x: Node, label: str, inner: int) -> Node:
    row: dict[str, Any] = {"kernel": (1, 7), "padding": (0, 3)}
    column: dict[str, Any] = {"kernel": (7, 1), "padding": (3, 0)}
    one = _conv(b, x, f"{label}/1x1", 192, 1)
    seven = _conv(b, x, f"{label}/7x7_1", inner, 1)
    seven = _conv(b, seven, f"{label}/7x7_2", inner, **row)
    seven = _conv(b, seven, f"{label}/7x7_3", 192, **column)
    double = _conv(b, x, f"{label}/double_1", inner, 1)
    for i, (channels, form) in enumerate([(inner, column), (inner, row), (inner, column)]):
        double = _conv(b, double, f"{label}/double_{i + 2}", channels, **form)
    double = _conv(b, double, f"{label}/double_5", 192, **row)
    return b.concat(one, seven, double, _pooled(b, x, f"{label}/pool", 192))


def _reduce_17(b: Builder, x: Node, label: str) -> Node:
    three = _conv(b, _conv(b, x, f"{label}/3x3_1", 192, 1), f"{label}/3x3_2", 320, 3, stride=2)
    seven = _conv(b, x, f"{label}/7x7_1", 192, 1)
    seven = _conv(b, seven, f"{label}/7x7_2", 192, (1, 7), padding=(0, 3))
    seven = _conv(b, seven, f"{label}/7x7_3", 192, (7, 1), padding=(3, 0))
    seven = _conv(b, seven, f"{label}/7x7_4", 192, 3, stride=2)
    return b.concat(three, seven, b.max_pool(x, 3, 2))


def _wide(b: Builder, x: Node, label: str) -> Node:
    one = _conv(b, x, f"{label}/1x1", 320, 1)
    three = _fork(b, _conv(b, x, f"{label}/3x3", 384, 1), f"{label}/3x3")
    double = _conv(b, x, f"{label}/double_1", 448, 1)
    double = _conv(b, double, f"{label}/double_2", 384, 3, padding=1)
    return b.concat(
        one, three, _fork(b, double, f"{label}/double"), _pooled(b, x, f"{label}/pool", 192)
    )


def _fork(b: Builder, x: Node, label: str) -> Node:
    row = _conv(b, x, f"{label}_row", 384, (1, 3), padding=(0, 1))
    return b.concat(row, _conv(b, x, f"{label}_column", 384, (3, 1), padding=(1, 0)))
