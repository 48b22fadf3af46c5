"""Archives of programs of PyTorch, and damaged copies of them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
from __future__ import annotations

import copy
import json
import random
import zipfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from nnefc.support.errors import NnefError
from nnefc.support.limits import Limits
from tests.helpers import imports

LIMITS = Limits(operations=20_000, steps=200_000, items=2_000_000, tensor_bytes=1 << 26)
_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, 0, 1, -1, 7, 13, 1 << 40, 1 << 70, -(1 << 63), 0.5, "", "x", "../x", "Infinity"),
    *("Symbol('s0')", "__import__('os')", "torch.ops.aten.add.Tensor", "torch.load", [], {}),
    *({"as_int": 3}, {"as_name": "x"}, {"as_tensor": {"name": "x"}}, [[]], [1, 2, 3], "as_none"),
)


def members_of(archive: bytes) -> dict[str, bytes]:
    """The members of a zip archive."""
    with zipfile.ZipFile(BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def zipped(members: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """A zip archive of members."""
    out = BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def json_member(members: Mapping[str, bytes], end: str) -> tuple[str, Any]:
    """The name and the value of the member whose name ends so."""
    (name,) = (each for each in members if each.endswith(end))
    return name, json.loads(members[name])


def altered(archive: bytes, seed: int, count: int) -> Iterator[bytes]:
    """Copies in which some values of the JSON members are others."""
    rng = random.Random(seed)
    members = members_of(archive)
    names = [name for name in members if name.endswith(".json")]
    texts = {name: json.loads(members[name]) for name in names}
    for _ in range(count):
        name = rng.choice([*names, *[each for each in names if "models" in each] * 3])
        value = copy.deepcopy(texts[name])
        for _ in range(rng.choice((1, 1, 2, 3))):
            _alter(value, rng)
        yield zipped({**members, name: json.dumps(value).encode()})


def _alter(value: Any, rng: random.Random) -> None:
    """Replace, remove or repeat a value in an object or a list."""
    places = [(each, key) for each in _containers(value) for key in _keys(each)]
    if not places:
        return
    at, key = rng.choice(places)
    match rng.randrange(6):
        case 0:
            del at[key]
        case 1 if isinstance(at, list):
            at.append(copy.deepcopy(at[key]))
        case 2:
            at[key] = copy.deepcopy(rng.choice(places)[0])
        case 3:
            other, name = rng.choice(places)
            if name in _keys(other):
                at[key] = copy.deepcopy(other[name])
        case _:
            at[key] = copy.deepcopy(rng.choice(_VALUES))


def _keys(value: Any) -> list[Any]:
    return list(value) if isinstance(value, dict) else list(range(len(value)))


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        yield value
        for each in value.values() if isinstance(value, dict) else value:
            yield from _containers(each)


def import_or_refuse(path: Path) -> NnefError | None:
    """Import a damaged file for sample shapes; the error, or None if it is valid."""
    return imports.import_or_refuse(path, LIMITS)
