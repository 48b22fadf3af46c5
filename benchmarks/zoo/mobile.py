"""Networks for small devices: MobileNetV2, ShuffleNetV2, EfficientNet-B0."""

from __future__ import annotations

from benchmarks.zoo.builder import Builder, Node


def mobilenet_v2(b: Builder, size: int = 224, classes: int = 1000) -> dict[str, Node]:
    """Sandler et al., arXiv:1801.04381, width 1."""
    x = b.input(3, size, size)
    x = b.relu6(b.conv_norm(x, "conv1", 32, 3, stride=2, padding=1))
    table = [  # expansion, channels, repeats, first stride
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]
    for stage, (expansion, channels, repeats, first) in enumerate(table):
        for i in range(repeats):
            stride = 1 if i else first
            x = _inverted(b, x, f"stage{stage + 1}/block{i + 1}", expansion, channels, stride)
    x = b.relu6(b.conv_norm(x, "last", 1280, 1))
    return {"output": b.softmax(b.linear(b.global_average(x), "fc", classes))}


def _inverted(b: Builder, x: Node, label: str, expansion: int, channels: int, stride: int) -> Node:
    y = x
    if expansion > 1:
        y = b.relu6(b.conv_norm(y, f"{label}/expand", expansion * x.channels, 1))
    y = b.relu6(_depthwise(b, y, f"{label}/depthwise", 3, stride))
    y = b.conv_norm(y, f"{label}/project", channels, 1)
    return b.add(x, y) if stride == 1 and x.channels == channels else y


def _depthwise(b: Builder, x: Node, label: str, kernel: int, stride: int) -> Node:
    groups = x.channels
    return b.conv_norm(x, label, groups, kernel, stride=stride, padding=kernel // 2, groups=groups)


def shufflenet_v2(b: Builder, size: int = 224, classes: int = 1000) -> dict[str, Node]:
    """Ma et al., arXiv:1807.11164, width 1."""
    x = b.input(3, size, size)
    x = b.max_pool(b.relu(b.conv_norm(x, "conv1", 24, 3, stride=2, padding=1)), 3, 2, 1)
    for stage, (channels, repeats) in enumerate([(116, 4), (232, 8), (464, 4)], start=2):
        for i in range(repeats):
            x = _shuffle_unit(b, x, f"stage{stage}/unit{i + 1}", channels, 1 if i else 2)
    x = b.relu(b.conv_norm(x, "conv5", 1024, 1))
    return {"output": b.softmax(b.linear(b.global_average(x), "fc", classes))}


def _shuffle_unit(b: Builder, x: Node, label: str, channels: int, stride: int) -> Node:
    half = channels // 2
    if stride == 1:
        left, right = b.split(x, 2)
    else:
        right = x
        left = _depthwise(b, x, f"{label}/left/depthwise", 3, 2)
        left = b.relu(b.conv_norm(left, f"{label}/left/pointwise", half, 1))
    right = b.relu(b.conv_norm(right, f"{label}/right/a", half, 1))
    right = _depthwise(b, right, f"{label}/right/depthwise", 3, stride)
    right = b.relu(b.conv_norm(right, f"{label}/right/b", half, 1))
    return channel_shuffle(b, b.concat(left, right), 2)


def channel_shuffle(b: Builder, x: Node, groups: int) -> Node:
    """Channel shuffle: interleave the groups, in three operations as exporters write it."""
    batch, channels, *extents = x.shape
    x = b.reshape(x, batch, groups, channels // groups, *extents)
    x = b.transpose(x, 0, 2, 1, 3, 4)
    return b.reshape(x, batch, channels, *extents)


def efficientnet_b0(b: Builder, size: int = 224, classes: int = 1000) -> dict[str, Node]:
    """Tan and Le, arXiv:1905.11946."""
    x = b.input(3, size, size)
    x = b.silu(b.conv_norm(x, "stem", 32, 3, stride=2, padding=1, epsilon=1e-3))
    table = [  # expansion, kernel, first stride, channels, repeats
        (1, 3, 1, 16, 1),
        (6, 3, 2, 24, 2),
        (6, 5, 2, 40, 2),
        (6, 3, 2, 80, 3),
        (6, 5, 1, 112, 3),
        (6, 5, 2, 192, 4),
        (6, 3, 1, 320, 1),
    ]
    for stage, (expansion, kernel, first, channels, repeats) in enumerate(table):
        for i in range(repeats):
            label, stride = f"stage{stage + 1}/block{i + 1}", 1 if i else first
            x = _squeezed(b, x, label, expansion, kernel, stride, channels)
    x = b.silu(b.conv_norm(x, "head", 1280, 1, epsilon=1e-3))
    return {"output": b.softmax(b.linear(b.global_average(x), "fc", classes))}


def _squeezed(
    b: Builder, x: Node, label: str, expansion: int, kernel: int, stride: int, channels: int
) -> Node:
    """An inverted residual with squeeze and excitation."""
    y = x
    if expansion > 1:
        wide = expansion * x.channels
        y = b.silu(b.conv_norm(y, f"{label}/expand", wide, 1, epsilon=1e-3))
    y = b.conv_norm(
        y, f"{label}/depthwise", y.channels, kernel, stride=stride, padding=kernel // 2,
        groups=y.channels, epsilon=1e-3,
    )  # fmt: skip
    y = b.silu(y)
    gate = b.silu(b.conv(b.global_average(y), f"{label}/squeeze", max(1, x.channels // 4), 1))
    y = b.mul(y, b.sigmoid(b.conv(gate, f"{label}/excite", y.channels, 1)))
    y = b.conv_norm(y, f"{label}/project", channels, 1, epsilon=1e-3)
    return b.add(x, y) if stride == 1 and x.channels == channels else y
