"""The result of comparing a model: a row for each tensor, and where NaN begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nnefc.cli.compare.deviation import Deviation
from nnefc.cli.compare.row import Kind, Row

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from nnefc.cli.compare.against import Against
    from nnefc.cli.compare.dump import Dump
    from nnefc.cli.compare.nan_origin import NanOrigin

    Array = np.ndarray[Any, Any]


@dataclass(slots=True, eq=False)
class Comparison:
    """Collects the rows of a comparison."""

    rows: list[Row] = field(default_factory=list[Row])
    nan_origin: NanOrigin | None = None
    """Where NaN begins in the reference; None if it has none."""
    call: int | None = None
    """The call of a session whose tensors are added, from 1."""
    against: Against | None = None
    """Results of another engine, which replace the reference unless values are dumped."""
    dump: Dump | None = None
    """Writes all values to a folder."""

    def add(
        self,
        name: str,
        kind: Kind,
        actual: Array,
        expected: Array,
        *,
        operation: str = "",
        result: bool = False,
    ) -> None:
        """Compare a tensor with its reference and add the row."""
        deviation = Deviation.of(actual, expected)
        row = Row(name, operation, kind, actual.shape, deviation, result, self.call)
        self.rows.append(row)
        if self.dump and kind != "against":
            self.dump.write(row, actual, expected)

    @property
    def needs_reference(self) -> bool:
        """Whether values are compared with the float64 reference."""
        return self.against is None or self.dump is not None

    def add_inputs(self, arrays: Mapping[str, Array]) -> None:
        """Write the inputs of a call to the dump."""
        if self.dump:
            self.dump.write_inputs(arrays, self.call)

    def add_against(self, results: Mapping[str, Array]) -> None:
        """Compare the results of a call with those of another engine."""
        if self.against is not None:
            expected = self.against.turns[(self.call or 1) - 1]
            for name, array in results.items():
                self.add(name, "against", array, expected[name].array)

    def found_nan(self, origin: NanOrigin | None) -> None:
        """Keep the origin of NaN of the first call that has one."""
        self.nan_origin = self.nan_origin or origin
