"""A piece of a graph as a model of nnefc: tensors and numbers in, a list of these out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnefc.frontends.torch.program import OutputKind
from nnefc.frontends.torch.signature import user_inputs
from nnefc.pytorch.compile_module import compile_program
from nnefc.pytorch.memory.appended_rows import ROWS, Growing, room_for_rows
from nnefc.pytorch.memory.growing_inputs import growing_inputs
from nnefc.pytorch.memory.growing_memory import Rows, claim, room_of
from nnefc.pytorch.read_fx import read_graph
from nnefc.pytorch.results import Results, argument_of, tensor_of
from nnefc.runtime.run.executable import Executable, run_in_place, session_layout

if TYPE_CHECKING:
    import torch

    from nnefc.options.compile_config import CompileConfig
    from nnefc.pytorch.pieces import Piece


class NativePiece:
    """A piece as a model.

    Results that replace items of an input, which then has the new value, are written into its
    memory: a static key-value cache is not copied.  Those that extend an input have memory with
    room for further rows: nor is a dynamic one.
    """

    def __init__(
        self,
        piece: Piece,
        weights: Mapping[str, torch.Tensor],
        config: CompileConfig,
        updates: Mapping[str, str],
        changed: Collection[str],
    ) -> None:
        """`weights`: the tensors of inputs that are constants.

        `updates`: the inputs whose new values are results, by the names of these.  `changed`: the
        inputs that the graph changes.
        """
        growing = growing_inputs(piece, weights, changed)
        program, arrays = read_graph(piece.module, weights, growing)
        labels = [each.label for each in user_inputs(program)]
        self._growth = _Growth(piece, growing)
        self._taken = [self._growth.position(label) for label in labels]
        self._results = Results(program)
        self._model: Any = compile_program(program, arrays, config)
        names = [name for name in piece.outputs if name not in self._growth.results]
        pairs = {i: updates[name] for i, name in enumerate(names) if name in updates}
        are_tensors = all(each.kind is OutputKind.TENSOR for each in program.outputs)
        self._kept = {i: labels.index(x) for i, x in pairs.items() if are_tensors and x in labels}
        """The positions of the model's inputs by those of the results in their memory."""

    def __call__(self, *args: Any) -> Sequence[Any]:
        if not self._growth.results:
            return self._run([args[i] for i in self._taken])
        rows = self._growth.claimed(args)
        values = (*args, *self._growth.counts(args))
        given = [rows[i].array if i in rows else values[i] for i in self._taken]
        try:
            found = self._run(given)
        except BaseException:
            for each in rows.values():
                each.release()
            raise
        return self._growth.merged(found, rows)

    def _run(self, given: Sequence[Any]) -> Sequence[Any]:
        """The results of the model for tensors, numbers and memories."""
        arrays = list(map(argument_of, given))
        found = self._run_in_place(given, arrays) if self._kept else None
        return self._results.of(self._model(*arrays)) if found is None else found

    def _run_in_place(self, given: Sequence[Any], arrays: Sequence[Any]) -> list[Any] | None:
        """The results; None if some cannot be written into the memory of inputs."""
        from torch.autograd.graph import increment_version

        model = self._model
        if any(arrays[i].ctypes.data != given[i].data_ptr() for i in self._kept.values()):
            return None
        is_static = isinstance(model, Executable)
        plan = model if is_static else model.plan_for(model.shapes_of(arrays), {})
        if session_layout(plan).states or session_layout(plan).counts:
            return None
        found = run_in_place(plan, arrays, self._kept)
        if found is None:
            return None
        changed = [given[i] for i in self._kept.values() if not given[i].is_inference()]
        if changed:
            increment_version(changed)
        return [
            given[self._kept[i]] if i in self._kept else tensor_of(array)
            for i, array in enumerate(found)
        ]


class _Growth:
    """The inputs of a piece that results extend."""

    def __init__(self, piece: Piece, growing: Sequence[Growing]) -> None:
        self._inputs = piece.inputs
        self._growing = [(piece.inputs.index(each.input), each) for each in growing]
        self._symbols = list(dict.fromkeys(x.rows for x in growing if not x.rows.isdecimal()))
        self.results = {each.result for each in growing}
        """The names of the results."""
        by_result = {each.result: i for i, each in self._growing}
        self._order = [by_result.get(name) for name in piece.outputs]
        """The input that each result extends, if any."""

    def position(self, label: str) -> int:
        """Where an input of the model is, among those of the piece and the numbers of rows."""
        if label.startswith(ROWS):
            return len(self._inputs) + self._symbols.index(label.removeprefix(ROWS))
        return self._inputs.index(label)

    def counts(self, args: Sequence[Any]) -> list[int]:
        """The numbers of rows that are inputs of the model."""
        found = {each.rows: args[i].shape[each.axis] for i, each in self._growing}
        return [found[symbol] for symbol in self._symbols]

    def claimed(self, args: Sequence[Any]) -> dict[int, Rows]:
        """The memories of the growing inputs, by position; those of as many rows are as large."""
        rooms: dict[str, int] = {}
        jobs: list[tuple[int, Growing, int]] = []
        for i, each in self._growing:
            x, more = args[i], each.more
            count = more if isinstance(more, int) else args[more.input].shape[more.axis]
            least = room_for_rows(x.shape[each.axis], count)
            own = least if each.rows.isdecimal() else room_of(x, each.axis, count) or least
            rooms[each.rows] = max(own, rooms.get(each.rows, 0))
            jobs.append((i, each, count))
        return {i: claim(args[i], x.axis, count, rooms[x.rows]) for i, x, count in jobs}

    def merged(self, found: Sequence[Any], rows: Mapping[int, Rows]) -> list[Any]:
        """The results of the piece; `found`: those of the model."""
        others = iter(found)
        return [next(others) if i is None else rows[i].extended() for i in self._order]
