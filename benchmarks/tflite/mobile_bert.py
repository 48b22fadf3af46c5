"""MobileBERT (Sun et al., 2020): 24 layers of width 512 with bottlenecks of width 128."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (TensorFlow is not typed)

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

_LAYERS: Final = 24
_WIDTH: Final = 512
_BOTTLENECK: Final = 128
_HEADS: Final = 4
_FEED_FORWARDS: Final = 4
_WORDS: Final = 30522


def mobile_bert(tokens: int) -> Any:
    """A `tf.Module` with a method `call`, whose results are the logits of the ends of a span."""
    tf: Any = import_module("tensorflow")

    class Network(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inputs = [(1, tokens)]
            self.weights: list[Any] = []
            self.next = 0

        def weight(self, *shape: int) -> Any:
            """The next weight, in the order of their use; calls after the first reuse them."""
            if self.next == len(self.weights):
                # sums of residuals stay so small that roundings are not amplified
                scale = 0.3 * shape[0] ** -0.5 if len(shape) > 1 else 0.02
                self.weights.append(tf.Variable(tf.random.normal(shape, stddev=scale)))
            self.next += 1
            return self.weights[self.next - 1]

        def linear(self, x: Any, width: int) -> Any:
            rows = tf.reshape(x, (tokens, x.shape[-1]))
            product = tf.matmul(rows, self.weight(x.shape[-1], width)) + self.weight(width)
            return tf.reshape(product, (1, tokens, width))

        def norm(self, x: Any) -> Any:
            """NoNorm, a scale and an offset per channel."""
            return x * (1.0 + self.weight(x.shape[-1])) + self.weight(x.shape[-1])

        def heads(self, x: Any, order: tuple[int, ...]) -> Any:
            return tf.transpose(tf.reshape(x, (1, tokens, _HEADS, _BOTTLENECK // _HEADS)), order)

        def attention(self, x: Any, values: Any) -> Any:
            q = self.heads(self.linear(x, _BOTTLENECK), (0, 2, 1, 3))
            k = self.heads(self.linear(x, _BOTTLENECK), (0, 2, 3, 1))
            v = self.heads(self.linear(values, _BOTTLENECK), (0, 2, 1, 3))
            scores = tf.nn.softmax(tf.matmul(q, k) * (_BOTTLENECK // _HEADS) ** -0.5)
            joined = tf.transpose(tf.matmul(scores, v), (0, 2, 1, 3))
            return self.linear(tf.reshape(joined, (1, tokens, _BOTTLENECK)), _BOTTLENECK)

        def layer(self, x: Any) -> Any:
            narrow = self.norm(self.linear(x, _BOTTLENECK))
            shared = self.norm(self.linear(x, _BOTTLENECK))
            y = self.norm(self.attention(shared, x) + narrow)
            for _ in range(_FEED_FORWARDS):
                y = self.norm(self.linear(tf.nn.relu(self.linear(y, _WIDTH)), _BOTTLENECK) + y)
            return self.norm(self.linear(y, _WIDTH) + x)

        def call(self, ids: Any) -> Any:
            self.next = 0
            x = tf.gather(self.weight(_WORDS, _BOTTLENECK) * _BOTTLENECK**0.5, ids)
            before = tf.pad(x[:, 1:], [[0, 0], [0, 1], [0, 0]])
            after = tf.pad(x[:, :-1], [[0, 0], [1, 0], [0, 0]])
            x = self.linear(tf.concat([before, x, after], 2), _WIDTH)
            x = self.norm(x + self.weight(1, tokens, _WIDTH))
            for _ in range(_LAYERS):
                x = self.layer(x)
            return self.linear(x, 2)

    return Network()
