"""What is in the cache, and why what is wanted is not: for people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nnefc.kernels.target.processor import model_name
from nnefc.runtime.cache.entry import EntryStatus, Header, examine
from nnefc.runtime.cache.folder import CacheFolder, EntryFile, file_name
from nnefc.runtime.cache.key import INSTRUCTIONS, SOURCE, Facts, Key

if TYPE_CHECKING:
    from nnefc.support.progress import Progress


@dataclass(frozen=True, slots=True)
class SurveyedEntry:
    """An entry that was looked at."""

    file: EntryFile
    state: EntryStatus
    header: Header | None
    """None unless it is whole."""


def survey(
    folder: CacheFolder,
    progress: Progress | None = None,
    files: Sequence[EntryFile] | None = None,
) -> Iterator[SurveyedEntry]:
    """All entries, or those of `files`, checksums compared, in no order; that is no use of them."""
    if files is None:
        files = list(folder.entries())
    for done, file in enumerate(files):
        if progress is not None:
            progress(done, len(files), "entries")
        data = folder.look(file_name(file.name))
        if data is not None:
            yield SurveyedEntry(file, *examine(file.name, data))


@dataclass(frozen=True, slots=True)
class CacheLookup:
    """Whether a kernel is in the cache, and if not, why."""

    key: Key
    hit: bool
    reasons: tuple[str, ...] = ()


@dataclass(slots=True)
class EntryIndex:
    """Entries by what they are of, to explain what is not found."""

    entries: dict[str, SurveyedEntry] = field(default_factory=dict[str, SurveyedEntry])
    alike: defaultdict[tuple[str, str], list[Header]] = field(
        default_factory=lambda: defaultdict[tuple[str, str], list[Header]](list)
    )
    """By family and arguments."""

    @classmethod
    def of(cls, stored: Iterable[SurveyedEntry]) -> EntryIndex:
        """An index of what `survey` gives."""
        index = cls()
        for one in stored:
            index.entries[one.file.name] = one
            if one.header is not None:
                facts = one.header.facts
                index.alike[facts.get("family", ""), facts.get("arguments", "")].append(one.header)
        return index

    def explain(self, key: Key) -> CacheLookup:
        """Whether there is a whole entry; if not, how the nearest of the same kernel differs."""
        found = self.entries.get(key.name)
        if found is not None:
            whole = found.state == "whole"
            return CacheLookup(key, whole, () if whole else (f"the entry is {found.state}",))
        alike = self.alike[key.family, key.arguments]
        return CacheLookup(key, False, nearest_difference(alike, key.facts))


def nearest_difference(alike: Sequence[Header], wanted: Facts) -> tuple[str, ...]:
    """How what is wanted differs from the nearest of the entries that are like it."""
    if not alike:
        return ("never compiled, or evicted",)
    nearest = min(alike, key=lambda h: (len(_changed(h.facts, wanted)), -h.created))
    return tuple(differences(nearest, wanted))


def differences(old: Header, new: Facts) -> Iterator[str]:
    """How the facts of an entry differ from those that are wanted now, on this machine."""
    changed = _changed(old.facts, new)
    for name, (before, after) in changed.items():
        if not name.startswith((SOURCE, INSTRUCTIONS)) and name != "processor":
            yield f"{name} {before or 'none'} -> {after or 'none'}"
    row = f"{INSTRUCTIONS}: name"
    if row in changed:
        yield f"{INSTRUCTIONS} {' -> '.join(changed[row])}"
    elif parts := [name for name in changed if name.startswith(INSTRUCTIONS)]:
        yield f"{INSTRUCTIONS} is described otherwise: " + ", ".join(
            f"{name.partition(': ')[2]} {' -> '.join(changed[name])}" for name in parts
        )
    elif "processor" in changed:
        here = model_name()
        also = "with other features" if old.machine == here else f"here {here}"
        yield f"processor differs: {old.machine}, {also}"
    sources = [name.removeprefix(SOURCE) for name in changed if name.startswith(SOURCE)]
    if sources:
        yield f"{'source' if len(sources) == 1 else 'sources'} {', '.join(sources)} changed"


def _changed(old: Facts, new: Facts) -> Mapping[str, tuple[str, str]]:
    """Facts that differ: before and after, empty where there is none."""
    names = dict.fromkeys([*new, *old])
    both = {name: (old.get(name, ""), new.get(name, "")) for name in names}
    return {name: pair for name, pair in both.items() if pair[0] != pair[1]}
