"""Direct convolution of blocked codes against NumPy in int64."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nnefc.lower.convolution import direct_codes
from tests.helpers.examples import examples
from tests.helpers.kernels.code_convolutions import (
    CODES,
    LANES,
    SUMS,
    Case,
    cases_of,
    result,
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    groups = draw(st.sampled_from([1, 1, 2, 3, 18]))
    sizes = st.integers(1, 4 if groups > 3 else 3 * LANES)
    if groups == 2:
        sizes = st.sampled_from([LANES, 2 * LANES])
    dtype = draw(st.sampled_from([CODES, np.dtype(np.int16)]))
    return draw(cases_of(groups, draw(sizes), draw(sizes), draw(st.booleans()), dtype))


@examples(0.7)
@given(cases(), st.data())
def test_sums_are_exact(case: Case, data: st.DataObject) -> None:
    """Of codes as they are, and of a copy in 16 bits."""
    none = tuple((0, 0) for _ in case.stride)
    has_halo = case.groups > 1 or case.reverse or data.draw(st.booleans())
    around = case.reach if has_halo else none
    widens, threads = data.draw(st.booleans()), data.draw(st.integers(1, 2))
    with mock.patch.object(direct_codes, "profits_from_pairs", lambda _: widens):  # pyright: ignore
        got = result(case, SUMS, halo_=around, threads=threads)
    np.testing.assert_array_equal(got, case.sums().astype(np.int32))
