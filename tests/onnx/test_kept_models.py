"""Models of the latest calls are kept."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from nnefc.onnx.kept_models import KeptModels


def test_the_models_that_were_used_last_stay() -> None:
    kept, made = KeptModels[str](2), list[str]()

    def compiled(key: str) -> Callable[[], str]:
        return lambda: made.append(key) or key.upper()

    for key in "abacabc":
        assert kept.get(key, compiled(key)) == key.upper()
    assert made == ["a", "b", "c", "b", "c"], "`b`, then `c` were used least recently"


def test_threads_share_models() -> None:
    kept = KeptModels[int](3)

    def use(number: int) -> list[int]:
        return [kept.get(key, lambda key=key: key) for key in range(number, number + 500)]

    with ThreadPoolExecutor(4) as pool:
        for number, found in enumerate(pool.map(use, range(8))):
            assert found == list(range(number, number + 500))
