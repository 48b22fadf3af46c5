"""Compiling kernels into executable memory."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

import pytest

from nnefc.kernels.codegen import object_code
from nnefc.runtime.compile.kernel_compiler import compile_functions


def fresh(symbol: str) -> tuple[str, Any]:
    """A function that this process has not compiled: it does so once."""
    return symbol, lambda: None


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Compile while Ctrl-C is pressed; returns the recorded steps in order."""
    steps: list[str] = []
    emit = object_code.emit

    def interrupted(*arguments: Any) -> bytes:
        signal.raise_signal(signal.SIGINT)
        code = emit(*arguments)
        steps.append("compiled")
        return code

    monkeypatch.setattr(object_code, "emit", interrupted)
    return steps


def test_an_interrupt_waits_until_a_kernel_is_compiled(steps: list[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        compile_functions([fresh("f"), fresh("g")])
    assert steps == ["compiled"]
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_during_compilation_calls_the_programs_handler(steps: list[str]) -> None:
    def handler(number: int, frame: FrameType | None) -> None:
        steps.append("handled")

    before = signal.signal(signal.SIGINT, handler)
    try:
        compile_functions([fresh("f")])
    finally:
        signal.signal(signal.SIGINT, before)
    assert steps == ["compiled", "handled"]


def test_compilation_in_other_threads_does_not_replace_the_handler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[Any] = []
    emit = object_code.emit

    def look(*arguments: Any) -> bytes:
        seen.append(signal.getsignal(signal.SIGINT))
        return emit(*arguments)

    monkeypatch.setattr(object_code, "emit", look)
    worker = threading.Thread(target=compile_functions, args=([fresh("f")],))
    worker.start()
    worker.join()
    assert seen == [before]
