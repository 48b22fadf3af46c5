"""A recurrent network that finds words in sound: two LSTM layers over features of a second."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (TensorFlow is not typed)

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

FEATURES: Final = 40
_UNITS: Final = 128
_WORDS: Final = 12
_ATTRIBUTES: Final = {
    "api_implements": "lstm_benchmark",
    "api_preferred_device": "CPU",
    "time_major": False,
    "go_backwards": False,
}
"""Attributes of a function by which the converter makes UNIDIRECTIONAL_SEQUENCE_LSTM of it."""


def keyword_lstm(steps: int) -> Any:
    """A `tf.Module` with a method `call`."""
    tf: Any = import_module("tensorflow")

    @tf.function(autograph=False, experimental_attributes=_ATTRIBUTES)
    def layer(
        inputs: Any, init_h: Any, init_c: Any, kernel: Any, recurrent_kernel: Any, bias: Any
    ) -> Any:
        by_time = tf.transpose(inputs, [1, 0, 2])

        def step(time: Any, h: Any, c: Any, results: Any) -> Any:
            sums = tf.matmul(by_time[time], kernel) + tf.matmul(h, recurrent_kernel) + bias
            i, f, g, o = tf.split(sums, 4, 1)
            c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
            h = tf.sigmoid(o) * tf.tanh(c)
            return time + 1, h, c, results.write(time, h)

        def is_within(time: Any, *_: Any) -> Any:
            return time < steps

        results = tf.TensorArray(tf.float32, steps, element_shape=init_h.shape)
        _, h, c, results = tf.while_loop(is_within, step, (0, init_h, init_c, results))
        return h, tf.transpose(results.stack(), [1, 0, 2]), h, c, tf.constant(1.0)

    class Network(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inputs = [(1, steps, FEATURES)]

            def weights(*shape: int) -> Any:
                return tf.Variable(tf.random.normal(shape, stddev=shape[0] ** -0.5))

            self.layers = [
                (weights(inputs, 4 * _UNITS), weights(_UNITS, 4 * _UNITS), weights(4 * _UNITS))
                for inputs in (FEATURES, _UNITS)
            ]
            self.words = weights(_UNITS, _WORDS)

        def call(self, x: Any) -> Any:
            zeros = tf.zeros((1, _UNITS))
            for each in self.layers:
                x = layer(x, zeros, zeros, *each)[1]
            return tf.matmul(x[:, -1], self.words)

    return Network()
