"""Compares the tokens of `generate()` by a compiled forward function with those of eager mode."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import time
import warnings
from typing import Any, Final, NamedTuple

import torch

from benchmarks.pytorch_models.checked import Checked, Status
from benchmarks.pytorch_models.model_case import Case
from nnefc.pytorch.backend import nnefc

_LENGTHS: Final = (8, 16)
"""Tokens of calls: the graphs of the first one serve the second one."""
_STATIC: Final = {"cache_implementation": "static", "disable_compile": True}
_WAYS: Final[dict[str, dict[str, Any]]] = {
    "dynamic": {},
    "sampled": {"do_sample": True, "top_k": 20},
    "beams": {"num_beams": 3},
    "static": _STATIC,
}
"""Arguments of `generate()`."""
_SHARING: Final = ("sampled",)
"""The ways that take the graphs of those before them."""


class _Way(NamedTuple):
    """What became of one way to generate."""

    graphs: int
    """The graphs that a first call compiled."""
    later: int
    """Those that a call for more tokens compiled."""
    differing: int
    """Tokens that differ from those of eager mode."""

    def __str__(self) -> str:
        later = f", {self.later} later" if self.later else ""
        differing = f", {self.differing} tokens differ" if self.differing else ""
        return f"{self.graphs} graphs{later}{differing}"


def check_generate(name: str, case: Case) -> Checked:
    """What becomes of a model in all ways that eager mode has."""
    start = time.perf_counter()
    want: dict[str, list[torch.Tensor]] = {}
    for way, arguments in _WAYS.items():
        try:
            want[way] = [_generated(case, tokens, arguments) for tokens in _LENGTHS]
        except Exception as error:
            if way == "dynamic":
                return Checked(name, Status.EAGER, _line(error))
    compiled: list[int] = []

    def counting(module: Any, inputs: Any, **options: Any) -> Any:
        compiled.append(1)
        return nnefc(module, inputs, **options)

    model: Any = case.module
    eager = model.forward
    ways: dict[str, _Way] = {}
    config: Any = torch._dynamo.config  # pyright: ignore[reportPrivateUsage]
    for way, tensors in want.items():
        if way not in _SHARING:
            torch.compiler.reset()
            model.forward = torch.compile(eager, backend=counting)
        try:
            with warnings.catch_warnings(), config.patch(fail_on_recompile_limit_hit=True):
                warnings.simplefilter("ignore")
                ways[way] = _compared(case, _WAYS[way], tensors, compiled)
        except Exception as error:
            return Checked(name, Status.FAILED, f"{way}: {_line(error)}")
    is_right = not any(each.later or each.differing for each in ways.values())
    status = Status.RIGHT if is_right else Status.WRONG
    differing = sum(each.differing for each in ways.values())
    message = "; ".join(f"{way}: {each}" for way, each in ways.items())
    return Checked(name, status, message, float(differing), time.perf_counter() - start)


def _compared(
    case: Case, arguments: dict[str, Any], want: list[torch.Tensor], compiled: list[int]
) -> _Way:
    """The tokens of a model, and the graphs that its calls add to `compiled`."""
    before, counts, differing = len(compiled), list[int](), 0
    for tokens, tensor in zip(_LENGTHS, want, strict=True):
        differing += _differing(_generated(case, tokens, arguments), tensor)
        counts.append(len(compiled) - before)
    return _Way(counts[0], counts[1] - counts[0], differing)


def _generated(case: Case, tokens: int, arguments: dict[str, Any]) -> torch.Tensor:
    """The tokens of a call of `generate()`, with the same random numbers in all."""
    torch.manual_seed(0)
    model: Any = case.module
    length = {"max_new_tokens": tokens, "min_new_tokens": tokens}
    chosen = {"do_sample": False, **length, **arguments}
    with torch.inference_mode():
        return model.generate(**case.kwargs, **chosen).clone()


def _differing(found: torch.Tensor, want: torch.Tensor) -> int:
    return want.numel() if found.shape != want.shape else int((found != want).sum())


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
