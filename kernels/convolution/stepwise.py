"""The kernel that rounds and saturates each product before it is added.

`nnefc.ops.extended.stepwise_conv` has the formula.  Lanes are outputs: an item of the input is
multiplied with a vector of weights.  A few pixels share each vector of weights.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false
# (numba and llvmlite are not typed)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from nnefc.kernels.family import KernelFunction, family
from nnefc.kernels.parameters import Layout
from nnefc.kernels.vector.conversion import convert
from nnefc.kernels.vector.item_types import ITEMSIZE, UNSIGNED, limits
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.vector.lanes import Lanes, clamp, constant
from nnefc.kernels.vector.llvm_types import I64
from nnefc.kernels.vector.vector_builder import Vector
from nnefc.kernels.vector.vector_kernel import VectorKernel, address, load_word

STEPWISE = Layout(
    "x:ref w:ref start:ref y:ref maps taps outputs blocks width pixels x_batch x_map x_row "
    "x_column w_block w_step start_pixel units unit_block offsets:table"
)
"""Parameters of `stepwise.sums`.

x: items [batch, maps, ...] with `x_batch` and `x_map` bytes between batch items and maps; `x_row`,
`x_column`: bytes between two pixels of the result; `offsets`: bytes of each of the `taps`.
w: [maps, taps, outputs], or a panel [maps, taps] of each block: `w_block` bytes between blocks of
outputs, `w_step` bytes between taps.  start: int32 [outputs], sums to begin with, `start_pixel`
items between pixels, 0 if they share them.  y: [batch, pixels, outputs], with rows of `width`
pixels.  A unit is some pixels of one of the `blocks` of outputs of a batch item; a tile has
`unit_block` units.
"""

PIXELS: Final = 4
"""Most pixels of a unit, which share a vector of weights."""


def block_outputs() -> int:
    """Outputs of a block: two vectors of sums, so that weights fill cache lines."""
    return 2 * lanes_of("int32")


class Rounding(NamedTuple):
    """What is done with a product, and with a sum."""

    item: str
    """The type of x and y."""
    position: int
    """Bits that are dropped."""
    to_nearest: bool
    wraps: bool
    by_map: bool
    """Whether sums are saturated after every map, not at the end only."""
    products_fit: bool
    """Whether products are known to fit the type after they are rounded."""

    def product(self, x: Lanes) -> Lanes:
        """A product in the format of the result."""
        if self.position:
            half = 1 << self.position >> 1 if self.to_nearest else 0
            divisor = constant(x.v, x.dtype, 1 << self.position)
            x = x.same(x.v.builder.sdiv((x + half).value, divisor.value))
        return x if self.wraps or self.products_fit else self.saturated(x)

    def saturated(self, x: Lanes) -> Lanes:
        """Within the range of the result; sums that wrap keep all bits until they are stored."""
        low, high = (constant(x.v, x.dtype, int(each)) for each in limits(self.item))
        return x if self.wraps else clamp(x, low, high)


@family()
def sums(rounding: Rounding, total: str, pixels: int) -> KernelFunction:
    """`total`: the type of sums; `pixels`: those of a unit."""
    lanes = block_outputs()

    def emit(builder: Any, bases: Any, params: Any, first: Any, last: Any) -> None:
        _Tiles(Vector(builder, total, lanes), rounding, pixels, params, bases).emit(first, last)

    return VectorKernel(emit)


class _Tiles:
    """Emits the loops over units."""

    def __init__(self, v: Vector, rounding: Rounding, pixels: int, params: Any, bases: Any) -> None:
        b = v.builder
        self._v = v
        self._pixels = pixels
        self._rounding = rounding
        at = dict(zip(STEPWISE.names, STEPWISE.offsets, strict=True))
        references = ("x", "w", "start", "y")
        self._pointers = {
            name: v.pointer(address(b, bases, b.add(params, I64(at[name])))) for name in references
        }
        self._words = {
            name: load_word(b, b.add(params, I64(offset)))
            for name, offset in at.items()
            if name not in references
        }
        self._offsets = v.pointer(b.add(params, self._words["offsets"]))

    def emit(self, first: Any, last: Any) -> None:
        """All units of the tiles from `first` to `last`, exclusive."""
        v, b, w = self._v, self._v.builder, self._words
        end = b.mul(last, w["unit_block"])
        end = b.select(b.icmp_signed("<", end, w["units"]), end, w["units"])
        groups = b.sdiv(b.add(w["pixels"], I64(self._pixels - 1)), I64(self._pixels))
        with v.loop(b.mul(first, w["unit_block"]), end, 1) as unit:
            row = b.sdiv(unit.index, groups)
            pixel = b.mul(b.sub(unit.index, b.mul(row, groups)), I64(self._pixels))
            sample = b.sdiv(row, w["blocks"])
            self._unit(sample, b.sub(row, b.mul(sample, w["blocks"])), pixel)

    def _unit(self, sample: Any, block: Any, pixel: Any) -> None:
        """Some pixels of a block; behind the last one, that is computed again."""
        v, b, w = self._v, self._v.builder, self._words
        done = b.mul(block, I64(v.lanes))
        mask = v.mask(b.sub(w["outputs"], done))
        final = b.sub(w["pixels"], I64(1))
        x = v.at(self._pointers["x"], b.mul(sample, w["x_batch"]))
        pixels: list[Any] = []
        inputs: list[Any] = []
        starts: list[Lanes] = []
        for i in range(self._pixels):
            number = b.add(pixel, I64(i))
            number = b.select(b.icmp_signed("<", number, final), number, final)
            row = b.sdiv(number, w["width"])
            column = b.sub(number, b.mul(row, w["width"]))
            place = b.add(b.mul(row, w["x_row"]), b.mul(column, w["x_column"]))
            start = b.add(b.mul(number, w["start_pixel"]), done)
            pixels.append(number)
            inputs.append(v.at(x, place))
            at = b.mul(start, I64(ITEMSIZE["int32"]))
            starts.append(self._row(self._pointers["start"], "int32", at, mask))
        panel = v.at(self._pointers["w"], b.mul(block, w["w_block"]))
        for number, total in zip(pixels, self._sums(inputs, starts, panel, mask), strict=True):
            row = b.add(b.mul(sample, w["pixels"]), number)
            at = b.add(b.mul(row, w["outputs"]), done)
            item = self._rounding.item
            target = v.at(self._pointers["y"], b.mul(at, I64(ITEMSIZE[item])))
            convert(total, item).store(target, mask=mask)

    def _row(self, pointer: Any, item: str, offset: Any, mask: Lanes) -> Lanes:
        """Items of a block, `offset` bytes behind a pointer, in the type of the sums."""
        v = self._v
        return convert(v.of(item).load(pointer, offset, mask), v.dtype)

    def _sums(
        self, inputs: Sequence[Any], starts: Sequence[Lanes], panel: Any, mask: Lanes
    ) -> list[Lanes]:
        """The sums of a block of outputs with weights at `panel`, for pixels at `inputs`."""
        v, b, w, rounding = self._v, self._v.builder, self._words, self._rounding
        with v.loop(0, w["maps"], 1, starts) as maps:
            plane = b.mul(maps.index, w["x_map"])
            with v.loop(0, w["taps"], 1, maps.values) as taps:
                offset = v.of("int64").load_item(self._offsets, b.mul(taps.index, I64(8)))
                place = b.add(plane, offset)
                step = b.add(b.mul(maps.index, w["taps"]), taps.index)
                weight = self._row(panel, rounding.item, b.mul(step, w["w_step"]), mask)
                taps.next = [
                    total + rounding.product(self._item(x, place) * weight)
                    for total, x in zip(taps.values, inputs, strict=True)
                ]
            maps.next = list(taps.values)
            if rounding.by_map:
                maps.next = [rounding.saturated(total) for total in taps.values]
        return [rounding.saturated(total) for total in maps.values]

    def _item(self, x: Any, place: Any) -> Lanes:
        """An item of the input in every lane, in the type of the sums."""
        v, item = self._v, self._rounding.item
        narrow = v.of(item).load_item(x, place)
        extend = v.builder.zext if item in UNSIGNED else v.builder.sext
        return v.splat(extend(narrow, v.item))
