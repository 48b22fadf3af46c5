"""Networks with spatial outputs: U-Net, a detector."""

from __future__ import annotations

from benchmarks.zoo.builder import Builder, Node


def unet(b: Builder, size: int = 256, channels: int = 32, depth: int = 4) -> dict[str, Node]:
    """Ronneberger et al., arXiv:1505.04597, with padded convolutions; half as wide."""
    x = b.input(3, size, size)
    skips: list[Node] = []
    for level in range(depth):
        x = _twice(b, x, f"down{level}", channels << level)
        skips.append(x)
        x = b.max_pool(x, 2, 2)
    x = _twice(b, x, "bottom", channels << depth)
    for level in reversed(range(depth)):
        x = b.deconv(x, f"up{level}/deconv", channels << level, 2, 2)
        x = _twice(b, b.concat(skips[level], x), f"up{level}", channels << level)
    return {"output": b.sigmoid(b.conv(x, "mask", 1, 1))}


def _twice(b: Builder, x: Node, label: str, channels: int) -> Node:
    x = b.conv_relu(x, f"{label}/a", channels, 3, padding=1)
    return b.conv_relu(x, f"{label}/b", channels, 3, padding=1)


def yolo(b: Builder, size: int = 640, classes: int = 80, bins: int = 16) -> dict[str, Node]:
    """A detector in the manner of YOLOv8n, down to the heads' raw maps at strides 8, 16, 32."""
    x = b.input(3, size, size)
    x = _conv(b, _conv(b, x, "0", 16, 3, 2), "1", 32, 3, 2)
    x = _stage(b, x, "2", 32, 1)
    fine = x = _stage(b, _conv(b, x, "3", 64, 3, 2), "4", 64, 2)
    middle = x = _stage(b, _conv(b, x, "5", 128, 3, 2), "6", 128, 2)
    x = _stage(b, _conv(b, x, "7", 256, 3, 2), "8", 256, 1)
    coarse = x = _pyramid_pool(b, x, "9", 256)
    middle = x = _stage(b, b.concat(b.upsample(x, 2), middle), "12", 128, 1, past=False)
    fine = x = _stage(b, b.concat(b.upsample(x, 2), fine), "15", 64, 1, past=False)
    x = b.concat(_conv(b, x, "16", 64, 3, 2), middle)
    middle = x = _stage(b, x, "18", 128, 1, past=False)
    x = b.concat(_conv(b, x, "19", 128, 3, 2), coarse)
    coarse = _stage(b, x, "21", 256, 1, past=False)
    heads = {"stride8": fine, "stride16": middle, "stride32": coarse}
    return {name: _head(b, x, f"head/{name}", classes, bins) for name, x in heads.items()}


def _conv(b: Builder, x: Node, label: str, channels: int, kernel: int, stride: int = 1) -> Node:
    y = b.conv_norm(x, label, channels, kernel, stride=stride, padding=kernel // 2, epsilon=1e-3)
    return b.silu(y)


def _stage(
    b: Builder, x: Node, label: str, channels: int, count: int, *, past: bool = True
) -> Node:
    """A cross stage partial block: half the channels pass a chain; all its links are joined."""
    parts = b.split(_conv(b, x, f"{label}/in", channels, 1), 2)
    for i in range(count):
        y = _conv(b, parts[-1], f"{label}/{i}/a", channels // 2, 3)
        y = _conv(b, y, f"{label}/{i}/b", channels // 2, 3)
        parts.append(b.add(parts[-1], y) if past else y)
    return _conv(b, b.concat(*parts), f"{label}/out", channels, 1)


def _pyramid_pool(b: Builder, x: Node, label: str, channels: int) -> Node:
    parts = [_conv(b, x, f"{label}/in", channels // 2, 1)]
    for _ in range(3):
        parts.append(b.max_pool(parts[-1], 5, 1, 2))
    return _conv(b, b.concat(*parts), f"{label}/out", channels, 1)


def _head(b: Builder, x: Node, label: str, classes: int, bins: int) -> Node:
    maps: list[Node] = []
    for kind, inner, channels in (("box", 4 * bins, 4 * bins), ("class", classes, classes)):
        y = _conv(b, _conv(b, x, f"{label}/{kind}/a", inner, 3), f"{label}/{kind}/b", inner, 3)
        maps.append(b.conv(y, f"{label}/{kind}/c", channels, 1))
    return b.concat(*maps)
