"""All cases of `onnx.backend.test`, compiled, through the interface of `onnx.backend`.

Each case passes, or is refused by the rule that `REFUSED` states.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, cast

import numpy as np
import pytest

from nnefc import NnefError
from nnefc.onnx import backend
from tests.helpers.onnx.backend_cases import (
    BackendCase,
    backend_cases,
    cases_by_group,
    class_of,
    group_names,
)
from tests.helpers.onnx.evaluate import assert_equal

REFUSED = {
    # strings, and operators on them
    r"regex_full_match_.*|string_(concat|split).*|strnorm(alizer|_model)_.*": "onnx/operator",
    r"ai_onnx_ml_.*": "onnx/operator",
    r"image_decoder_.*": "onnx/operator",
    # training
    r"adagrad.*|adam.*|momentum.*|nesterov_momentum|gradient_of_.*": "onnx/operator",
    r"training_dropout(_default)?(_mask)?": "onnx/unsupported",
}
"""Names of cases, without "test_", and the rule that refuses them."""
PASSED_BY_ONNXRUNTIME = {
    "static": 1545,
    "quantized": 13,
    "control flow": 27,
    "sequences": 33,
    "float16": 43,
}
"""Cases that pass with onnxruntime 1.32 and onnx 1.23, compared as here."""
RANDOM = "test_bernoulli"
"""Cases with random results, which have expected types and shapes only."""


@pytest.mark.parametrize("group", group_names())
def test_cases(group: str) -> None:
    cases = cases_by_group().get(group, [])
    if not cases:
        pytest.skip("the package has no cases")
    wrong = [f"{case.name}: {text}" for case in cases if (text := _fault(case))]
    assert not wrong, f"{len(wrong)} of {len(cases)}\n" + "\n".join(wrong)


def test_counts() -> None:
    """More cases pass than with onnxruntime; few that concern a compiler are refused."""
    all_cases = backend_cases().values()
    total = Counter(map(class_of, all_cases))
    passed = Counter(class_of(case) for case in all_cases if not _rule_of(case))
    assert total["static"] + total["quantized"] > 1600
    for name, count in PASSED_BY_ONNXRUNTIME.items():
        assert passed[name] >= count, name
    for name in ("control flow", "sequences", "float16", "quantized"):
        assert passed[name] >= 0.9 * total[name], name
    unused = [names for names in REFUSED if not any(map(re.compile(names).fullmatch, _names()))]
    assert not unused


def _names() -> list[str]:
    return [name.removeprefix("test_") for name in backend_cases()]


def _rule_of(case: BackendCase) -> str:
    """The rule that refuses a case; "" if it is to pass."""
    name = case.name.removeprefix("test_")
    return next((rule for names, rule in REFUSED.items() if re.fullmatch(names, name)), "")


def _fault(case: BackendCase) -> str:
    """What is wrong with the results of a case, or with the error; "" if nothing is."""
    expected = _rule_of(case)
    try:
        prepared = backend.prepare(case.proto)
        for inputs, results in case.data_sets:
            actual = list(prepared.run(inputs))
            assert len(actual) == len(results)
            for y, want in zip(actual, results, strict=True):
                _compare(y, want, case)
    except NnefError as error:
        rule = error.errors[0].rule
        return "" if rule == expected else f"{expected or 'no error'} is expected: {error}"
    except (AssertionError, TypeError, ValueError, KeyError, AttributeError) as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return f"an error {expected} is expected" if expected else ""


def _compare(y: Any, want: Any, case: BackendCase) -> None:
    """Assert what `onnx.backend.test` asserts of a result."""
    if want is None:
        assert y is None
    elif isinstance(want, list):
        assert isinstance(y, list)
        items, wanted = cast(list[Any], y), cast(list[Any], want)
        for one, other in zip(items, wanted, strict=True):
            _compare(one, other, case)
    elif case.name.startswith(RANDOM):
        assert (y.dtype, y.shape) == (want.dtype, want.shape)
    else:
        want = np.asarray(want)
        # as in the package, two items of bfloat16 are allowed
        rtol = max(case.rtol, 2**-6) if want.dtype.name == "bfloat16" else case.rtol
        assert_equal(y, want, rtol, case.atol)
