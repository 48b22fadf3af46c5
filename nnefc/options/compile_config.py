"""`CompileConfig`: how a graph is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from nnefc.options.arguments import (
    check_accuracy,
    check_flags,
    check_precision,
    check_threads,
)

Accuracy = Literal["fast", "strict"]
Precision = Literal["float32", "bfloat16", "float16"]


class CompileConfig(NamedTuple):
    """How a graph is compiled; `of` checks values from callers."""

    threads: int | None = None
    """Threads that a call may use, the calling one included; None: all usable CPUs."""
    accuracy: Accuracy = "fast"
    """"strict" computes convolutions as sums of products; "fast" may use Winograd's algorithm."""
    algorithms: Mapping[str, str] | None = None
    """Algorithms of convolutions by key, see `ChooseConvolutionAlgorithms.tuned`; None: the
    measured ones that `nnefc.tune` has stored for this machine."""
    check_indices: bool = True
    """A call with an index out of range fails; False: the nearest item is used."""
    tuned: bool = True
    """Algorithms that are None are looked up, also where a saved model is compiled again."""
    precision: Precision = "float32"
    """Products round their operands to this type, if the processor multiplies such numbers."""
    strict_quantization: bool = False
    """Layers of codes that are computed in floats are errors."""

    @property
    def stored(self) -> dict[str, Any]:
        """The options that an artifact stores, see `of_stored`: not those of errors."""
        return {
            "accuracy": self.accuracy,
            "check_indices": self.check_indices,
            "tuned": self.tuned,
            "precision": self.precision,
        }

    @classmethod
    def of_stored(cls, options: Mapping[str, Any], threads: object = None) -> CompileConfig:
        """The configuration with the options of an artifact."""
        return cls.of(
            threads,
            options["accuracy"],
            check_indices=options.get("check_indices", True),
            tuned=options.get("tuned", True),
            precision=options.get("precision", "float32"),
        )

    @classmethod
    def of(
        cls,
        threads: object = None,
        accuracy: object = "fast",
        *,
        check_indices: object = True,
        tuned: object = True,
        precision: object = "float32",
        strict_quantization: object = False,
    ) -> CompileConfig:
        """A checked configuration; raises NnefError `input/threads` or `input/argument`."""
        count, checked = check_threads(threads), check_accuracy(accuracy)
        check_flags(
            check_indices=check_indices, tuned=tuned, strict_quantization=strict_quantization
        )
        algorithms: Mapping[str, str] | None = None if tuned else {}
        flags = bool(check_indices), bool(tuned), check_precision(precision)
        return cls(count, checked, algorithms, *flags, bool(strict_quantization))

    @property
    def is_strict(self) -> bool:
        return self.accuracy == "strict"
