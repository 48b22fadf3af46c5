"""Direct convolution of blocked codes against NumPy in int64."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.helpers.kernels.code_convolutions import (
    LANES,
    SUMS,
    Case,
    cases_of,
    result,
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    groups = draw(st.sampled_from([1, 1, 2]))
    per_group = st.sampled_from([LANES, 2 * LANES]) if groups > 1 else st.integers(1, 3 * LANES)
    return draw(cases_of(groups, draw(per_group), draw(per_group)))


@examples(0.4)
@given(cases(), st.data())
def test_sums_are_exact(case: Case, data: st.DataObject) -> None:
    none = tuple((0, 0) for _ in case.stride)
    around = data.draw(st.sampled_from([case.reach, none]))
    got = result(case, SUMS, halo_=around, threads=data.draw(st.integers(1, 2)))
    np.testing.assert_array_equal(got, case.sums().astype(np.int32))
