"""Networks without branches: AlexNet, VGG, SqueezeNet, a perceptron."""

from __future__ import annotations

from benchmarks.zoo.builder import Builder, Node


def alexnet(
    b: Builder, size: int = 224, classes: int = 1000, hidden: int = 4096
) -> dict[str, Node]:
    """Krizhevsky, arXiv:1404.5997 (one tower), with the normalisation of the first paper."""
    x = b.input(3, size, size)
    x = b.conv_relu(x, "conv1", 64, 11, stride=4, padding=2)
    x = b.max_pool(b.local_response_norm(x, 5, 0.0005, 0.75), 3, 2)
    x = b.conv_relu(x, "conv2", 192, 5, padding=2)
    x = b.max_pool(b.local_response_norm(x, 5, 0.0005, 0.75), 3, 2)
    for i, channels in enumerate((384, 256, 256)):
        x = b.conv_relu(x, f"conv{i + 3}", channels, 3, padding=1)
    x = b.max_pool(x, 3, 2)
    x = b.relu(b.linear(x, "fc6", hidden))
    x = b.relu(b.linear(x, "fc7", hidden))
    return {"output": b.softmax(b.linear(x, "fc8", classes))}


def vgg16(b: Builder, size: int = 224, classes: int = 1000, hidden: int = 4096) -> dict[str, Node]:
    """Simonyan and Zisserman, arXiv:1409.1556, configuration D."""
    x = b.input(3, size, size)
    for block, (layers, channels) in enumerate([(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)]):
        for layer in range(layers):
            x = b.conv_relu(x, f"conv{block + 1}_{layer + 1}", channels, 3, padding=1)
        x = b.max_pool(x, 2, 2)
    x = b.relu(b.linear(x, "fc6", hidden))
    x = b.relu(b.linear(x, "fc7", hidden))
    return {"output": b.softmax(b.linear(x, "fc8", classes))}


def squeezenet(b: Builder, size: int = 224, classes: int = 1000) -> dict[str, Node]:
    """Iandola et al., arXiv:1602.07360, version 1.1."""
    x = b.input(3, size, size)
    x = b.max_pool(b.conv_relu(x, "conv1", 64, 3, stride=2), 3, 2, ceil=True)
    for i, squeeze in enumerate((16, 16, 32, 32, 48, 48, 64, 64), start=2):
        if i in (4, 6):
            x = b.max_pool(x, 3, 2, ceil=True)
        x = b.conv_relu(x, f"fire{i}/squeeze", squeeze, 1)
        one = b.conv_relu(x, f"fire{i}/expand1x1", 4 * squeeze, 1)
        three = b.conv_relu(x, f"fire{i}/expand3x3", 4 * squeeze, 3, padding=1)
        x = b.concat(one, three)
    x = b.global_average(b.conv_relu(x, "conv10", classes, 1))
    return {"output": b.softmax(b.reshape(x, x.batch, classes))}


def mlp(b: Builder, width: int = 64, layers: int = 3) -> dict[str, Node]:
    """A perceptron so small that the overhead of a call dominates."""
    x = b.input(width)
    for i in range(layers):
        x = b.linear(x, f"layer{i + 1}", width)
        if i + 1 < layers:
            x = b.relu(x)
    return {"output": x}
