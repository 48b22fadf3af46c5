"""Networks with skip connections: ResNet, DenseNet."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.zoo.builder import Builder, Node


def resnet(b: Builder, depth: int, size: int = 224, classes: int = 1000) -> dict[str, Node]:
    """He et al., arXiv:1512.03385; `depth` 18 or 50 (the stride is on the 3x3 of a bottleneck)."""
    layers = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}[depth]
    block = _bottleneck if depth == 50 else _basic
    x = b.input(3, size, size)
    x = b.relu(b.conv_norm(x, "conv1", 64, 7, stride=2, padding=3))
    x = b.max_pool(x, 3, 2, 1)
    for stage, count in enumerate(layers):
        for i in range(count):
            stride = 2 if stage and not i else 1
            x = block(b, x, f"stage{stage + 1}/block{i + 1}", 64 << stage, stride)
    return {"output": b.softmax(b.linear(b.global_average(x), "fc", classes))}


def _basic(b: Builder, x: Node, label: str, channels: int, stride: int) -> Node:
    y = b.relu(b.conv_norm(x, f"{label}/a", channels, 3, stride=stride, padding=1))
    y = b.conv_norm(y, f"{label}/b", channels, 3, padding=1, scale=0.5)
    return _join(b, y, _shortcut(b, x, label, channels, stride))


def _bottleneck(b: Builder, x: Node, label: str, channels: int, stride: int) -> Node:
    y = b.relu(b.conv_norm(x, f"{label}/a", channels, 1))
    y = b.relu(b.conv_norm(y, f"{label}/b", channels, 3, stride=stride, padding=1))
    y = b.conv_norm(y, f"{label}/c", 4 * channels, 1, scale=0.5)
    return _join(b, y, _shortcut(b, x, label, 4 * channels, stride))


def _join(b: Builder, y: Node, shortcut: Node) -> Node:
    """relu(y + shortcut); more than half of the sum remains, as the shortcut is mostly positive."""
    return replace(b.relu(b.add(y, shortcut)), power=shortcut.power + y.power / 2)


def _shortcut(b: Builder, x: Node, label: str, channels: int, stride: int) -> Node:
    if x.channels == channels and stride == 1:
        return x
    return b.conv_norm(x, f"{label}/shortcut", channels, 1, stride=stride)


def densenet121(
    b: Builder, size: int = 224, classes: int = 1000, growth: int = 32
) -> dict[str, Node]:
    """Huang et al., arXiv:1608.06993."""
    x = b.input(3, size, size)
    x = b.relu(b.conv_norm(x, "conv0", 2 * growth, 7, stride=2, padding=3))
    x = b.max_pool(x, 3, 2, 1)
    for block, count in enumerate((6, 12, 24, 16), start=1):
        if block > 1:
            x = _norm_relu_conv(b, x, f"transition{block - 1}", x.channels // 2, 1)
            x = b.avg_pool(x, 2, 2)
        for i in range(count):
            label = f"block{block}/layer{i + 1}"
            y = _norm_relu_conv(b, x, f"{label}/a", 4 * growth, 1)
            x = b.concat(x, _norm_relu_conv(b, y, f"{label}/b", growth, 3))
    x = b.relu(b.batch_norm(x, "norm5"))
    return {"output": b.softmax(b.linear(b.global_average(x), "fc", classes))}


def _norm_relu_conv(b: Builder, x: Node, label: str, channels: int, kernel: int) -> Node:
    x = b.relu(b.batch_norm(x, label))
    return b.conv(x, label, channels, kernel, padding=kernel // 2, bias=False)
