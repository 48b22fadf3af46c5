"""Where keys and values of a cache are: caches that grow, and those of a window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank, of_shape
from nnefc.frontends.common.operators.attention import causal_mask
from nnefc.frontends.common.values import KnownTensor, Operand, OperatorError, integers
from nnefc.frontends.onnx.operators.neural.heads import appended, keys_before, padded_mask
from nnefc.ir import DType
from nnefc.symbolic.integers import largest, statically_equal


class KeyCache(Protocol):
    """New keys and values among the cached ones. Both are [batch, heads, items, width]."""

    @property
    def rows(self) -> int:
        """The number of new keys."""
        ...

    @property
    def first(self) -> int | None:
        """The position of the first query, if it is that of all samples."""
        ...

    def positions(self, make: OpBuilder) -> Operand:
        """The positions of the queries, [batch or 1, rows]."""
        ...

    def extended(
        self, make: OpBuilder, past: Operand | None, new: Operand
    ) -> tuple[Operand, Operand]:
        """The keys or values that queries may see, and the cache after the call."""
        ...

    def masks(
        self, make: OpBuilder, bias: Operand | None, causal: bool, window: int
    ) -> list[Operand]:
        """The bias of scores, and the masks of keys that queries do not see.

        `window`: how many keys they see, or -1.
        """
        ...


@dataclass(frozen=True, slots=True)
class PositionedCache:
    """A cache that has every key at its position.

    `counts` [batch]: the keys of each sample after the call.  `begins` [batch]: those before it;
    None if all samples have `before`, and the new ones follow.  `news` [batch]: new ones that
    count; None if all do.
    """

    rows: int
    keys: int
    before: int
    counts: Operand
    begins: Operand | None
    whole: int
    """The keys of the longest sample after the call, as the model says."""
    news: Operand | None = None

    @property
    def first(self) -> int | None:
        """The position of the first query, if it is that of all samples."""
        return self.before if self.begins is None else None

    def positions(self, make: OpBuilder) -> Operand:
        """The positions of the queries, [batch or 1, rows]."""
        if self.begins is None:
            return make.reshape(make.iota(self.rows, self.before), (1, self.rows))
        return _positions_from(make, self.begins, self.rows)

    def extended(
        self, make: OpBuilder, past: Operand | None, new: Operand
    ) -> tuple[Operand, Operand]:
        """All keys or values, twice."""
        every = self._joined(make, past, new)
        return every, every

    def _joined(self, make: OpBuilder, past: Operand | None, new: Operand) -> Operand:
        if self.begins is None:
            return appended(make, past, new)
        assert past is not None
        batch, _, room, _ = past.type.dims
        both = appended(make, past, new)
        key = make.reshape(make.iota(self.keys), (1, self.keys))
        offset = make("sub", key, make.reshape(self.begins, (batch, 1)))
        count = self.rows if self.news is None else make.reshape(self.news, (batch, 1))
        is_new = make("and", make("ge", offset, 0), make("lt", offset, count))
        old = make("min", key, largest([room - 1, 0]))
        index = make("select", is_new, make("add", offset, room), old)
        # a padded chunk of another sample may count more keys than this one has
        index = make("min", index, room + self.rows - 1)
        return _chosen(make, both, index)

    def masks(
        self, make: OpBuilder, bias: Operand | None, causal: bool, window: int
    ) -> list[Operand]:
        """The bias of scores, and the masks of keys that queries do not see."""
        masks = [] if bias is None else [padded_mask(make, bias, self.keys)]
        if not causal:
            if self.begins is not None or not self.before:
                masks.append(keys_before(make, self.counts, self.keys))
            return masks
        positions = self.positions(make)
        places = make.reshape(positions, (positions.type.dims[0], 1, self.rows, 1))
        key = make.reshape(make.iota(self.keys), (1, 1, 1, self.keys))
        if window >= 0:
            masks.append(make("gt", key, make("sub", places, window)))
        if self.begins is None:
            masks.append(causal_mask(make, self.rows, self.keys, self.before))
        else:
            masks.append(make("le", key, places))
        return masks


def positioned_cache(
    make: OpBuilder,
    q: Operand,
    past: Operand | None,
    seqlens: Operand,
    total: Operand,
    query_seqlens: Operand | None = None,
) -> PositionedCache:
    """Where the new keys are; raises OperatorError.

    Without cached keys, and for one sample whose keys fill the cache, the new keys follow.  Others
    are written behind the keys that each sample has, into a cache that may be larger.
    """
    batch, _, rows, _ = q.type.dims
    counts = make("add", _of_samples(make, "seqlens_k", seqlens, batch), 1)
    room = 0 if past is None else of_rank("attention", "past_key", past, 4)[2]
    is_known = isinstance(total, KnownTensor) or total.op is None
    whole = integers(total)[0] if is_known else largest([room, rows])
    if query_seqlens is not None:
        if past is None:
            raise OperatorError("onnx/arguments", "query_seqlens needs past_key and past_value")
        news = _of_samples(make, "query_seqlens", query_seqlens, batch)
        begins, keys = make("sub", counts, news), largest([room, whole])
        return PositionedCache(rows, keys, 0, counts, begins, whole, news)
    fills = is_known and batch == 1 and whole == room + rows
    if statically_equal(room, 0) or fills:
        return PositionedCache(rows, room + rows, room, counts, None, room + rows)
    begins = make("max", make("sub", counts, rows), 0)
    return PositionedCache(rows, largest([room, whole]), 0, counts, begins, whole)


@dataclass(frozen=True, slots=True)
class WindowCache:
    """A cache with room for the last keys only; the contract is that of `sliding_window_cache`.

    After t tokens it has the last L(t) keys from its first place on: L(t) = t up to `room`, then
    `room` - `window` + 1 keys are dropped at once, as often as needed.  `begins`, `news` [batch]:
    the tokens of each sample before the call, and the new ones.
    """

    rows: int
    room: int
    window: int
    begins: Operand
    news: Operand

    @property
    def first(self) -> int | None:
        """None: samples have positions of their own."""
        return None

    def positions(self, make: OpBuilder) -> Operand:
        """The positions of the queries, [batch, rows]."""
        return _positions_from(make, self.begins, self.rows)

    def _resident(self, make: OpBuilder, tokens: Operand) -> Operand:
        """L(tokens)."""
        step = self.room - self.window + 1
        beyond = make("max", make("add", tokens, step - 1 - self.room), 0)
        return make("sub", tokens, make("mul", make("div", beyond, step), step))

    def _places(self, make: OpBuilder) -> tuple[Operand, Operand]:
        """The positions of all keys, [batch, room + rows], and whether a key exists."""
        batch, count = self.begins.type.volume, self.room + self.rows
        index = make.reshape(make.iota(count), (1, count))
        begins, news, resident = (
            make.reshape(x, (batch, 1))
            for x in (self.begins, self.news, self._resident(make, self.begins))
        )
        of_new = make("sub", index, self.room)
        is_old = make("lt", index, self.room)
        offset = make("select", is_old, make("sub", index, resident), of_new)
        exists = make("lt", make("select", is_old, index, of_new),
                      make("select", is_old, resident, news))  # fmt: skip
        return make("add", offset, begins), exists

    def extended(
        self, make: OpBuilder, past: Operand | None, new: Operand
    ) -> tuple[Operand, Operand]:
        """The cached keys or values and the new ones; the last of them."""
        batch = self.begins.type.volume
        after = make("add", self.begins, self.news)
        dropped = make("sub", after, self._resident(make, after))
        begins, resident, first = (
            make.reshape(x, (batch, 1))
            for x in (self.begins, self._resident(make, self.begins), dropped)
        )
        position = make("add", make.reshape(make.iota(self.room), (1, self.room)), first)
        offset = make("sub", position, begins)
        is_old = make("lt", offset, 0)
        index = make("add", offset, make("select", is_old, resident, self.room))
        limited = make("max", make("min", index, self.room + self.rows - 1), 0)
        every = appended(make, past, new)
        return every, _chosen(make, every, limited)

    def masks(
        self, make: OpBuilder, bias: Operand | None, causal: bool, window: int
    ) -> list[Operand]:
        """The bias of scores, whose columns are positions, and the mask of keys in the window."""
        del causal, window
        batch, count = self.begins.type.volume, self.room + self.rows
        places, exists = self._places(make)
        masks: list[Operand] = []
        if bias is not None:
            some, heads, rows, columns = of_rank("attention", "attention_bias", bias, 4)
            index = make("max", make("min", places, columns - 1), 0)
            index = make.reshape(index, (batch, 1, 1, count))
            every = make.repeated(bias, (batch if some == 1 else some, heads, rows, columns))
            index = make.repeated(index, (batch, heads, rows, count))
            masks.append(make("gather_elements", every, index, axis=3))
        key = make.reshape(places, (batch, 1, 1, count))
        query = make.reshape(self.positions(make), (batch, 1, self.rows, 1))
        is_seen = make(
            "and", make("le", key, query), make("gt", key, make("sub", query, self.window))
        )
        masks.append(make("and", is_seen, make.reshape(exists, (batch, 1, 1, count))))
        return masks


def window_cache(
    make: OpBuilder,
    q: Operand,
    past: Operand | None,
    seqlens: Operand,
    query_seqlens: Operand | None,
    window: int,
) -> WindowCache:
    """Where the new keys are in a cache of the last ones; raises OperatorError."""
    batch, _, rows, _ = q.type.dims
    if past is None:
        raise OperatorError("onnx/arguments", "sliding_window_cache needs past_key and past_value")
    room = of_rank("attention", "past_key", past, 4)[2]
    if window < 1 or room < window:
        message = f"a cache with room for {room} keys and a local_window_size of {window}"
        hint = "the window has at least one key, and the cache room for it"
        raise OperatorError("argument/attention", message, hint)
    counts = make("add", _of_samples(make, "seqlens_k", seqlens, batch), 1)
    news = (
        make("min", counts, rows)
        if query_seqlens is None
        else _of_samples(make, "query_seqlens", query_seqlens, batch)
    )
    return WindowCache(rows, room, window, make("sub", counts, news), news)


def _of_samples(make: OpBuilder, name: str, x: Operand, batch: int) -> Operand:
    """A number for each sample, int64 [batch]; raises OperatorError."""
    flat = make.reshape(x, (x.type.volume,))
    of_shape("attention", name, flat, (batch,))
    return make.cast(flat, DType.INT64)


def _positions_from(make: OpBuilder, begins: Operand, rows: int) -> Operand:
    """begins [batch] + 0, 1, ...: [batch, rows]."""
    column = make.reshape(begins, (begins.type.volume, 1))
    return make("add", make.reshape(make.iota(rows), (1, rows)), column)


def _chosen(make: OpBuilder, x: Operand, index: Operand) -> Operand:
    """Items `index` [batch, count] of x [batch, heads, items, width] along axis 2."""
    batch, heads, _, width = x.type.dims
    count = index.type.dims[1]
    if batch == 1:
        return make("gather", x, make.reshape(index, (count,)), axis=2)
    index = make.repeated(make.reshape(index, (batch, 1, count, 1)), (batch, heads, count, width))
    return make("gather_elements", x, index, axis=2)
