"""Reports on the cache: its entries, and why a kernel is not among them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nnefc.kernels.target.processor import model_name
from nnefc.runtime.cache.entry_format import EntryStatus, Header, examine
from nnefc.runtime.cache.key import INSTRUCTIONS, SOURCE, Facts, Key
from nnefc.runtime.cache.lru_folder import EntryFile, LruFolder, kernel_file_name

if TYPE_CHECKING:
    from nnefc.support.progress import Progress


@dataclass(frozen=True, slots=True)
class SurveyedEntry:
    """An entry, whether it is whole, and its header."""

    file: EntryFile
    status: EntryStatus
    header: Header | None
    """None unless it is whole."""


def survey(
    folder: LruFolder,
    progress: Progress | None = None,
    files: Sequence[EntryFile] | None = None,
) -> Iterator[SurveyedEntry]:
    """All entries, or those of `files`, with checksums compared; does not count as a use."""
    if files is None:
        files = list(folder.entries())
    for done, file in enumerate(files):
        if progress is not None:
            progress(done, len(files), "entries")
        data = folder.peek(kernel_file_name(file.name))
        if data is not None:
            yield SurveyedEntry(file, *examine(file.name, data))


@dataclass(frozen=True, slots=True)
class CacheLookup:
    """Whether a kernel is shipped or in the cache, and if not, why."""

    key: Key
    hit: bool
    reasons: tuple[str, ...] = ()
    shipped: bool = False
    """Whether it is used from a pack; nothing is known about the cache then."""


@dataclass(slots=True)
class EntryIndex:
    """Entries by name and by kernel, which explain cache misses."""

    entries: dict[str, SurveyedEntry] = field(default_factory=dict[str, SurveyedEntry])
    alike: defaultdict[tuple[str, str], list[Header]] = field(
        default_factory=lambda: defaultdict[tuple[str, str], list[Header]](list)
    )
    """Headers by family and arguments."""

    @classmethod
    def of(cls, stored: Iterable[SurveyedEntry]) -> EntryIndex:
        """An index of the entries that `survey` returns."""
        index = cls()
        for one in stored:
            index.entries[one.file.name] = one
            if one.header is not None:
                facts = one.header.facts
                index.alike[facts.get("family", ""), facts.get("arguments", "")].append(one.header)
        return index

    def explain(self, key: Key) -> CacheLookup:
        """Whether a whole entry exists; if not, how the nearest one of the same kernel differs."""
        entry = self.entries.get(key.name)
        if entry is not None:
            whole = entry.status == "whole"
            return CacheLookup(key, whole, () if whole else (f"the entry is {entry.status}",))
        alike = self.alike[key.family, key.arguments]
        return CacheLookup(key, False, nearest_difference(alike, key.facts))


def nearest_difference(
    alike: Sequence[Header], wanted: Facts, none: str = "never compiled, or evicted"
) -> tuple[str, ...]:
    """How the wanted facts differ from those of the entry with the fewest differences.

    `none`: the reason if no entry is alike.
    """
    if not alike:
        return (none,)
    nearest = min(alike, key=lambda h: (len(_changed(h.facts, wanted)), -h.created))
    return tuple(differences(nearest, wanted))


def differences(old: Header, new: Facts) -> Iterator[str]:
    """How the facts of an entry differ from the facts `new` on this machine."""
    changed = _changed(old.facts, new)
    for name, (before, after) in changed.items():
        if not name.startswith((SOURCE, INSTRUCTIONS)) and name != "processor":
            yield f"{name} {before or 'none'} -> {after or 'none'}"
    row = f"{INSTRUCTIONS}: name"
    if row in changed:
        yield f"{INSTRUCTIONS} {' -> '.join(changed[row])}"
    elif rows := [name for name in changed if name.startswith(INSTRUCTIONS)]:
        yield f"{INSTRUCTIONS} differs: " + ", ".join(
            f"{name.partition(': ')[2]} {' -> '.join(changed[name])}" for name in rows
        )
    elif "processor" in changed:
        here = model_name()
        also = "with other features" if old.machine == here else f"here {here}"
        yield f"processor differs: {old.machine}, {also}"
    sources = [name.removeprefix(SOURCE) for name in changed if name.startswith(SOURCE)]
    if sources:
        yield f"{'source' if len(sources) == 1 else 'sources'} {', '.join(sources)} changed"


def _changed(old: Facts, new: Facts) -> Mapping[str, tuple[str, str]]:
    """(old, new) values of facts that differ; empty for a missing fact."""
    names = dict.fromkeys([*new, *old])
    both = {name: (old.get(name, ""), new.get(name, "")) for name in names}
    return {name: pair for name, pair in both.items() if pair[0] != pair[1]}
